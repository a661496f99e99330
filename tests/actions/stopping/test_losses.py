"""What a stop would lose, and how much more than was shown is another loss."""

from __future__ import annotations

import pytest

from cockpit.actions.stopping.losses import lost_of
from cockpit.model.plan import Loss
from cockpit.model.report import Progress, RunReport
from cockpit.model.run import CheckpointSpec, RunSpec
from tests.actions.contexts import item, listing, report
from tests.rules.making import run_spec

EVERY_HOUR = run_spec(checkpoints=CheckpointSpec(save_every=3600.0))


def told_by_its_log(step: int, eta: float | None, run: RunSpec = EVERY_HOUR) -> RunReport:
    """Return a run without a tracker, its one temporary checkpoint at step 100."""
    found = report(run, checkpoints=listing(item(100)))
    progress = Progress(
        step=step, step_source="log", final_step=10_100, final_step_source="run file",
        text=f"~{step}/10100", eta_s=eta,
    )  # fmt: skip
    return found.model_copy(update={"progress": progress})


def loss(step: int, eta: float | None, run: RunSpec = EVERY_HOUR) -> Loss:
    found = lost_of(told_by_its_log(step, eta, run))
    assert found is not None
    return found


def test_a_stop_right_after_a_save_holds_while_the_run_steps_on() -> None:
    """Half a second a step: 7,200 of them lie between two saves, of which one is left at most."""
    shown, now = loss(100, 5000.0), loss(110, 4995.0)
    assert (shown.count, now.count, now.worth) == (0, 10, 7200)
    assert "≈ 5s" in now.text
    assert not now.beyond(shown)
    assert loss(7301, 1399.5).beyond(shown)


@pytest.mark.parametrize(
    ("eta", "run"), [(None, EVERY_HOUR), (4995.0, run_spec(checkpoints=CheckpointSpec()))]
)
def test_without_pace_or_interval_the_figure_shown_is_the_measure(
    eta: float | None, run: RunSpec
) -> None:
    assert loss(110, eta, run).worth is None
    assert loss(110, eta, run).beyond(loss(100, eta, run))


@pytest.mark.parametrize(("step", "source"), [(100, "checkpoints: /c"), (90, "log")])
def test_a_step_that_only_the_checkpoint_tells_counts_none_of_those_after_it(
    step: int, source: str
) -> None:
    """The log is read later than the folder is listed: '0 steps' would be false."""
    found = told_by_its_log(step, None)
    progress = found.progress.model_copy(update={"step_source": source})
    lost = lost_of(found.model_copy(update={"progress": progress}))
    assert lost is not None
    assert (lost.count, lost.text) == (0, "what came after step 100 (no step seen since)")
    assert lost_of(told_by_its_log(100, None)) != lost
