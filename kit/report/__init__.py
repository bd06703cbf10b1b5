"""`kit report`: one HTML page of a start or of a diagnosis, for people who were not there.

`inputs` reads what a run left, `collect` puts it together, `timeline` and `charts` lay out the drawings, `page` writes
the HTML. Everything but `collect` is pure.
"""
