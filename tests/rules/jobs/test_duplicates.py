from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Severity
from cockpit.model.facet import known
from cockpit.model.history import History, Sharer
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase, Writer
from cockpit.model.report import Facets
from cockpit.rules.jobs.duplicates import duplicate_job
from cockpit.rules.judge import judge
from tests.rules.making import T0, checkpoint, checkpoints, job, run_spec, seen, tracker


def rival(number: int, **changes: Any) -> LiveJob:
    plain = {"id": f"pid:{number}", "name": "python train.py", "why": "the W&B id in its arguments"}
    return LiveJob(**{**plain, "started_at": T0 + number, **changes})


def history(phase: Phase, *rivals: LiveJob) -> History:
    value = job(phase, id="pid:7", launch_id="toy-i002", rivals=rivals)
    return History(now=T0 + 100, facets=Facets(job=known(value, "process table", T0 + 99)))


def test_two_live_jobs_are_critical_and_both_are_named() -> None:
    run = run_spec(output_root="/runs/toy")
    (alert,) = duplicate_job(run, history(Phase.RUNNING, rival(9)))
    assert (alert.id, alert.key, alert.severity) == ("C-25", "C-25:toy", Severity.CRITICAL)
    assert alert.title == "2 running jobs write to output root /runs/toy"
    assert alert.since == T0 + 9
    text = [each.text for each in alert.evidence]
    assert text[0].startswith("pid:7, launch toy-i002, since ") and "recorded" in text[0]
    assert text[1].startswith("pid:9, since ") and "the W&B id in its arguments" in text[1]
    assert "pid:7 is the recorded job; check pid:9, then stop one of them" in alert.next_action


@pytest.mark.parametrize(
    ("phase", "rivals", "fires"),
    [
        (Phase.RUNNING, 0, False), (Phase.WAITING, 1, True), (Phase.FAILED, 1, False),
        (Phase.FAILED, 2, True), (Phase.SUCCEEDED, 0, False),
    ],
)  # fmt: skip
def test_it_takes_two_that_live(phase: Phase, rivals: int, fires: bool) -> None:
    told = history(phase, *(rival(number) for number in range(10, 10 + rivals)))
    assert bool(list(duplicate_job(run_spec(), told))) is fires


def test_it_is_one_of_the_rules() -> None:
    found = judge(run_spec(), history(Phase.RUNNING, rival(9)))
    assert "C-25" in {alert.id for alert in found}


def test_the_document_of_a_job_does_not_hold_its_rivals() -> None:
    assert "rivals" not in job(rivals=(rival(9),)).to_json()


def test_a_possible_job_is_information_that_says_nothing_of_stopping() -> None:
    value = job(Phase.RUNNING, id="pid:7", possible=(rival(9),), rivals_source="process table")
    (alert,) = duplicate_job(run_spec(), History(now=T0 + 100, facets=seen(T0 + 99, job=value)))
    assert (alert.severity, alert.confidence) == (Severity.INFO, "guess")
    assert "pid:9" in alert.title and "stop" not in alert.next_action
    over = value.model_copy(update={"phase": Phase.FAILED})
    assert not list(duplicate_job(run_spec(), History(now=T0, facets=seen(T0, job=over))))


def test_one_that_runs_the_same_script_counts_beside_a_job_that_is_over() -> None:
    value = job(Phase.FAILED, id="pid:7", possible=(rival(9, alike=True),), ended_at=T0)
    (alert,) = duplicate_job(run_spec(), History(now=T0 + 100, facets=seen(T0 + 99, job=value)))
    assert (alert.severity, alert.confidence) == (Severity.WARNING, "likely")
    assert "before anything is started" in alert.next_action


def test_saves_after_the_end_are_a_second_writer_while_they_go_on() -> None:
    value = job(Phase.SUCCEEDED, id="pid:7", ended_at=T0)
    saved = checkpoints(checkpoint(500, T0 - 60), checkpoint(600, T0 + 60))
    facets = seen(T0 + 99, job=value, checkpoints=saved)
    (alert,) = duplicate_job(run_spec(), History(now=T0 + 100, facets=facets))
    assert alert.severity is Severity.WARNING and "step 600" in alert.evidence[0].text
    assert not list(duplicate_job(run_spec(), History(now=T0 + 1000, facets=facets)))


def test_a_job_that_is_seen_is_who_writes_after_the_end() -> None:
    """Somebody submitted the script by hand after the run's own job had died."""
    value = job(Phase.FAILED, id="pid:7", ended_at=T0, rivals=(rival(9),))
    saved = checkpoints(checkpoint(500, T0 - 60), checkpoint(600, T0 + 60))
    facets = seen(T0 + 99, job=value, checkpoints=saved)
    (alert,) = duplicate_job(run_spec(), History(now=T0 + 100, facets=facets))
    assert alert.title == "Possibly a second job: pid:9"


def shared(phase: Phase, **changes: Any) -> History:
    other = Sharer(**{"run": "b", "what": "output root /r", "job_id": "pid:9", **changes})
    value = job(phase, id="pid:7")
    return History(now=T0 + 100, facets=seen(T0 + 99, job=value), sharers=(other,))


@pytest.mark.parametrize(
    ("phase", "changes", "severity"),
    [
        (Phase.RUNNING, {"lives": True}, Severity.CRITICAL),
        (Phase.RUNNING, {"lives": True, "same_job": True}, Severity.WARNING),
        (Phase.RUNNING, {"lives": True, "certain": False}, Severity.WARNING),
        (Phase.RUNNING, {"lives": False}, Severity.WARNING),
        (Phase.SUCCEEDED, {"lives": True}, Severity.WARNING),
        (Phase.SUCCEEDED, {"lives": False}, None),
    ],
)
def test_another_run_of_the_run_file_with_the_same_place(
    phase: Phase, changes: dict[str, Any], severity: Severity | None
) -> None:
    alerts = list(duplicate_job(run_spec(), shared(phase, **changes)))
    assert [alert.severity for alert in alerts] == ([] if severity is None else [severity])
    assert all("b" in alert.evidence[-1].text for alert in alerts)


def test_a_fragment_of_the_same_id_that_goes_on_is_a_second_job() -> None:
    writer = Writer(name="offline-run-1-x", since=T0, last_record_at=T0 + 90)
    facets = seen(T0 + 99, job=job(Phase.RUNNING, id="pid:7"), tracker=tracker(writers=(writer,)))
    (alert,) = duplicate_job(run_spec(), History(now=T0 + 100, facets=facets))
    assert alert.severity is Severity.CRITICAL and "offline-run-1-x" in alert.evidence[1].text
    assert not list(duplicate_job(run_spec(), History(now=T0 + 5000, facets=facets)))


def test_a_launch_that_another_machine_notes_is_likely() -> None:
    (alert,) = duplicate_job(run_spec(), history(Phase.RUNNING, rival(9, proven=False)))
    assert (alert.severity, alert.confidence) == (Severity.CRITICAL, "likely")
