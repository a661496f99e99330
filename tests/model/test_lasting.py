"""Words about time say for how long they stay true, to the moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest

from cockpit.model.day import Day
from cockpit.model.facet import known
from cockpit.model.lasting import lasting, lasts
from cockpit.model.observed import JobValue, Phase
from cockpit.model.report import Facets, unread
from cockpit.model.run import RunSpec
from cockpit.model.wording import age, day_time
from widgets.painting.facts import look

NOW = 1_800_000_000.0
JOB = known(JobValue(id="1", state="running", phase=Phase.RUNNING), "local", NOW)
REPORT = unread(RunSpec(name="a"), Facets(job=JOB), NOW)


def aged(old: float, now: float) -> str:
    return age(now - NOW + old)


WORDS: dict[str, Callable[[float], object]] = {
    **{f"an age of {old:g} s": partial(aged, old)
       for old in (-7, 0, 14.5, 20, 59, 61, 3599, 7000, 86_399, 200_000)},
    "a moment of today": lambda now: day_time(NOW, now),
    "the last 24 hours": Day().with_look(NOW, "healthy", 900.0).until,
    "fresh or stale": lambda now: look(JOB, REPORT, now),
}  # fmt: skip


@pytest.mark.parametrize("what", WORDS)
def test_words_say_when_they_change(what: str) -> None:
    with lasting() as found:
        words = WORDS[what](NOW)
    assert WORDS[what](NOW + found.seconds - 0.01) == words
    assert WORDS[what](NOW + found.seconds + 0.01) != words


def test_the_first_to_change_counts_and_each_asks_for_its_own() -> None:
    with lasting() as outer:
        lasts(50.0)
        with lasting() as inner:
            lasts(3.0)
        lasts(20.0)
    assert (outer.seconds, inner.seconds) == (20.0, 3.0)
    lasts(1.0)  # nobody asks
    with lasting() as untold:
        day_time(None, NOW)
    assert untold.seconds == math.inf
