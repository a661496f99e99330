from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import Facet, known
from cockpit.model.history import History, PhaseMark, Sharer
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import HostValue, JobValue, Phase, Triage, Writer
from cockpit.model.report import Facets
from cockpit.rules.jobs.duplicates import duplicate_job
from cockpit.rules.jobs.terminal import ended_not_success
from cockpit.rules.judge import judge
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
    run_spec,
    seen,
    tracker,
)

BUG = (
    "step 10 loss 2.3",
    "Traceback (most recent call last):",
    '  File "/home/ada/toy/train.py", line 41, in <module>',
    "    main()",
    '  File "/home/ada/toy/schedule.py", line 12, in warm',
    '    return table["warm_up"]',
    "KeyError: 'warm_up'",
)
STOPS = ("step 10 loss 2.3", "step 11 loss 2.3", "step 12 loss 2.2")


def alert_of(past: History) -> Alert:
    (alert,) = ended_not_success(run_spec(), past)
    return alert


def failed(*lines: str, code: int | None = 1, **more: Any) -> History:
    value = job(Phase.FAILED, exit_code=code, ended_at=T0 + 77)
    saved = checkpoints(checkpoint(100, T0))
    return history(T0 + 140, **{"job": value, "log": log(*lines), "checkpoints": saved, **more})


def test_a_failure_is_critical_and_names_the_line_of_code() -> None:
    alert = alert_of(failed(*BUG))
    assert (alert.id, alert.severity, alert.since) == ("C-01", Severity.CRITICAL, T0 + 77)
    assert alert.title == "Crashed: KeyError at schedule.py:12 (exit 1)"
    assert [line.text for line in alert.evidence] == ["failed, exit code 1", "KeyError: 'warm_up'"]
    assert alert.evidence[1].source == "log:7"
    assert alert.next_action == "fix /home/ada/toy/schedule.py:12, then relaunch toy"


@pytest.mark.parametrize(
    ("value", "lines", "title", "evidence"),
    [
        (
            job(Phase.FAILED, state="killed", exit_code=137, reason="killed by signal 9 (SIGKILL)"),
            STOPS,
            "Killed by signal 9 (exit 137)",
            "killed by signal 9 (SIGKILL), exit code 137",
        ),
        (job(Phase.FAILED, exit_code=137), STOPS, "Killed (exit 137)", "failed, exit code 137"),
        (job(Phase.FAILED, exit_code=-9), STOPS, "Killed by signal 9 (exit -9)", None),
        (
            job(Phase.FAILED, state="exited", exit_code=1, reason="exit code 1"),
            BUG,
            "Crashed: KeyError at schedule.py:12 (exit 1)",
            "exit code 1",
        ),
        (
            job(Phase.FAILED, state="exited", exit_code=127, reason="exit code 127 (not found)"),
            STOPS,
            "Failed: cause unknown (exit 127)",
            "exit code 127 (not found)",
        ),
        (job(Phase.FAILED, state="NODE_FAIL"), STOPS, "Failed: node lost (NODE_FAIL)", "NODE_FAIL"),
    ],
)
def test_the_title_says_what_ended_it_and_no_more_than_is_known(
    value: JobValue, lines: tuple[str, ...], title: str, evidence: str | None
) -> None:
    alert = alert_of(history(T0 + 140, job=value, log=log(*lines)))
    assert alert.title == title
    assert evidence in (None, alert.evidence[0].text)


def test_a_kill_is_relaunched_from_the_newest_complete_checkpoint() -> None:
    assert alert_of(failed(*STOPS, code=137)).next_action == "relaunch toy from step 100"


def test_no_complete_checkpoint_no_relaunch() -> None:
    alert = alert_of(failed(*STOPS, code=137, checkpoints=checkpoints()))
    assert alert.next_action == "escalate to ada: no complete checkpoint to relaunch from"


