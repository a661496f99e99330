from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.history import History, PhaseMark
from cockpit.model.observed import CheckpointState, OtherMonitor, Phase, Row
from cockpit.rules.judge import judge
from cockpit.rules.metrics.progress import progress
from cockpit.rules.verdict import next_action, verdict
from tests.rules.making import (
    T0,
    blind,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    monitor,
    run_spec,
    seen,
    tracker,
)

NAN = float("nan")


def test_the_worst_comes_first_and_the_monitor_last_of_its_kind() -> None:
    rows = losses([2.0] * 30 + [9.0] * 20 + [NAN])
    past = history(
        T0 + 5000,
        folded(rows),
        job=blind(),
        tracker=tracker(last_step_at=T0 + 50),
        monitor=monitor(T0 - 10_000, fresh=False),
        checkpoints=checkpoints(checkpoint(1, T0), checkpoint(9, T0 + 5, CheckpointState.WRITING)),
    )
    found = judge(run_spec(), past)
    assert [alert.id for alert in found] == ["C-09", "C-07", "C-11", "C-02", "C-03"]


def test_an_alert_does_not_change_while_nothing_but_time_passes() -> None:
    def at(now: float) -> History:
        return history(
            now,
            folded(losses([2.0] * 100)),
            job=job(),
            tracker=tracker(last_step_at=T0 + 99),
            log=log("x", mtime=T0 + 99),
            monitor=monitor(T0),
        )

    assert judge(run_spec(), at(T0 + 5000)) == judge(run_spec(), at(T0 + 5001))
    assert {alert.id for alert in judge(run_spec(), at(T0 + 5000))} == {"C-03", "C-06"}


def test_a_run_of_which_nothing_is_known_has_no_unhealthy_alert() -> None:
    nothing: dict[str, Any] = {
        name: blind(T0) for name in ("job", "log", "tracker", "checkpoints", "monitor", "host")
    }
    found = judge(run_spec(), history(T0 + 1e6, **nothing))
    assert [alert.id for alert in found] == ["C-02"]
    assert judge(run_spec(job=None), History(now=T0)) == ()


instants = st.one_of(st.none(), st.floats(T0 - 1e5, T0 + 1e5))
steps = st.one_of(st.none(), st.integers(-5, 2000))
numbers = st.one_of(st.none(), st.floats())
rows = st.lists(st.builds(Row, steps, instants, numbers, numbers, numbers), max_size=30)
jobs = st.builds(
    job,
    st.sampled_from(list(Phase)),
    id=st.one_of(st.none(), st.just("host:1")),
    reason=st.one_of(st.none(), st.text(max_size=10)),
    exit_code=st.one_of(st.none(), st.sampled_from([0, 1, -9, 137, 143])),
    started_at=instants,
    ended_at=instants,
    pending_since=instants,
)
logs = st.builds(
    lambda lines, at, some: log(*lines, mtime=at, rows=tuple(some)),
    st.lists(st.text(max_size=40), max_size=5),
    st.floats(T0 - 1e5, T0 + 1e5),
    rows,
)
trackers = st.builds(
    tracker, step=steps, loss=numbers, last_step_at=instants, usual_step_s=st.none()
)
items = st.builds(
    checkpoint, st.integers(0, 1200), instants, st.sampled_from(list(CheckpointState))
)
listings = st.lists(items, max_size=4).map(lambda some: checkpoints(*some))
others = st.builds(OtherMonitor, path=st.just("o"), last_update=instants, fresh=st.booleans())
monitors = st.builds(
    lambda at, fresh, rivals: monitor(T0, fresh).model_copy(
        update={"last_update": at, "others": tuple(rivals)}
    ),
    instants,
    st.booleans(),
    st.lists(others, max_size=2),
)
marks = st.builds(PhaseMark, at=st.floats(T0 - 1e5, T0), phase=st.sampled_from(list(Phase)))


def facets(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Known, unknown, stale, or not configured."""
    stale: st.SearchStrategy[object] = st.builds(
        lambda value, at: Facet(value=value, source="s", observed_at=at, error=blind().error),
        values,
        instants,
    )
    bad = st.builds(blind, st.floats(T0 - 1e5, T0), st.sampled_from(list(ErrorKind)))
    return st.one_of(values, stale, bad)


histories = st.builds(
    lambda now, some, phases, by, gap, **values: History(
        now=now,
        facets=seen(now, **values),
        trend=folded(some),
        phases=tuple(phases),
        stop_ordered_by=by,
        rows_from=gap,
    ),
    st.floats(T0 - 1e5, T0 + 1e5),
    rows,
    st.lists(marks, max_size=4),
    st.sampled_from([None, None, "ada"]),
    st.sampled_from([0.0, 0.5]),
    job=facets(jobs),
    log=facets(logs),
    tracker=facets(trackers),
    checkpoints=facets(listings),
    monitor=facets(monitors),
)


@given(histories)
def test_no_history_makes_a_rule_raise(past: History) -> None:
    run = run_spec()
    found = judge(run, past)
    assert len({alert.key for alert in found}) == len(found)
    assert [alert.severity.rank for alert in found] == sorted(
        (alert.severity.rank for alert in found), reverse=True
    )
    assert all(alert.evidence and alert.title and alert.next_action for alert in found)
    assert verdict(run, past, found)
    assert next_action(run, past, found)
    assert progress(run, past).text
