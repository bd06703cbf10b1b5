"""The Docker engine: found on the machine, or a private one of the kit's own.

from kit.engine import connect
engine = connect()
with contextlib.closing(engine.client()) as client: ...
"""

from kit.engine.find import Engine, connect

__all__ = ["Engine", "connect"]
