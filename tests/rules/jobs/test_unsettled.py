"""A launch of which nobody knows what became of it is said, and nothing else is advised (C-02)."""

from __future__ import annotations

from cockpit.model.alert import Alert, Severity
from cockpit.model.history import UnsettledLaunch
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue, Phase
from cockpit.model.report import Verdict
from cockpit.rules.judge import judge
from cockpit.rules.verdict import next_action, verdict
from tests.rules.making import T0, history, job, run_spec

LOST = UnsettledLaunch(
    launch_id="toy-i002", action="relaunch", by="ada", since=T0 + 100, text="sbatch: timed out"
)


def judged(value: JobValue) -> tuple[tuple[Alert, ...], str, Verdict]:
    past = history(T0 + 120, job=value).model_copy(update={"unsettled": (LOST,)})
    alerts = judge(run_spec(), past)
    return alerts, next_action(run_spec(), past, alerts), verdict(run_spec(), past, alerts)


def of_launch(alerts: tuple[Alert, ...]) -> Alert:
    (found,) = [alert for alert in alerts if alert.key == "C-02:toy:launch:toy-i002"]
    return found


def test_a_lost_launch_is_unknown_and_no_other_is_advised() -> None:
    dead = job(Phase.FAILED, exit_code=1, ended_at=T0 + 90, launch_id="toy-i001")
    alerts, advice, _ = judged(dead)
    found = of_launch(alerts)
    assert found.severity is Severity.ALERT and found.since == T0 + 100
    assert found.title == "Launch toy-i002 unknown: it may run"
    texts = [each.text for each in found.evidence]
    assert "sbatch: timed out" in texts and any("relaunch by ada" in text for text in texts)
    assert any("asked for it: no job of it is listed" in text for text in texts)
    assert all("start nothing else" in alert.next_action for alert in alerts if alert.id == "C-01")
    assert advice.startswith("start nothing else: ") and "toy-i002" in advice


def test_one_whose_job_is_seen_is_no_trouble() -> None:
    alerts, _, word = judged(job(Phase.RUNNING, id="86", launch_id="toy-i002"))
    found = of_launch(alerts)
    assert found.severity is Severity.INFO and "job 86" in found.title
    assert word is Verdict.HEALTHY


def test_a_job_that_it_left_held_is_named() -> None:
    held = LiveJob(id="87", name="toy", why="held leftover of toy-i002", launch_id="toy-i002")
    alerts, _, _ = judged(
        job(Phase.RUNNING, id="86", launch_id="toy-i001", held=(held,), rivals_source="slurm here")
    )
    told = of_launch(alerts).evidence
    assert ("87: held leftover of toy-i002", "slurm here") in [(e.text, e.source) for e in told]
