"""Reports of runs that never were, for painting: healthy, failed, unknown, hostile."""

from __future__ import annotations

import math
from typing import Any

from cockpit.model.alert import Alert, ClosedAlert, Evidence, Severity
from cockpit.model.base import SafeText
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    Column,
    JobValue,
    LogValue,
    MonitorValue,
    Phase,
    Pick,
    Tasks,
    TrackerValue,
)
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import CheckpointSpec, JobSpec, RecordsSpec, RunSpec, WandbSpec

NOW = 1_773_219_178.0
"""2026-03-11 08:52:58 UTC."""


def spec(name: str, **changes: Any) -> RunSpec:
    fields: dict[str, Any] = {
        "name": name,
        "dri": "ada",
        "final_step": 20_000,
        "cadence": 600,
        "job": JobSpec(kind="local", id="17", log="/data/run.log"),
        "wandb": WandbSpec(entity="team", project="proj", id=name),
        "checkpoints": CheckpointSpec(path=("/data/ckpt",), save_every=900.0),
        "records": RecordsSpec(logbook="/data/book.md"),
    }
    return RunSpec(**(fields | changes))


def alert(
    rule: str = "C-05",
    severity: Severity = Severity.ALERT,
    title: str = "throughput 31% below its baseline",
    evidence: tuple[tuple[str, str], ...] = (("1.21M to 0.83M tok/s", "logged rows"),),
    act: str = "look at the input pipeline",
    since: float = NOW - 2520,
) -> Alert:
    return Alert(
        id=rule,
        key=rule,
        severity=severity,
        title=title,
        since=since,
        evidence=tuple(Evidence(text=text, source=source) for text, source in evidence),
        confidence="sure",
        next_action=act,
    )


def closed(rule: str, seen: bool = True) -> ClosedAlert:
    return ClosedAlert(alert=alert(rule), closed_at=NOW - 60, seen=seen)


def checkpoint(step: int, state: str = "complete", old: float = 240.0) -> Checkpoint:
    whole = state == "complete"
    return Checkpoint(
        step=step if whole else None,
        name_step=step,
        path=f"/data/ckpt/step-{step}",
        root="/data/ckpt",
        state=CheckpointState(state),
        marker="metadata.json" if whole else None,
        saved_at=NOW - old,
        size=16_400_000_000,
        permanent=True,
    )


def checkpoints(*items: Checkpoint) -> Facet[CheckpointsValue]:
    whole = [item for item in items if item.state is CheckpointState.COMPLETE]
    pick = None
    if whole:
        pick = Pick(path=whole[-1].path, step=whole[-1].step or 0, why="newest complete")
    latest = whole[-1].step if whole else None
    value = CheckpointsValue(latest_complete=latest, relaunch_from=pick, items=items)
    return known(value, "/data/ckpt", NOW - 30)


def columns(count: int = 100, bad: tuple[int, ...] = ()) -> tuple[Column, ...]:
    return tuple(
        Column(at * 10, at * 10 + 9, None, None, None, 3)
        if at in bad
        else Column(at * 10, at * 10 + 9, *_three(2 + 8 * math.exp(-at / 20)), 0)
        for at in range(count)
    )


def _three(middle: float) -> tuple[float, float, float]:
    return middle * 0.95, middle * 1.05, middle


def tracker(**changes: Any) -> Facet[TrackerValue]:
    fields: dict[str, Any] = {
        "id": "run-a",
        "entity": "team",
        "project": "proj",
        "state": "running",
        "step": 8004,
        "loss": 2.314,
        "throughput": 830_000.0,
        "throughput_unit": "tok/s",
        "baseline": 1_200_000.0,
        "grad_norm": 0.41,
        "last_step_at": NOW - 31,
        "columns": columns(),
        "scanned": 1.0,
    }
    return known(TrackerValue(**(fields | changes)), "W&B files in /data/wandb", NOW - 20)


def log(*lines: str, path: str = "/data/run.log", size: int = 88_214) -> Facet[LogValue]:
    shown = lines or ("08:52:09 step 8003 loss=2.315", "08:52:10 step 8004 loss=2.314")
    safe = tuple(SafeText(plain=line) for line in shown)
    return known(LogValue(path=path, size=size, mtime=NOW - 3, lines=safe), path, NOW - 1)


