"""C-08: cover that was there and is gone, never cover that was not built up yet."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Alert
from cockpit.model.history import CheckpointMark, History
from cockpit.model.observed import Phase
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.rules.cover import rollback_cover_thin
from tests.rules.making import T0, blind, checkpoint, checkpoints, history, job, run_spec


def hero(depth: int = 3, protect: tuple[int, ...] = ()) -> RunSpec:
    spec = CheckpointSpec(path=("/c",), rollback_depth=depth, protect=protect)
    return run_spec(tier="hero", checkpoints=spec)


def past(*steps: int, marks: tuple[tuple[int, int | None], ...], **more: Any) -> History:
    found = checkpoints(*(checkpoint(step, T0) for step in steps))
    seen = tuple(
        CheckpointMark(at=T0 + index, complete=count, newest=newest)
        for index, (count, newest) in enumerate(marks)
    )
    made = history(T0 + 100, **{"checkpoints": found, "job": job(), **more})
    return made.model_copy(update={"checkpoints": seen})


def fired(run: RunSpec, told: History) -> list[Alert]:
    return list(rollback_cover_thin(run, told))


@pytest.mark.parametrize(
    ("marks", "thin"),
    [
        (((1, 1), (2, 2)), False),
        (((1, 1), (2, 2), (3, 3), (2, 3)), True),
        (((5, 5), (4, 5)), True),
        (((5, 5), (2, 2)), False),
        (((5, 5), (0, None)), True),
        ((), False),
    ],
)
def test_only_what_was_there_can_be_gone(
    marks: tuple[tuple[int, int | None], ...], thin: bool
) -> None:
    assert bool(fired(hero(), past(1, 2, marks=marks))) is thin


def test_an_ordinary_run_needs_one() -> None:
    marks = ((5, 5), (1, 5))
    assert not fired(run_spec(), past(5, marks=marks))
    assert fired(run_spec(), past(marks=((5, 5), (0, None))))


def test_a_protected_one_that_is_gone_is_named() -> None:
    run = hero(1, protect=(100, 200, 900))
    (alert,) = fired(run, past(199, 300, marks=((2, 300),)))
    assert "100" in alert.title and alert.id == "C-08"


def test_what_cannot_be_seen_is_not_gone_and_an_end_in_success_needs_no_cover() -> None:
    marks = ((5, 5), (0, None))
    assert not fired(hero(), past(marks=marks, checkpoints=blind()))
    assert not fired(hero(), past(marks=marks, job=job(Phase.SUCCEEDED)))
