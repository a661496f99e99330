from __future__ import annotations

import pytest

from cockpit.model.alert import Severity
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.observed import JobValue, LogValue, Phase
from cockpit.store.alerts import Kept
from cockpit.store.launches import Ended
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import Shared
from tests.rules.test_verdict import alert
from tests.watch.fakes import run_spec


@pytest.mark.parametrize(
    ("severity", "unwell"),
    [(Severity.INFO, False), (Severity.WARNING, True), (Severity.CRITICAL, True)],
)
def test_a_run_is_unwell_while_more_than_a_reminder_is_open(
    severity: Severity, unwell: bool
) -> None:
    state = RunState(run_spec("r"), "k")
    assert not state.unwell
    kept = Kept(alert=alert(severity), opened_at=1.0)
    state.open = {kept.alert.key: kept}
    assert state.unwell is unwell
    state.see()
    assert state.unwell is unwell
    state.open = {}
    assert not state.unwell


@pytest.mark.parametrize(("started", "over"), [(100.0, True), (900.0, False)])
def test_the_end_of_a_requeued_job_is_another_end(started: float, over: bool) -> None:
    """Its id is the same: what was acknowledged is the end of the first start only."""
    state = RunState(run_spec("r"), "k")
    value = JobValue(id="12", state="FAILED", phase=Phase.FAILED, started_at=started)
    state.take("job", known(value, "test", 1000.0))
    assert not state.over
    state.shared = Shared(ended=(Ended(job_id="12", started_at=100.0, at=500.0),))
    assert state.over is over


def test_which_facets_fail_is_as_it_was_while_none_begins_or_ends_to() -> None:
    state = RunState(run_spec("r"), "k")
    lost = unknown(ErrorKind.TIMEOUT, "no answer", "test", 1.0)
    job = known(JobValue(id="1", state="R", phase=Phase.RUNNING), "test", 2.0)
    log = known(LogValue(path="/l", size=9, mtime=1.0), "test", 1.0)
    looks = [("job", lost), ("log", log), ("job", job), ("tracker", lost), ("job", job)]
    failing = [(state.take(name, facet), state.failing)[1] for name, facet in looks]
    assert failing == [("job",), ("job",), (), ("tracker",), ("tracker",)]
