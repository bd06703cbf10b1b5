"""Watching a start and what runs: which stage each process is in, how far, how long still, and what hangs.

`patterns` reads the data (stages.toml), `stages` is the pure tracker fed with log lines, `estimate` and
`hang` judge, `resources` and `processes` look at this machine, `live` and `events` show.
"""
