"""Every input by hash: choosing versions (resolve), the lists under images/ (wheels, debs), the lock of a deployment.

`document` is the lock's format and its differences in words; `deployment` gathers, checks and writes it.
"""
