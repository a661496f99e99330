"""Two that write one stream of rows are told from one that was restarted, whatever their turns."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.observed import Row
from cockpit.model.trend import Trend
from cockpit.rules.jobs.duplicates import duplicate_job
from cockpit.rules.metrics.numerics import TrendFold, advance
from cockpit.rules.replay import Standing, judge_rows
from tests.rules.making import T0, history, job, run_spec

RUN = run_spec()
Turns = Callable[[], tuple[int, int]]


@cache
def noise(step: int) -> float:
    return random.Random(step).uniform(-0.05, 0.05)


def rows(steps: Sequence[int], loss: float = 2.0) -> list[Row]:
    return [Row(step, None, loss + noise(step)) for step in steps]


def by_turns(one: list[Row], other: list[Row], turns: Turns) -> list[Row]:
    """Rows of two writers, so many of each at a time, each with the time at which it came."""
    mixed: list[Row] = []
    one, other = one[::-1], other[::-1]
    while one or other:
        for rest, count in zip((one, other), turns(), strict=True):
            mixed += [rest.pop() for _ in range(min(count, len(rest)))]
    return mixed


def timed(found: list[Row]) -> list[Row]:
    return [row._replace(at=T0 + 2 * number) for number, row in enumerate(found)]


def fold(found: list[Row]) -> TrendFold:
    folded = TrendFold(Trend(), RUN)
    for row in timed(found):
        folded.add(row)
    return folded


def each(one: int, other: int) -> Callable[[], Turns]:
    return lambda: lambda: (one, other)


def uneven() -> Turns:
    by = random.Random(1)
    return lambda: (by.randint(0, 30), by.randint(0, 30))


FORMER = rows(range(1000))
TURNS: dict[str, Callable[[], Turns]] = {
    "strict": each(1, 1),
    "bursts": each(20, 20),
    "long bursts": each(100, 100),
    "uneven bursts": uneven,
    "the first slow": each(1, 50),
    "the second slow": each(50, 1),
    "the second very slow": each(500, 1),
}
STRICT = TURNS["strict"]()


@pytest.mark.parametrize("before", [[], FORMER], ids=["at once", "later"])
@pytest.mark.parametrize("lead", [-900, -60, -43, 40, 700])
@pytest.mark.parametrize("strides", [(1, 1), (10, 10), (1, 10), (10, 1), (10, 7)], ids=str)
@pytest.mark.parametrize("turns", TURNS)
def test_two_by_turns_are_one_restart_or_none(
    turns: str, strides: tuple[int, int], lead: int, before: list[Row]
) -> None:
    one = rows(range(1000, 1000 + 700 * strides[0], strides[0]))
    other = rows(range(1000 + lead, 1000 + lead + 700 * strides[1], strides[1]))
    found = fold([*before, *by_turns(one, other, TURNS[turns]())])
    writers = found.freeze().writers
    most = 4 if turns == "uneven bursts" else 2
    assert found.pace.resumes <= most, "700 turns were 700 restarts"
    assert writers.turns and found.freeze().stepping.backs <= most


@given(st.integers(0, 2**32))
def test_restarts_stay_restarts(seed: int) -> None:
    by, found, at = random.Random(seed), list[Row](), 0
    stride = by.choice([1, 1, 5, 10])
    for _ in range(by.randint(1, 12)):
        some = range(at, at + by.randint(3, 300) * stride, stride)
        found += rows(some)
        at = max(0, some[-1] - by.randint(0, 150) // stride * stride)
    folded = fold(found)
    backs = sum((late.step or 0) < (row.step or 0) for row, late in pairwise(found))
    assert folded.pace.resumes == backs
    assert folded.freeze().writers.turns == folded.freeze().writers.aside == 0


def test_a_restart_at_the_end_of_one_long_over_is_a_restart() -> None:
    found = fold([*rows(range(1001)), *rows(range(900, 1200)), *rows(range(1001, 1300))])
    assert found.pace.resumes == 2 and found.freeze().writers.turns == 0


def test_when_one_of_them_ends_the_other_is_followed() -> None:
    both = by_turns(rows(range(1000, 1100)), rows(range(500, 600)), STRICT)
    folded = fold([*FORMER, *both, *rows(range(1100, 1300))])
    assert (folded.pace.step, folded.pace.resumes) == (1299, 1)
    folded = fold([*FORMER, *both, *rows(range(600, 800))])
    assert (folded.pace.step, folded.pace.resumes) == (799, 1)


def test_a_restart_of_one_of_them_is_seen() -> None:
    other = rows([*range(500, 600), *range(550, 800)])
    found = fold([*FORMER, *by_turns(rows(range(1000, 1350)), other, STRICT)])
    assert found.pace.resumes == 2


@given(st.sampled_from(sorted(TURNS)), st.lists(st.integers(0, 1400), max_size=6))
def test_cuts_and_the_store_change_nothing(turns: str, cuts: list[int]) -> None:
    both = by_turns(rows(range(1000, 1200)), rows(range(700, 900)), TURNS[turns]())
    found = timed([*FORMER, *both])
    trend = Trend()
    for begin, end in pairwise([0, *sorted(cuts), len(found)]):
        trend = advance(Trend.model_validate_json(trend.model_dump_json()), found[begin:end], RUN)
    assert repr(trend) == repr(advance(Trend(), found, RUN))


def test_the_loss_of_one_is_not_held_against_that_of_the_other() -> None:
    both = by_turns(rows(range(1000, 1400)), rows(range(500, 900), loss=9.0), TURNS["bursts"]())
    judged = judge_rows(Trend(), Standing(), timed([*FORMER, *both]), RUN)
    keys = {one.alert.id for one in (*judged.over, *judged.standing.open)}
    assert "C-11" not in keys and "C-10" not in keys


def test_a_nan_of_either_is_told() -> None:
    for spoilt in (0, 1):
        one, other = pair = rows(range(1000, 1200)), rows(range(500, 700))
        pair[spoilt][180] = pair[spoilt][180]._replace(loss=math.nan)
        found = timed([*FORMER, *by_turns(one, other, STRICT)])
        judged = judge_rows(Trend(), Standing(), found, RUN)
        told = [one.alert for one in (*judged.over, *judged.standing.open)]
        told = [alert for alert in told if alert.id != "C-05"]  # each has half of the rows
        assert [alert.id for alert in told] == ["C-09"]
        assert told[0].title == f"Loss is NaN at step {wording.step(pair[spoilt][180].step)}"


def duplicates(found: list[Row], later: float = 0.0, of_log: bool = False) -> list[Alert]:
    trend = advance(Trend(), timed(found), RUN)
    told = history(T0 + 2 * len(found) + later, trend, job=job(started_at=T0))
    if of_log:
        told = told.model_copy(update={"log_trend": trend})
    return list(duplicate_job(RUN, told))


def test_two_writers_are_possibly_two_jobs() -> None:
    both = [*FORMER, *by_turns(rows(range(1000, 1200)), rows(range(500, 700)), STRICT)]
    (alert,) = duplicates(both)
    assert (alert.id, alert.severity, alert.confidence) == ("C-25", Severity.WARNING, "guess")
    assert alert.title == "Possibly a second job: the one that logs step 1,199"
    assert "at step 699 and at step 1,199" in alert.evidence[0].text
    assert "stop" not in alert.next_action
    assert duplicates(both, later=2000.0) == [], "neither writes any more"
    assert duplicates(both, of_log=True) == [], "the ranks of one job write one log by turns"


def test_no_restart_and_no_ranks_in_step_are_two_jobs() -> None:
    assert duplicates([*FORMER, *rows(range(900, 1200))]) == []
    ranks = by_turns(rows(range(1000, 1200)), rows(range(999, 1199)), STRICT)
    assert duplicates([*FORMER, *ranks]) == []
