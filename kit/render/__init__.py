"""From a deployment to the files that run it. `templates/` mirrors the rendered tree file by file.

A new rendered file is a new template; a value in it passes through a quoting filter of
`kit.render.quote`, or the template fails.
"""

from kit.render.container import ContainerSpec, container_spec
from kit.render.files import Rendered, render

__all__ = ["ContainerSpec", "Rendered", "container_spec", "render"]
