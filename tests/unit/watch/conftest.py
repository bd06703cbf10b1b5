from tests.standin.plugin import library, machine

__all__ = ["library", "machine"]
