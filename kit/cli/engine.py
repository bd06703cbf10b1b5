"""`kit engine`: the Docker engine in use, and the kit's private one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kit.cli import out
from kit.cli.options import Json, group
from kit.errors import UsageError

if TYPE_CHECKING:
    from kit.engine.layout import Layout

app = group("Show the Docker engine in use; set up or remove a private one.")


@app.command()
def status(json: Json = False) -> None:
    """Say which engine is used, and what it can do."""
    from kit.engine import connect, private
    from kit.engine.layout import Layout
    from kit.home import kit_home

    engine = connect(out.say)
    facts: dict[str, object] = {
        "schema": "kit.engine/1",
        "kind": engine.kind,
        "host": engine.host,
        "source": engine.source,
        "version": engine.version,
        "containerd_store": engine.containerd_store,
        "cdi": engine.cdi,
        "runtimes": list(engine.runtimes),
        "data_root": engine.data_root,
    }
    if engine.kind == "private":
        facts["packages"] = private.versions(Layout(kit_home()))
    if json:
        out.as_json(facts)
        return
    out.data(f"{engine.kind} engine {engine.version} at {engine.host} (from {engine.source})")
    out.data(f"image store: {'containerd' if engine.containerd_store else 'classic (equal builds are not promised)'}")
    out.data(f"GPU requests by CDI: {'yes' if engine.cdi else 'no'}; runtimes: {', '.join(engine.runtimes)}")
    out.data(f"data: {engine.data_root}")


@app.command()
def setup(
    private_too: Annotated[
        bool, typer.Option("--private", help="Make a private engine even where another one answers.")
    ] = False,
) -> None:
    """Set up and start a private engine, unless a Docker engine is there already."""
    from kit.engine import private
    from kit.engine.find import found_host
    from kit.engine.layout import Layout
    from kit.home import kit_home

    layout = Layout(kit_home())
    if not private_too and not private.is_set_up(layout) and (host := found_host()):
        out.say(f"engine: using the Docker engine at {host}; nothing to set up")
        return
    private.setup(layout, out.say)
    out.say(f"engine: private engine at {layout.host}")


@app.command()
def start() -> None:
    """Start the private engine."""
    from kit.engine import private

    private.start(_layout(), out.say)


@app.command()
def stop() -> None:
    """Stop the private engine and the containers in it; images and volumes stay."""
    from kit.engine import private

    if not private.stop(_layout(), out.say):
        out.say("engine: the private engine was not running")


@app.command()
def remove(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete the private engine with its images, containers and volumes."""
    from kit.engine import private
    from kit.engine.layout import Layout
    from kit.home import kit_home

    layout = Layout(kit_home())
    if not layout.folder.exists():
        out.say("engine: there is no private engine here")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("this deletes the private engine's images and volumes", hint="kit engine remove --yes")
        typer.confirm(f"Delete {layout.folder} with all images, containers and volumes in it?", abort=True, err=True)
    private.remove(layout, out.say)
    out.say(f"engine: removed {layout.folder}")


def _layout() -> Layout:
    from kit.engine import private
    from kit.engine.layout import Layout
    from kit.home import kit_home

    layout = Layout(kit_home())
    if not private.is_set_up(layout):
        raise UsageError("no private engine is set up here", hint="kit engine setup")
    return layout
