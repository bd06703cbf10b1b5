"""From a deployment to the files that run it. `templates/` mirrors the rendered tree file by file.

A new rendered file is a new template; a value in it passes through a quoting filter of
`kit.render.quote`, or the template fails.
"""

from typing import TYPE_CHECKING, Any

from kit.render.container import ContainerSpec, container_spec

if TYPE_CHECKING:
    from kit.render.files import Rendered, render

__all__ = ["ContainerSpec", "Rendered", "container_spec", "render"]


def __getattr__(name: str) -> Any:
    """The two that need the template engine are loaded when they are asked for."""
    if name in ("Rendered", "render"):
        from kit.render import files

        return getattr(files, name)
    raise AttributeError(name)
