"""Reference drafters with one fault each, for tests of whatever must notice them: preflight, smoke, diagnosis.

Each is a real drafter with a small edit of its config or tensors. The text says what vLLM 0.32.0 made of it on the CPU.
A new fault goes at the end: a name, a base drafter, an edit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kit.reference import drafters
from kit.reference.configs import Json
from kit.reference.layout import AUXILIARY_LAYERS, HIDDEN, LIVE_TOKENS
from kit.reference.store import drafter_files, replace_folder
from kit.reference.targets import Tensors

Edit = Callable[[Json, Tensors], None]
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True)
class Fault:
    """One fault: the drafter it spoils, how, and what vLLM does with it.

    `behaves` describes the guesses of a server that starts healthy with it (for `predict`); None where none answers, or
    where nobody can say.
    """

    base: str
    edit: Edit
    effect: str
    behaves: drafters.Drafter | None = None


def layer_ids(*layers: int) -> Edit:
    """Ask the target for the states of these layers."""

    def edit(config: Json, tensors: Tensors) -> None:
        config[LAYER_IDS] = list(layers)

    return edit


def swapped_slots(config: Json, tensors: Tensors) -> None:
    """Let fc read the first two states in each other's place."""
    first, second, third = np.split(tensors["fc.weight"], len(AUXILIARY_LAYERS), axis=1)
    tensors["fc.weight"] = np.concatenate([second, first, third], axis=1)


def zero_fc(config: Json, tensors: Tensors) -> None:
    """Drop all states, as an engine would that hands over zeros."""
    tensors["fc.weight"] = np.zeros_like(tensors["fc.weight"])


def missing_fc(config: Json, tensors: Tensors) -> None:
    """Leave fc out of the checkpoint."""
    del tensors["fc.weight"]


def narrow_fc(config: Json, tensors: Tensors) -> None:
    """An fc for two states instead of three."""
    tensors["fc.weight"] = tensors["fc.weight"][:, : 2 * HIDDEN]


def half_hidden_size(config: Json, tensors: Tensors) -> None:
    """A drafter made for a target of half the hidden size; every tensor agrees with its config."""
    half = HIDDEN // 2
    config["hidden_size"] = half
    for name, tensor in tensors.items():
        shape = tuple(half if size == HIDDEN else 3 * half if size == 3 * HIDDEN else size for size in tensor.shape)
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            shape = (tensor.shape[0], 2 * half)
        elif name.endswith("o_proj.weight"):
            shape = (half, tensor.shape[1])
        tensors[name] = tensor[tuple(slice(size) for size in shape)]


def other_vocabulary(config: Json, tensors: Tensors) -> None:
    """A config that names another vocabulary than the tensors have."""
    config["vocab_size"] = config["draft_vocab_size"] = LIVE_TOKENS


def missing_d2t(config: Json, tensors: Tensors) -> None:
    """Leave out the map from draft tokens to the target's."""
    del tensors["d2t"]


MISWIRED = "starts healthy; the first guess of each draft is t2"

FAULTS = {
    "late-layers": Fault("aux", layer_ids(2, 4, 6), MISWIRED, drafters.AUX_POISONED),
    "early-layers": Fault("aux", layer_ids(1, 4, 5), MISWIRED, drafters.AUX_POISONED),
    "duplicate-layers": Fault("full", layer_ids(2, 4, 4), "starts healthy; the first request dies of a shape"),
    "layer-out-of-range": Fault("full", layer_ids(2, 4, 60), "starts healthy; the first request dies of a shape"),
    "swapped-slots": Fault("aux", swapped_slots, MISWIRED, drafters.AUX_POISONED),
    "zero-fc": Fault("aux", zero_fc, MISWIRED, drafters.AUX_POISONED),
    "missing-fc": Fault("aux", missing_fc, "starts healthy on uninitialised memory; seen as if it were zero"),
    "narrow-fc": Fault("full", narrow_fc, "dies while it loads the drafter"),
    "half-hidden-size": Fault("full", half_hidden_size, "starts healthy when eager; the first request dies"),
    "other-vocabulary": Fault("full", other_vocabulary, "dies while it loads the drafter: a bare AssertionError"),
    "missing-d2t": Fault("reduced", missing_d2t, "starts healthy; every guess is wrong", drafters.DRAFTERS["never"]),
}


def write_fault(name: str, folder: Path) -> Path:
    """Write the drafter with this fault to folder/NAME and return that path. KeyError for an unknown name."""
    fault = FAULTS[name]
    drafter = drafters.DRAFTERS[fault.base]
    config, tensors = drafters.config(drafter), drafters.weights(drafter)
    fault.edit(config, tensors)
    replace_folder(folder / name, drafter_files(config, tensors))
    return folder / name