def job(phase: Phase = Phase.RUNNING, **changes: Any) -> Facet[JobValue]:
    fields: dict[str, Any] = {"id": "17", "state": phase.value, "phase": phase}
    if phase is Phase.RUNNING:
        fields["tasks"] = Tasks(running=4, total=4)
    if phase.terminal:
        fields["ended_at"] = NOW - 720
    return known(JobValue(**(fields | changes)), "process table", NOW - 5)


def monitor(fresh: bool = True) -> Facet[MonitorValue]:
    last = NOW - (120 if fresh else 2460)
    return known(MonitorValue(fresh=fresh, last_update=last, cadence_s=600), "state.json", NOW - 9)


def missing(kind: ErrorKind = ErrorKind.TIMEOUT, why: str = "no answer in 20 s") -> Facet[Any]:
    return unknown(kind, why, "somewhere", NOW - 90)


def facets(**changes: Any) -> Facets:
    fields: dict[str, Any] = {
        "job": job(),
        "log": log(),
        "tracker": tracker(),
        "checkpoints": checkpoints(checkpoint(7_750, old=1740), checkpoint(8_000)),
        "monitor": monitor(),
    }
    return Facets(**(fields | changes))


def report(  # noqa: PLR0913 - each is a part of the report
    name: str = "run-a",
    verdict: Verdict = Verdict.HEALTHY,
    alerts: tuple[Alert, ...] = (),
    *,
    step: int | None = 8_004,
    final: int | None = 20_000,
    eta: float | None = 3060.0,
    act: str = "nothing to do",
    seen: Facets | None = None,
    **changes: Any,
) -> RunReport:
    fields: dict[str, Any] = {
        "spec": spec(name, final_step=final),
        "checked_at": NOW,
        "verdict": verdict,
        "facets": seen or facets(),
        "progress": Progress(
            step=step, final_step=final, final_step_source=None, text="", eta_s=eta
        ),
        "alerts": alerts,
        "next_action": act,
        "next_check_at": NOW + 240,
    }
    return RunReport(**(fields | changes))


def failed(name: str = "run-failed") -> RunReport:
    """Died while saving: a torn checkpoint above a whole one."""
    worst = alert(
        "C-01",
        Severity.CRITICAL,
        "ended, not success: exit 137",
        (("killed by signal 9", "exit file"), ("Killed", "/data/run.log:88214")),
        "relaunch from step 8000",
        NOW - 720,
    )
    items = checkpoints(checkpoint(8_000, old=840), checkpoint(8_004, "incomplete", old=720))
    seen = facets(job=job(Phase.FAILED, exit_code=137), checkpoints=items)
    alerts = (worst, alert("C-07", title="checkpoint 8004 is torn"))
    return report(
        name, Verdict.CRITICAL, alerts, eta=None, act="relaunch from step 8000", seen=seen
    )


def diverged(name: str = "run-nan") -> RunReport:
    """Its loss is not a number any more."""
    worst = alert("C-09", Severity.CRITICAL, "loss is nan at step 910", act="stop, roll back")
    seen = facets(tracker=tracker(loss=math.nan, columns=columns(100, tuple(range(91, 100)))))
    return report(name, Verdict.CRITICAL, (worst,), seen=seen)


def lost(name: str = "run-lost") -> RunReport:
    """Nothing of it can be observed."""
    seen = Facets(
        job=missing(), log=missing(ErrorKind.PERMISSION, "permission denied"), tracker=missing()
    )
    return report(name, Verdict.UNKNOWN, step=None, final=None, eta=None, seen=seen)


HOSTILE = "[/] [bold]x[/bold] [@click=app.quit] $critical \\[ 日本語 e\u0301 {}%s"


def hostile(name: str = "run-[/]-[bold") -> RunReport:
    """Everything foreign in it looks like markup."""
    bad = alert(title=HOSTILE, evidence=((HOSTILE, HOSTILE),), act=HOSTILE)
    seen = facets(log=log(HOSTILE, "[rank0]: x", "a" * 4000), tracker=tracker(id=HOSTILE))
    return report(name, Verdict.ATTENTION, (bad,), act=HOSTILE, seen=seen)


def fleet() -> tuple[RunReport, ...]:
    return (report("run-well"), failed(), diverged(), lost(), hostile())


def observed(value: Any) -> Facet[Any]:
    return known(value, "somewhere", NOW - 30)
