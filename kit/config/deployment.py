"""A loaded kit.yaml: the typed values, where each came from, and the places derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.config.schema import Kit
from kit.config.tree import KeyPath


@dataclass(frozen=True)
class Deployment:
    """One deployment: `kit` holds the values, `file` is where they were read.

    `sources` maps each key path to where its value came from ("kit.yaml:12", "KIT_SERVER_PORT",
    "--set"); a key that is not in it has its default.
    """

    kit: Kit
    file: Path
    sources: dict[KeyPath, str]

    @property
    def name(self) -> str:
        return self.kit.name

    @property
    def folder(self) -> Path:
        """The folder of kit.yaml; relative paths in it start here."""
        return self.file.parent

    @property
    def state(self) -> Path:
        """Where this deployment keeps what it makes: rendered files, runs, logs, reports."""
        return self.folder / ".kit" / self.name

    @property
    def rendered(self) -> Path:
        """The rendered tree."""
        return self.state / "rendered"

    def path(self, text: str) -> Path:
        """A path of kit.yaml made absolute; `~` is the home of whoever runs the kit."""
        return (self.folder / Path(text).expanduser()).absolute()

    @property
    def api_key_copy(self) -> Path:
        """The copy of the API key that the container's user may read, in a folder only its owner may enter."""
        return self.state / "secrets" / "api_key"

    @property
    def runs(self) -> Path:
        """One folder for each start: logs, smoke result, diagnosis."""
        return self.state / "runs"

    @property
    def image_recipe(self) -> str:
        """The recipe under images/ that builds this deployment's image."""
        return self.kit.engine.image or f"vllm-{self.kit.engine.device}"

    @property
    def target(self) -> Path:
        """The folder of the target model on this machine."""
        model = self.kit.model
        if model.path:
            return self.path(model.path)
        from kit.reference.store import target_name  # numpy: only where a reference model is used

        return self.reference / target_name(str(model.reference), self.kit.engine.vllm)

    @property
    def drafter(self) -> Path | None:
        """The folder of the drafter on this machine; None without speculative decoding."""
        if self.kit.speculative is None:
            return None
        drafter = self.kit.speculative.drafter
        return self.path(drafter.path) if drafter.path else self.reference / "drafters" / str(drafter.reference)

    @property
    def reference(self) -> Path:
        """Where reference models are written for the deployments of this folder."""
        return self.folder / ".kit" / "reference"
