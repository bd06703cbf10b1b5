"""`kit support`: one archive with what a colleague needs to help, without secrets, names and addresses.

`redact` is pure and its rules are data (redactions.toml); `collect` gathers, `archive` writes.
"""
