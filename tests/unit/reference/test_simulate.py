"""The prediction, against counters that real servers showed (vLLM 0.16.0, 0.25.1 on a GPU, 0.32.0)."""

from __future__ import annotations

import pytest

from kit.reference import DRAFTERS, expected_text, predict
from kit.reference.drafters import AUX_POISONED

MEASURED = [  # prompt t5, 5 draft tokens: drafter, new tokens, drafts, accepted, per position
    ("full", 100, 17, 85, (17, 17, 17, 17, 17)),
    ("reduced", 100, 17, 85, (17, 17, 17, 17, 17)),
    ("aux", 100, 17, 85, (17, 17, 17, 17, 17)),
    ("partial", 100, 19, 81, (17, 16, 16, 16, 16)),
    ("half", 100, 50, 49, (49, 0, 0, 0, 0)),
    ("never", 100, 99, 0, (0, 0, 0, 0, 0)),
    (AUX_POISONED, 100, 94, 5, (1, 1, 1, 1, 1)),
    ("full", 60, 10, 50, (10, 10, 10, 10, 10)),
]


@pytest.mark.parametrize(("drafter", "length", "drafts", "accepted", "per_position"), MEASURED)
def test_prediction_is_what_servers_counted(drafter, length, drafts, accepted, per_position):
    found = predict(drafter, 5, length, 5)
    assert (found.num_drafts, found.num_accepted_tokens, found.per_position) == (drafts, accepted, per_position)
    assert found.num_draft_tokens == 5 * drafts


def test_rates_and_text():
    found = predict("partial", 5, 100, 5).as_dict()
    assert found["acceptance_rate"] == pytest.approx(81 / 95, abs=1e-6)
    assert found["mean_acceptance_length"] == pytest.approx(1 + 81 / 19, abs=1e-6)
    assert found["text"].split()[:3] == ["t12", "t19", "t26"] and len(found["text"].split()) == 100


@pytest.mark.parametrize("drafter", [*DRAFTERS, AUX_POISONED])
def test_text_never_depends_on_the_drafter(drafter):
    for length in (1, 2, 7, 300):
        words = " ".join(f"t{token}" for token in predict(drafter, 100, length, 3).tokens)
        assert words == expected_text(100, length)
        assert len(words.split()) == length


def test_one_token_needs_no_draft():
    found = predict("full", 0, 1, 5)
    assert (found.num_drafts, found.acceptance_rate, found.mean_acceptance_length) == (0, 0.0, 1.0)


@pytest.mark.parametrize(("token", "length", "k"), [(128, 5, 5), (-1, 5, 5), (5, 0, 5), (5, 5, 0)])
def test_what_cannot_be_predicted_is_refused(token, length, k):
    with pytest.raises(ValueError):
        predict("full", token, length, k)
