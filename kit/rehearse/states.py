"""Runs inside vLLM's workers during a rehearsal (--worker-extension-cls): watches auxiliary hidden states.

Forward hooks on the layers see the residual stream with their own eyes; the states that the model hands to the
drafter must equal it bit for bit. Stands alone: the container sees this one file, and vLLM's own Python runs it.
"""

from __future__ import annotations

from typing import Any


class AuxiliaryStates:
    """Methods that become part of each worker; the API calls them by name, one answer for each worker."""

    def kit_watch_states(self) -> list[int]:
        """Hang the hooks; returns the layers whose input the drafter is given."""
        model = self.model_runner.get_model()  # type: ignore[attr-defined]
        inner = getattr(model, "language_model", model).model
        layers = [int(layer) for layer in inner.aux_hidden_state_layers]
        seen: dict[int, Any] = {}
        counts = {"forwards": 0, "compared": 0, "equal": 0}

        def after_layer(number: int) -> Any:
            def hook(module: Any, inputs: Any, output: Any) -> None:
                hidden, residual = output
                seen[number] = hidden + residual

            return hook

        def after_model(module: Any, inputs: Any, output: Any) -> None:
            counts["forwards"] += 1
            for layer, state in zip(layers, output[1], strict=True):
                counts["compared"] += 1
                counts["equal"] += int(bool((seen[layer - 1] == state).all()) and seen[layer - 1].shape == state.shape)

        for layer in layers:
            inner.layers[layer - 1].register_forward_hook(after_layer(layer - 1))
        model.register_forward_hook(after_model)  # the inner one is called past its hooks when not compiled
        self._kit_counts = counts
        return layers

    def kit_states(self) -> dict[str, int]:
        """How many passes through the model were watched, states compared, and found equal."""
        return dict(self._kit_counts)