def test_checkpoints_that_cannot_be_seen_are_looked_at_first() -> None:
    alert = alert_of(failed(*STOPS, code=137, checkpoints=blind()))
    assert alert.next_action.startswith("check the checkpoints before a relaunch")
    partly = checkpoints(checkpoint(100, T0)).model_copy(update={"unlisted": ("gs://bucket/x",)})
    alert = alert_of(failed(*STOPS, code=137, checkpoints=partly))
    assert alert.next_action.startswith("check the checkpoints before a relaunch")


def test_the_second_failure_is_not_relaunched() -> None:
    marks = (
        PhaseMark(at=T0, phase=Phase.FAILED, job_id="host:0"),
        PhaseMark(at=T0 + 5, phase=Phase.RUNNING, job_id="host:1"),
        PhaseMark(at=T0 + 9, phase=Phase.FAILED, job_id="host:1"),
    )
    assert "failed before" in alert_of(failed(*STOPS, code=137, phases=marks)).next_action
    assert "relaunch toy" in alert_of(failed(*STOPS, code=137, phases=marks[1:])).next_action


def test_a_nan_is_never_relaunched_as_infrastructure() -> None:
    past = failed(*STOPS, code=137, trend=folded(losses([2.0, float("nan")])))
    assert alert_of(past).next_action.startswith("escalate to ada: NaN or inf is not")


@pytest.mark.parametrize("phase", [Phase.CANCELLED, Phase.FAILED])
def test_a_stop_that_we_ordered_is_information_naming_who(phase: Phase) -> None:
    alert = alert_of(history(T0, job=job(phase, exit_code=143), stop_ordered_by="bob"))
    assert (alert.severity, alert.title) == (Severity.INFO, "Stopped by bob")


def test_an_unknown_hand_is_a_warning() -> None:
    alert = alert_of(history(T0, job=job(Phase.CANCELLED)))
    assert (alert.severity, alert.title) == (Severity.WARNING, "Stopped by someone unknown")
    assert alert.next_action == "ask ada who stopped it and why"


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.WAITING, Phase.SUCCEEDED, Phase.UNKNOWN])
def test_other_phases_are_no_failure(phase: Phase) -> None:
    assert list(ended_not_success(run_spec(), history(T0, job=job(phase), log=log(*BUG)))) == []


def test_two_jobs_have_two_identities() -> None:
    one = alert_of(history(T0, job=job(Phase.FAILED, id="host:1")))
    two = alert_of(history(T0, job=job(Phase.FAILED, id="host:2")))
    assert one.key != two.key


def test_a_log_read_before_the_end_decides_nothing() -> None:
    old: Facet[Any] = Facet(value=log(*STOPS), source="log", observed_at=T0 + 76)
    alert = alert_of(failed(code=137, log=old))
    assert alert.next_action == "read the log, then escalate to ada; do not relaunch yet"


def test_triage_that_is_there_already_is_used() -> None:
    found = Triage(name="data_error", action="escalate", confidence="likely")
    alert = alert_of(failed(log=log(*STOPS, triage=found)))
    assert alert.title == "Failed: data error (exit 1)"


def test_the_schedulers_own_word_is_the_class() -> None:
    value = job(Phase.FAILED, state="OUT_OF_MEMORY")
    alert = alert_of(history(T0, job=value, log=log(*STOPS)))
    assert alert.title == "Failed: out of host memory (OUT_OF_MEMORY)"


def test_a_local_job_killed_by_a_signal_is_not_a_stop_by_hand() -> None:
    value = job(Phase.FAILED, state="killed", exit_code=-9)
    alert = alert_of(history(T0, job=value, log=log(*STOPS)))
    assert alert.severity is Severity.CRITICAL


def test_what_trains_on_after_the_end_is_found_before_anything_is_relaunched() -> None:
    steps = folded(losses([2.0] * 30, first_step=100))
    alert = alert_of(failed(*STOPS, code=137, trend=steps))
    assert alert.title == "The job ended (exit 137), but steps are still being logged"
    assert "after its end" in alert.evidence[1].text
    assert alert.evidence[1].source == "logged rows"
    assert (
        alert.next_action == "find the job that still trains toy; a relaunch would be a second copy"
    )


def test_steps_of_the_last_seconds_are_the_jobs_own() -> None:
    steps = folded(losses([2.0] * 30, first_step=50))
    assert "relaunch toy" in alert_of(failed(*STOPS, code=137, trend=steps)).next_action


