"""Runs, rows and facets of small histories, for the tests of the rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cockpit.model.base import SafeText
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.history import History, Outage, Settings
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    JobValue,
    LogValue,
    MonitorValue,
    Phase,
    Row,
    TrackerValue,
)
from cockpit.model.report import Facets
from cockpit.model.run import CheckpointSpec, JobSpec, MonitorSpec, RunSpec, Thresholds
from cockpit.model.trend import Trend
from cockpit.rules.lineage.drift import leaves
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.triage.classify import word_of
from tests.rules.asking import triage

T0 = 1_800_000_000.0
CADENCE = 60.0


def run_spec(**changes: Any) -> RunSpec:
    plain: dict[str, Any] = {
        "name": "toy",
        "dri": "ada",
        "cadence": CADENCE,
        "final_step": 1000,
        "final_step_source": "cockpit.toml",
        "job": JobSpec(kind="local"),
        "checkpoints": CheckpointSpec(path=("/c",), save_every=300.0),
        "monitor": MonitorSpec(state="m.json"),
        "thresholds": Thresholds(),
    }
    return RunSpec(**{**plain, **changes})


def outage(*runs: str, **changes: Any) -> Outage:
    names = runs or ("toy", "other")
    plain: dict[str, Any] = {
        "place": "https://iris", "facets": ("job", "log"), "runs": names, "since": T0,
        "kind": ErrorKind.REFUSED, "why": "connection refused", "told_by": names[0],
    }  # fmt: skip
    return Outage(**{**plain, **changes})


def settings_of(config: dict[str, Any], job: str = "host:1") -> Settings:
    return Settings(source="the tracker's config", job=job, values=leaves(config))


def folded(rows: Iterable[Row], run: RunSpec | None = None) -> Trend:
    return advance(Trend(), tuple(rows), run or run_spec())


def losses(values: Iterable[float | None], first_step: int = 0, every: float = 1.0) -> list[Row]:
    return [
        Row(first_step + index, T0 + (first_step + index) * every, value)
        for index, value in enumerate(values)
    ]


def windows(levels: Iterable[float], per_window: int = 6, start: float = T0) -> list[Row]:
    """Rows whose throughput is constant inside each window of one cadence."""
    gap = CADENCE / per_window
    return [
        Row(index * per_window + inner, start + index * CADENCE + inner * gap, 2.0, level)
        for index, level in enumerate(levels)
        for inner in range(per_window)
    ]


def job(phase: Phase = Phase.RUNNING, **changes: Any) -> JobValue:
    plain = {"id": "host:1", "state": phase.value, "phase": phase, "started_at": T0}
    return JobValue(**{**plain, **changes})


def log(*lines: str, mtime: float = T0, **changes: Any) -> LogValue:
    safe = tuple(SafeText(plain=line) for line in lines)
    return LogValue(path="run.log", size=100, mtime=mtime, lines=safe, **changes)


def tracker(**changes: Any) -> TrackerValue:
    return TrackerValue(**{"id": "toy", "state": "running", **changes})


def monitor(last_update: float, fresh: bool = True, **changes: Any) -> MonitorValue:
    plain = {"fresh": fresh, "last_update": last_update, "cadence_s": CADENCE}
    return MonitorValue(**{**plain, **changes})


def checkpoint(
    step: int, saved_at: float | None, state: CheckpointState = CheckpointState.COMPLETE
) -> Checkpoint:
    done = state is CheckpointState.COMPLETE
    return Checkpoint(
        step=step if done else None,
        name_step=step,
        path=f"/c/step-{step}",
        root="/c",
        state=state,
        saved_at=saved_at if done else None,
        touched_at=saved_at,
    )


def checkpoints(*items: Checkpoint) -> CheckpointsValue:
    complete = [item.step for item in items if item.state is CheckpointState.COMPLETE]
    steps = [step for step in complete if step is not None]
    return CheckpointsValue(latest_complete=max(steps, default=None), items=items)


def seen(now: float, **values: Any) -> Facets:
    """Facets observed at ``now``, by name; a ready-made ``Facet`` stays as it is."""
    facets = {
        name: value if isinstance(value, Facet) else known(value, name, now)
        for name, value in values.items()
    }
    return triaged(Facets(**facets))


def triaged(facets: Facets) -> Facets:
    """With the answer that the watch finds in the log once a job is over, or stands still."""
    ended, text = facets.job.value, facets.log.value
    if ended is None or text is None or text.triage is not None:
        return facets
    if ended.phase in (Phase.WAITING, Phase.UNKNOWN):
        return facets
    if ended.ended_at is not None and (facets.log.observed_at or 0.0) < ended.ended_at:
        return facets
    lines = [line.plain for line in text.lines]
    found = triage(lines, word_of(ended), ended.exit_code)
    value = text.model_copy(update={"triage": found})
    return facets.model_copy(update={"log": facets.log.model_copy(update={"value": value})})


def blind(now: float = T0, kind: ErrorKind = ErrorKind.TIMEOUT) -> Facet[Any]:
    return unknown(kind, "no answer within 5 s", "somewhere", now)


EXTRAS = (
    "phases",
    "stop_ordered_by",
    "rows_from",
    "job_named",
    "host_mark",
    "open",
    "used",
    "settings",
    "former_settings",
)


def history(now: float, trend: Trend | None = None, **values: Any) -> History:
    extras = {name: values.pop(name) for name in EXTRAS if name in values}
    if "host_mark" in extras:
        extras["host"] = extras.pop("host_mark")
    facets = seen(now, **values)
    log = facets.log.value
    logged = folded(log.rows) if log is not None else Trend()
    return History(now=now, facets=facets, trend=trend or Trend(), log_trend=logged, **extras)
