"""Two that write one stream of rows are told from one that was restarted, whatever their turns.

C-12: what a restarted training logs, beside what the instance before it had logged.
"""

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
from cockpit.rules.metrics.resume import resume_mismatch
from cockpit.rules.replay import Standing, judge_rows
from tests.rules.making import T0, checkpoint, checkpoints, folded, history, job, run_spec

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


@pytest.mark.parametrize(
    ("lead", "before"), [(-900, FORMER), (-43, FORMER), (-60, []), (40, []), (700, FORMER)]
)
@pytest.mark.parametrize("strides", [(1, 1), (1, 10), (10, 7)], ids=str)
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


def loss_at(step: int) -> float:
    """A loss that falls as losses do, with noise that only the step decides."""
    return 2 + 6 * math.pow(1 + step / 50, -0.6) + random.Random(step).uniform(-0.02, 0.02)


def mismatch_rows(
    first: int, last: int, at: float, loss: Callable[[int], float] = loss_at, every: int = 1
) -> list[Row]:
    return [Row(step, at + step, loss(step)) for step in range(first, last, every)]


def alerts(found: list[Row], started_at: float = T0, **facets: object) -> list[Alert]:
    past = history(T0 + 1e6, folded(found), job=job(started_at=started_at), **facets)
    return list(resume_mismatch(run_spec(), past))


def shifted(by: float, until: float = math.inf) -> Callable[[int], float]:
    return lambda step: loss_at(step) + (by if step < until else 0.0)


MISMATCH_FORMER = mismatch_rows(0, 1000, T0)
LATER = T0 + 500


def test_a_resume_that_repeats_what_was_logged_is_well() -> None:
    assert alerts([*MISMATCH_FORMER, *mismatch_rows(900, 1800, LATER)]) == []


def test_three_replayed_steps_that_differ_open_it_and_two_do_not() -> None:
    two = [each for n in range(900, 1000) if (each := shifted(0.01 if n < 902 else 0.0)(n))]
    same = [Row(900 + n, LATER + n, loss) for n, loss in enumerate(two)]
    assert alerts([*MISMATCH_FORMER, *same]) == []
    (found,) = alerts([*MISMATCH_FORMER, *mismatch_rows(900, 950, LATER, shifted(0.01))])
    assert (found.id, found.severity.value, found.confidence) == ("C-12", "alert", "sure")
    assert found.since == LATER + 900 and found.title.startswith("Resumed at step 900")
    assert "step 999" in found.evidence[0].text and "0.002" in found.evidence[1].text


def test_a_difference_within_the_limit_is_none() -> None:
    assert alerts([*MISMATCH_FORMER, *mismatch_rows(900, 1000, LATER, shifted(0.0019))]) == []


def test_what_was_rounded_differs_only_by_more_than_its_last_digit() -> None:
    coarse = [row._replace(loss=round(row.loss or 0.0, 2)) for row in MISMATCH_FORMER]
    near = mismatch_rows(900, 1000, LATER, lambda step: round(loss_at(step) + 0.003, 2))
    far = mismatch_rows(900, 1000, LATER, lambda step: round(loss_at(step) + 0.05, 2))
    assert alerts([*coarse, *near]) == []
    assert len(alerts([*coarse, *far])) == 1


def test_a_long_way_back_is_known_here_and_there() -> None:
    former = mismatch_rows(0, 20_000, T0, every=5)
    again = mismatch_rows(5_000, 12_000, T0 + 50_000, every=5)
    off = mismatch_rows(5_000, 12_000, T0 + 50_000, shifted(-0.02), every=5)
    assert alerts([*former, *again]) == []
    assert len(alerts([*former, *off])) == 1


def beyond(by: float, until: int = 1050) -> list[Row]:
    return [
        *MISMATCH_FORMER,
        *mismatch_rows(900, 1000, LATER),
        *mismatch_rows(1000, until, LATER, shifted(by)),
    ]


def test_beyond_the_replayed_steps_the_former_trend_is_the_measure() -> None:
    assert alerts(beyond(0.1, until=1049)) == [], "fifty rows are needed"
    (found,) = alerts(beyond(0.1))
    assert "above the previous trend" in found.title
    assert "limit 1.0 %" in found.evidence[-1].text
    assert alerts(beyond(0.01)) == []
    assert "below" in alerts(beyond(-0.3))[0].title


def test_it_closes_where_the_loss_comes_back_and_stays_where_it_does_not() -> None:
    back = [
        *MISMATCH_FORMER,
        *mismatch_rows(900, 1000, LATER),
        *mismatch_rows(1000, 1400, LATER, shifted(0.2, until=1200)),
    ]
    assert len(alerts(back[:-250])) == 1 and alerts(back) == []
    away = [
        *MISMATCH_FORMER,
        *mismatch_rows(900, 1000, LATER),
        *mismatch_rows(1000, 4000, LATER, shifted(0.2)),
    ]
    assert len(alerts(away)) == 1