def test_while_another_job_of_the_lineage_lives_no_relaunch_is_offered() -> None:
    other = LiveJob(id="pid:9", name="python train.py", why="it has /r/run.log open for writing")
    value = job(Phase.FAILED, exit_code=137, ended_at=T0 + 77, rivals=(other,))
    alert = alert_of(failed(*STOPS, job=value))
    assert "pid:9 of its lineage is running" in alert.title
    assert "a relaunch would be a second copy" in alert.next_action
    assert any("open for writing" in each.text for each in alert.evidence)


def test_each_end_of_a_requeued_job_is_an_alert_of_its_own() -> None:
    first, again = (
        alert_of(failed(*STOPS, job=job(Phase.FAILED, launch_id="toy-i001", restarts=count)))
        for count in (0, 1)
    )
    assert first.key == "C-01:toy:toy-i001" != again.key


def test_the_end_of_a_requeued_job_stays_one_when_nobody_tells_any_more_how_often_it_was() -> None:
    ends = job(Phase.FAILED, launch_id="toy-i001", restarts=1, ended_at=T0 + 77)
    first = alert_of(failed(*STOPS, job=ends))
    later = failed(*STOPS, job=ends.model_copy(update={"restarts": None}))
    assert alert_of(later.model_copy(update={"open": (first,)})).key == first.key
    former = first.model_copy(update={"since": T0})
    assert alert_of(later.model_copy(update={"open": (former,)})).key == "C-01:toy:toy-i001"


def test_an_end_that_no_system_dates_was_then_or_before() -> None:
    """A process that is gone when a watch begins may have ended hours ago."""
    gone, dated = (
        alert_of(failed(*STOPS, job=job(Phase.FAILED, ended_at=at))) for at in (None, T0 + 77)
    )
    assert gone.since_or_before and not dated.since_or_before


def test_a_lost_node_whose_processes_save_on_is_said() -> None:
    """Slurm has given the node up; what ran there does not know that."""
    lost = job(Phase.FAILED, state="NODE_FAIL", ended_at=T0 - 300)
    saved = checkpoints(checkpoint(500, T0 - 900), checkpoint(600, T0 - 20))
    why = HostValue(out_of_service="node gpu3 is DOWN*: Not responding")
    alert = alert_of(
        history(T0, job=lost, log=log("step 1", mtime=T0 - 400), checkpoints=saved, host=why)
    )
    assert alert.title == "The job ended (NODE_FAIL), but checkpoints are still being saved"
    texts = [each.text for each in alert.evidence]
    assert any("step 600 was saved" in text and "after its end" in text for text in texts)
    assert any("gpu3 is DOWN*: Not responding" in text for text in texts)
    assert "a relaunch would be a second copy" in alert.next_action


def rival(number: int, **changes: Any) -> LiveJob:
    plain = {"id": f"pid:{number}", "name": "python train.py", "why": "the W&B id in its arguments"}
    return LiveJob(**{**plain, "started_at": T0 + number, **changes})


def duplicates_history(phase: Phase, *rivals: LiveJob) -> History:
    value = job(phase, id="pid:7", launch_id="toy-i002", rivals=rivals)
    return History(now=T0 + 100, facets=Facets(job=known(value, "process table", T0 + 99)))


def test_two_live_jobs_are_critical_and_both_are_named() -> None:
    run = run_spec(output_root="/runs/toy")
    (alert,) = duplicate_job(run, duplicates_history(Phase.RUNNING, rival(9)))
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
    told = duplicates_history(phase, *(rival(number) for number in range(10, 10 + rivals)))
    assert bool(list(duplicate_job(run_spec(), told))) is fires


def test_it_is_one_of_the_rules() -> None:
    found = judge(run_spec(), duplicates_history(Phase.RUNNING, rival(9)))
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
    (alert,) = duplicate_job(run_spec(), duplicates_history(Phase.RUNNING, rival(9, proven=False)))
    assert (alert.severity, alert.confidence) == (Severity.CRITICAL, "likely")
