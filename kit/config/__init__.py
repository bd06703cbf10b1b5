"""kit.yaml as typed models: one schema for every deployment.

`load` reads a file, lays KIT_* variables and `--set` over it, and returns a `Deployment`;
every fault in the file is reported at once.
"""

from kit.config.deployment import Deployment
from kit.config.load import find, load
from kit.config.schema import Kit

__all__ = ["Deployment", "Kit", "find", "load"]
