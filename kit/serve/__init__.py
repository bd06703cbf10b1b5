"""The running service: prepare, start, watch until ready, stop, look at.

`container` speaks to Docker, `api` to the served API, `start` holds the way from a deployment to a
ready service or a diagnosis.
"""
