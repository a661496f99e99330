"""Two runs in one log: neither one's step is shown as the run's, unless the final step tells."""

from __future__ import annotations

from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.rules.metrics.progress import progress
from cockpit.rules.metrics.writers import log_mixed, mixed, without_the_other
from tests.rules.making import T0, folded, history, job, log, run_spec, tracker


def by_turns(apart: int, other_loss: float, turns: int = 60, **more: object) -> History:
    pairs = [(Row(at, T0 + at, 2.0), Row(at + apart, T0 + at, other_loss)) for at in range(turns)]
    rows = tuple(row for pair in pairs for row in pair)
    value = log("x", mtime=T0 + turns, rows=rows)
    past = history(T0 + turns, folded(rows), job=job(), log=value, **more)
    return past.model_copy(update={"log_trend": past.trend})


def shown(past: History, final_step: int | None) -> tuple[int | None, float | None]:
    run = run_spec(final_step=final_step)
    rows = without_the_other(run, past).log.value
    assert rows is not None
    loss = next((row.loss for row in reversed(rows.rows) if row.loss is not None), None)
    return progress(run, past).step, loss


def test_whose_is_whose_is_not_known() -> None:
    past = by_turns(5000, 1.0)
    assert shown(past, 100_000) == (None, None)
    (alert,) = log_mixed(run_spec(final_step=100_000), past)
    assert (alert.id, alert.severity) == ("C-25", "warning")
    assert "at step 59 and at step 5,059" in alert.evidence[0].text


def test_the_final_step_tells_them_apart() -> None:
    past = by_turns(5000, 1.0)
    assert shown(past, 2000) == (59, 2.0)
    (alert,) = log_mixed(run_spec(final_step=2000), past)
    assert "beyond the final step of 2,000 is another run's" in alert.evidence[0].text


def test_ranks_two_counts_of_one_run_and_a_restart_are_one_run() -> None:
    run = run_spec(final_step=100_000)
    assert mixed(run, by_turns(1, 1.0)) is None, "ranks of one job"
    assert mixed(run, by_turns(5000, 2.0)) is None, "in its epoch, and over all: one loss"
    rows = [*(Row(at, T0 + at, 2.0) for at in range(99)), Row(1, T0 + 120, 2.5)]
    past = history(T0 + 130, folded(rows), job=job(), log=log("x", rows=tuple(rows)))
    assert mixed(run, past.model_copy(update={"log_trend": past.trend})) is None


def test_where_a_tracker_tells_the_steps_the_log_is_not_asked() -> None:
    past = by_turns(5000, 1.0, tracker=tracker(step=59, last_step_at=T0 + 59))
    own = folded([Row(at, T0 + at, 2.0) for at in range(60)])
    assert mixed(run_spec(), past.model_copy(update={"trend": own})) is None
