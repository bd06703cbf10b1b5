"""Patches: what each mends, which an image of a vLLM release gets, and how that is checked.

The pure part is `catalog`, `plan`, `check` and `stage`; `source` fetches; `inside` works in the image.
"""
