"""The stand-in GPU machine."""

from tests.standin.plugin import kit_json, library, machine

__all__ = ["kit_json", "library", "machine"]