@pytest.mark.parametrize("seed", [38, 48, 53, 58, 96, 110])
def test_a_loss_that_swings_slowly_opens_nothing_that_closes_by_itself(seed: int) -> None:
    """Fifty rows may lie a little off the trend, to either side, without any restart."""
    drawn, swing, seen = random.Random(seed), 0.0, []
    for step in range(1500):
        swing = 0.95 * swing + drawn.gauss(0, 0.04)
        at = T0 + step + (120 if step >= 1000 else 0)
        seen.append(Row(step, at, 2 + 6 * math.pow(1 + step / 50, -0.6) + swing))
    looks = range(1050, 1500, 20)
    assert not any(alerts(seen[:count], T0 + 1100) for count in looks)


def test_only_the_next_steps_are_held_against_it() -> None:
    late = [
        *MISMATCH_FORMER,
        *mismatch_rows(900, 1600, LATER),
        *mismatch_rows(1600, 1900, LATER, shifted(0.5)),
    ]
    assert alerts(late) == []


def test_noise_is_no_mismatch() -> None:
    def noisy(salt: int) -> Callable[[int], float]:
        return lambda step: loss_at(step) * math.exp(random.Random(step + salt).gauss(0, 0.3))

    assert (
        alerts(
            [*mismatch_rows(0, 1000, T0, noisy(0)), *mismatch_rows(1001, 1500, LATER, noisy(0))],
            T0 + 1250,
        )
        == []
    )


def test_a_restart_that_replays_nothing_is_told_by_its_job() -> None:
    went_on = [*MISMATCH_FORMER, *mismatch_rows(1000, 1100, LATER, shifted(0.2))]
    assert alerts(went_on) == [], "an evaluation makes a pause too"
    (found,) = alerts(went_on, started_at=T0 + 1400)
    assert found.confidence == "likely" and found.since == LATER + 1000
    assert alerts(went_on, started_at=T0 + 3000) == []


def test_a_start_from_scratch_is_not_compared() -> None:
    assert alerts([*MISMATCH_FORMER, *mismatch_rows(0, 300, LATER, shifted(0.5))]) == []


def test_a_step_that_counts_within_an_epoch_is_not_compared() -> None:
    epochs: list[Row] = []
    for turn, first in enumerate((2, 10, 4, 8)):
        start = T0 + 1000 * turn
        epochs += mismatch_rows(first, 300, start, shifted(-0.3 * turn), every=10)
    assert alerts(epochs) == []


def test_going_back_before_a_spike_does_not_want_the_spike_again() -> None:
    spiked = [*MISMATCH_FORMER, *mismatch_rows(1000, 1060, T0, shifted(9.0))]
    assert alerts([*spiked, *mismatch_rows(900, 1300, LATER)]) == []


def test_one_restart_is_one_alert() -> None:
    off = [*MISMATCH_FORMER, *mismatch_rows(900, 950, LATER, shifted(0.01))]
    saved = checkpoints(checkpoint(960, T0 + 961))
    assert alerts(off, LATER + 890, checkpoints=saved) == [], "it loaded another checkpoint"
    assert alerts(off, LATER + 890, checkpoints=checkpoints(checkpoint(890, T0 + 891)))


def interleaved(lead: int, rows_each: int) -> list[Row]:
    """Two writers by turns: one goes on from step 1000, the other ``lead`` steps away from it."""
    turns = range(0, 200, rows_each)
    mine = [mismatch_rows(1000 + n, 1000 + n + rows_each, LATER) for n in turns]
    other = [
        mismatch_rows(1000 + lead + n, 1000 + lead + n + rows_each, LATER, shifted(0.1))
        for n in turns
    ]
    return [row for pair in zip(mine, other, strict=True) for chunk in pair for row in chunk]


@pytest.mark.parametrize("rows_each", [1, 2, 8, 20])
def test_two_writers_by_turns_are_no_restarts(rows_each: int) -> None:
    """SPEC C: one cause, one alert; that two write is C-25."""
    for lead, most in ((40, 0), (-60, 1)):
        found = interleaved(lead, rows_each)
        keys = {
            each.key
            for end in range(0, len(found), 32)
            for each in alerts([*MISMATCH_FORMER, *found[: end + 1]])
        }
        assert len(keys) <= most, f"{lead}: {sorted(keys)}"


def test_a_shift_like_the_stairs_of_its_schedule_is_unknown() -> None:
    def stairs(step: int, height: float) -> float:
        return (2.0 + height * (step // 400)) * (1 + random.Random(step).uniform(-0.01, 0.01))

    def restarted(height: float) -> list[Alert]:
        former = mismatch_rows(0, 1190, T0, lambda step: stairs(step, height))
        return alerts(
            [*former, *mismatch_rows(1180, 1400, LATER, lambda step: stairs(step, height))]
        )

    assert restarted(0.2) == [], "it rose by as much at 400 and 800, and nobody restarted it"
    unlike = mismatch_rows(1180, 1400, LATER, lambda step: 2.0 * (1.4 if step > 1190 else 1.0))
    former = mismatch_rows(0, 1190, T0, lambda step: 2.0 + random.Random(step).uniform(-0.01, 0.01))
    assert len(alerts([*former, *unlike])) == 1
