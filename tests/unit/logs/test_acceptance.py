"""When the SpecDecoding lines say that drafting does not pay."""

import pytest

from kit.logs.acceptance import Acceptance, parse
from kit.logs.model import Line


def line(number: int, accepted: int, drafted: int, positions: str, length: float) -> Line:
    counts = f"Accepted: {accepted} tokens, Drafted: {drafted} tokens"
    return Line(
        number,
        f"SpecDecoding metrics: Mean acceptance length: {length:.2f}, Accepted throughput: 1.00 tokens/s, {counts}, "
        f"Per-position acceptance rate: {positions}, Avg Draft acceptance rate: 1.0%",
    )


def series(*points: tuple[int, float]) -> list[Line]:
    return [line(n, accepted, 5000, "0.600, 0.300", length) for n, (accepted, length) in enumerate(points)]


def judged(*lines: Line, guessing: bool = False) -> int | None:
    acceptance = Acceptance()
    for one in lines:
        acceptance.add(one)
    found = acceptance.judge(guessing=guessing)
    return found[0].line if found else None


def test_the_counts_of_a_line_are_read() -> None:
    sample = parse(line(3, 929, 5000, "0.470, 0.250, 0.120", 1.93))
    assert sample is not None
    assert (sample.accepted, sample.drafted, sample.first, sample.length) == (929, 5000, 0.47, 1.93)
    assert parse(Line(1, "SpecDecoding metrics: Mean acceptance length: 1.9")) is None


@pytest.mark.parametrize(
    ("lines", "guessing", "found"),
    [
        ([line(5, 0, 1842, "0.000, 0.000", 1.0), line(6, 0, 900, "0.000, 0.000", 1.0)], False, 5),
        ([line(5, 0, 50, "0.000, 0.000", 1.0)], False, None),  # too few to say
        ([line(5, 200, 4000, "0.180, 0.020, 0.000", 1.2)], False, 5),  # only a part of the first position
        ([line(5, 1500, 4000, "0.700, 0.500, 0.300", 2.5)], False, None),
        ([line(5, 300, 4000, "0.150, 0.050, 0.010", 1.3)], True, None),  # n-gram lookup guesses
        ([line(5, 0, 4000, "0.000, 0.000", 1.0)], True, 5),
        (series((2410, 3.41), (2020, 3.02), (1440, 2.44), (929, 1.93)), False, 3),
        (series((2410, 3.4), (1440, 2.4), (2020, 3.0), (1900, 2.9)), False, None),
    ],
)  # fmt: skip
def test_low_or_falling_acceptance_is_seen(lines: list[Line], guessing: bool, found: int | None) -> None:
    assert judged(*lines, guessing=guessing) == found


def test_a_day_of_lines_takes_no_more_room_than_an_hour() -> None:
    acceptance = Acceptance()
    for number in range(20_000):
        acceptance.add(line(number, 2000, 5000, "0.700, 0.400", 2.5))
    assert len(acceptance.samples) <= 512
    assert acceptance.judge() is None
