"""What checks read, made by hand: a run, a report of it, what lives, and what was done before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.actions.core.action import ActionContext, Dependencies
from cockpit.model.alert import Alert, Severity
from cockpit.model.clock import FixedClock
from cockpit.model.history import History
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Phase, Pick
from cockpit.model.plan import Check, Level, Outcome, Plan, StepResult, StepState
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.platforms.base import Platform
from cockpit.rules.metrics.progress import progress
from cockpit.store.journal import Holder, JournalEntry
from tests.platforms.stand_in import StandIn
from tests.rules.making import T0, job, run_spec, seen

NOW = T0 + 1000.0


def report(
    run: RunSpec, alerts: Sequence[Alert] = (), now: float = NOW, **facets: Any
) -> RunReport:
    found = seen(now, **facets)
    history = History(now=now, facets=found)
    return RunReport(
        spec=run, checked_at=now, verdict=Verdict.CRITICAL, facets=found,
        progress=progress(run, history), alerts=tuple(alerts), next_action="none",
    )  # fmt: skip


def context(
    run: RunSpec | None = None,
    *,
    alerts: Sequence[Alert] = (),
    live: Live | None = None,
    entries: Sequence[JournalEntry] = (),
    operator: str = "ada",
    runs: Sequence[RunSpec] = (),
    platform: Platform | None = StandIn(),  # noqa: B008 - it holds nothing
    **facets: Any,
) -> ActionContext:
    spec = run or run_spec()
    unused: Any = None
    parts = Dependencies(
        clock=FixedClock(NOW), store=None, journal=None, platforms=lambda run: platform,
        guards=(), recorder=unused, notifier=unused, look=unused,
    )  # fmt: skip
    facets.setdefault("job", job(Phase.FAILED, exit_code=1, ended_at=T0 + 500))
    return ActionContext(
        file=CockpitFile(path="/x/cockpit.toml", runs=(spec, *runs)),
        spec=spec,
        report=report(spec, alerts, **facets),
        key="/x/cockpit.toml#toy",
        now=NOW,
        operator=operator,
        parts=parts,
        live=live or Live(),
        entries=tuple(entries),
        launch_id=f"{spec.name}-i002",
    )


def alert(name: str, title: str = "it is wrong") -> Alert:
    return Alert(
        id=name, key=f"{name}:toy", severity=Severity.CRITICAL, title=title, since=T0,
        evidence=(), confidence="sure", next_action="look",
    )  # fmt: skip


def living(name: str = "host:1", **more: Any) -> LiveJob:
    return LiveJob(**{"id": name, "name": f"job {name}", "why": "its pid file names it", **more})


def item(step: int, state: str = "complete", root: str = "/c", **more: Any) -> Checkpoint:
    plain = {
        "step": step if state == "complete" else None,
        "name_step": step,
        "path": f"{root}/step-{step}",
        "root": root,
        "state": CheckpointState(state),
        "saved_at": T0,
    }
    return Checkpoint(**{**plain, **more})


def listing(
    *items: Checkpoint, pick: int | None = None, trainer: int | None = None
) -> CheckpointsValue:
    def picked(step: int | None) -> Pick | None:
        known = () if step is None else items
        found = next((each for each in known if step in (each.step, each.name_step)), None)
        return None if found is None else Pick(path=found.path, step=step or 0, why="newest")

    complete = [each.step for each in items if each.state is CheckpointState.COMPLETE]
    return CheckpointsValue(
        latest_complete=max((step for step in complete if step is not None), default=None),
        relaunch_from=picked(pick),
        trainer_would_load=picked(trainer),
        items=items,
    )


def entry(
    action: str, at: float, *steps: StepResult, number: int = 1, operator: str = "ada", **more: Any
) -> JournalEntry:
    plan = Plan(words=f"{action} toy", plan_id="p", action=action, run="toy", made_at=at)
    return JournalEntry(**{
        "number": number, "run": "toy", "action": action, "operator": operator,
        "holder": Holder(host="h", pid=1), "plan": plan, "begun_at": at, "steps": steps,
        "outcome": Outcome.DONE, **more,
    })  # fmt: skip


def done(name: str, at: float = T0, state: StepState = StepState.DONE) -> StepResult:
    return StepResult(name=name, state=state, at=at)


def by_id(checks: Sequence[Check], name: str) -> Check:
    return next(check for check in checks if check.id == name)


def levels(checks: Sequence[Check]) -> dict[str, str]:
    return {check.id: check.level.value for check in checks}


def hard(check: Check) -> bool:
    return check.level is Level.BLOCK and not check.overridable


def soft(check: Check) -> bool:
    return check.level is Level.BLOCK and check.overridable
