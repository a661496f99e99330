from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    JobValue,
    Phase,
    Tasks,
    TrackerValue,
)
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RunSpec
from cockpit.records.logbook.entry_text import prefill
from cockpit.records.logbook.writing import with_event

NOW = datetime(2026, 3, 11, 8, 55, tzinfo=UTC).timestamp()
JOB = JobValue(id="7", state="RUNNING", phase=Phase.RUNNING, tasks=Tasks(running=4, total=4))
SEEN = TrackerValue(
    id="x",
    state="running",
    loss=2.314,
    throughput=830_000.0,
    throughput_unit="tok/s",
    last_step_at=NOW - 31,
)
SAVED = Checkpoint(
    step=46000,
    name_step=46000,
    path="/c/46000",
    root="/c",
    state=CheckpointState.COMPLETE,
    saved_at=NOW - 240,
)
SLOW = Alert(
    id="C-05",
    key="C-05",
    severity=Severity.ALERT,
    title="throughput −31 %",
    since=NOW - 2700,
    evidence=(Evidence(text="0.83M tok/s against 1.20M for 3 checks", source="W&B"),),
    confidence="sure",
    next_action="look at worker 3; key hf_abcdefghijklmnopqrstuvwxyz0123456789",
)


def report(**changes: Any) -> RunReport:
    facets = Facets(
        job=known(JOB, "iris", NOW),
        tracker=known(SEEN, "W&B", NOW),
        checkpoints=known(CheckpointsValue(latest_complete=46000, items=(SAVED,)), "/c", NOW),
    )
    plain: dict[str, Any] = {
        "spec": RunSpec(name="r"),
        "checked_at": NOW,
        "verdict": Verdict.HEALTHY,
        "facets": facets,
        "progress": Progress(
            step=46012, final_step=119209, final_step_source="config", text="~46012/119209"
        ),
        "next_action": "nothing",
        "next_check_at": NOW + 600,
    }
    return RunReport(**{**plain, **changes})


def test_a_healthy_run_says_what_is_observed_and_how_old_it_is() -> None:
    entry = prefill(report(), "check", NOW)
    assert entry.status == "RUNNING 4/4, ~46,012/119,209, loss 2.314"
    assert entry.evidence.splitlines() == [
        "loss 2.314, 830k tok/s (W&B, 08:54 UTC)",
        "newest complete checkpoint 46,000 (/c, 08:51 UTC)",
    ]
    assert (entry.decision, entry.next) == ("", "check again 09:05 UTC")
    assert (entry.title, entry.at) == ("check", NOW)


def test_an_alert_gives_its_evidence_and_the_next_action_without_secrets() -> None:
    entry = prefill(
        report(alerts=(SLOW,), next_action=SLOW.next_action), "throughput \x1b[31mdrop", NOW
    )
    assert entry.evidence.splitlines() == [
        "throughput −31 %, since 08:10 UTC (certain)",
        "0.83M tok/s against 1.20M for 3 checks (W&B, 08:55 UTC)",
    ]
    assert entry.next.startswith("look at worker 3") and "hf_abc" not in entry.next
    assert entry.title == "throughput drop"


def test_what_is_unknown_is_said_to_be() -> None:
    facets = Facets(job=unknown(ErrorKind.TIMEOUT, "no answer within 5 s", "iris", NOW - 60))
    entry = prefill(report(facets=facets), "check", NOW)
    assert entry.status == "job state unknown since 08:54 UTC, ~46,012/119,209"
    assert "job unknown since 08:54 UTC: no answer within 5 s (iris)" in entry.evidence
    assert with_event(b"", entry)
