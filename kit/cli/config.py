"""`kit config`: check kit.yaml, show each value and where it came from, print the schema."""

from __future__ import annotations

from kit.cli import out
from kit.cli.options import File, Json, Sets, group

app = group("Check kit.yaml, show where each value came from, print its schema.")


@app.command()
def check(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Say whether kit.yaml is good; name every fault in it at once."""
    from kit.config import load

    deployment = load(file, sets)
    if json:
        out.as_json({"schema": "kit.config-check/1", "verdict": "pass", "name": deployment.name})
    else:
        out.say(f"{deployment.file}: good ({deployment.name})")


@app.command()
def show(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Print every value in force and where it came from."""
    from kit.config import load
    from kit.config.show import settings

    rows = settings(load(file, sets))
    if json:
        out.as_json({"schema": "kit.config/1", "settings": [row.__dict__ for row in rows]})
        return
    width = max(len(row.key) for row in rows)
    for row in rows:
        out.data(f"{row.key:<{width}}  {out.clean(row.text):<32}  {out.clean(row.source)}")


@app.command()
def schema() -> None:
    """Print the JSON schema of kit.yaml (editors can check against it)."""
    from kit.config import Kit

    out.as_json(Kit.model_json_schema())
