"""What is really in an image: its Debian and Python packages as a CycloneDX document."""

from kit.sbom.document import sbom

__all__ = ["sbom"]
