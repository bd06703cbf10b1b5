"""kit: build, check, start, watch and hand over a pinned and patched vLLM."""

__version__ = "0.1.0"
