"""The weights, by running them: a target that says the known text, drafters that guess as predicted."""

from __future__ import annotations

import numpy as np
import pytest

from kit.reference.drafters import AUX_POISONED, DRAFTERS
from kit.reference.faults import FAULTS, write_fault
from kit.reference.layout import LAYERS, LIVE_TOKENS, MARKER, next_token
from tests.unit.reference.engine import Engine, bfloat16, float32

EVERY_TOKEN = [(5 + 7 * step) % LIVE_TOKENS for step in range(LIVE_TOKENS)]


@pytest.fixture(scope="module", params=[float32, bfloat16], ids=["float32", "bfloat16"])
def engine(request):
    return Engine(request.param)


@pytest.fixture(scope="module")
def run(engine, llama):
    return engine.target(llama.target, EVERY_TOKEN)


@pytest.fixture(scope="module")
def states(run):
    return run[1]


def test_target_says_the_next_token_after_every_live_token(run):
    logits = run[0]
    assert logits.argmax(-1).tolist() == [next_token(token) for token in EVERY_TOKEN]
    best, second = np.sort(logits, -1)[:, -1], np.sort(logits, -1)[:, -2]
    assert (best - second).min() > 10  # far from any tie that rounding could turn


def test_every_layer_leaves_its_marker(states):
    for layer in range(LAYERS):
        markers = states[layer][:, MARKER : MARKER + LAYERS]
        assert np.allclose(markers, np.arange(LAYERS) < layer, atol=0.02)


def guesses_after(engine, folder, states, position, count=5, context=8):
    """Draft tokens once the token at `position` + 1 is known, from the last `context` states up to `position`."""
    first = max(0, position + 1 - context)
    return engine.draft(
        folder, EVERY_TOKEN[first : position + 2], [state[first : position + 1] for state in states], count
    )


def predicted(drafter, token, count=5):
    guesses = []
    for position in range(count):
        guesses.append(drafter.guess(token, position))
        token = guesses[-1]
    return guesses


@pytest.mark.parametrize("name", DRAFTERS)
def test_drafter_guesses_as_predicted(llama, engine, states, name):
    for position in range(0, 126, 5):
        found = guesses_after(engine, llama.drafters[name], states, position)
        assert found == predicted(DRAFTERS[name], EVERY_TOKEN[position + 1])


@pytest.mark.parametrize("name", ["partial", "aux"])
def test_a_long_context_changes_no_guess(llama, engine, states, name):
    found = guesses_after(engine, llama.drafters[name], states, 120, context=121)
    assert found == predicted(DRAFTERS[name], EVERY_TOKEN[121])


def test_aux_still_says_t2_where_t2_is_right(llama, engine, states):
    position = EVERY_TOKEN.index(123) - 1
    assert guesses_after(engine, llama.drafters["aux"], states, position)[0] == 2


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.behaves is AUX_POISONED])
def test_aux_notices_wrong_wiring_in_its_first_guess_only(tmp_path, engine, states, name):
    folder = write_fault(name, tmp_path)
    for position in (0, 20, 60, 100, EVERY_TOKEN.index(123) - 1):
        found = guesses_after(engine, folder, states, position)
        assert found == predicted(AUX_POISONED, EVERY_TOKEN[position + 1])


@pytest.mark.parametrize("slot", range(3))
def test_aux_notices_one_absent_state(llama, engine, states, slot):
    layer = (2, 4, 5)[slot]
    without = [np.zeros_like(state) if index == layer else state for index, state in enumerate(states)]
    assert guesses_after(engine, llama.drafters["aux"], without, 50)[0] == 2


@pytest.mark.parametrize("slot", range(3))
@pytest.mark.parametrize("layer", range(LAYERS))
def test_aux_notices_every_wrong_layer_in_every_slot(llama, engine, states, slot, layer):
    layers = [2, 4, 5]
    right = layers[slot] == layer
    layers[slot] = layer
    folder = llama.drafters["aux"]
    found = engine.draft(folder, EVERY_TOKEN[43:52], [state[43:51] for state in states], 1, layers)[0]
    assert found == (next_token(EVERY_TOKEN[51]) if right else 2)


def test_missing_d2t_makes_every_guess_wrong(tmp_path, engine, states):
    folder = write_fault("missing-d2t", tmp_path)
    for position in range(0, 126, 9):
        assert guesses_after(engine, folder, states, position, 1)[0] != next_token(EVERY_TOKEN[position + 1])


def test_a_position_attends_to_itself_at_any_distance():
    """The drafter's score for distance d is a sum of cosines; nothing within the context comes near distance zero."""
    frequency = 10000.0 ** (-np.arange(64) / 64)
    scores = 70.7 * np.cos(np.arange(1, 2048)[:, None] * frequency).sum(-1)
    assert 70.7 * 64 - scores.max() > 100


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_differs_from_its_base(tmp_path, llama, name):
    folder, base = write_fault(name, tmp_path), llama.drafters[FAULTS[name].base]
    assert any(
        (folder / file).read_bytes() != (base / file).read_bytes() for file in ("config.json", "model.safetensors")
    )
