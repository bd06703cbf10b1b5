"""The rehearsal: the deployment's own vLLM and patches serve a tiny target of the same form, before 547 GB are touched.

`twin` derives the small deployment, `scenarios` says which patches are left out on purpose and what must then be
seen, `run` starts them. `states` is the one file that the engine itself runs.
"""
