"""A desk that plans and does what a test tells it; its plans are real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from cockpit.actions.core.agents import Vetoed
from cockpit.actions.core.recovery import InterruptedAction
from cockpit.model.observed import Pick
from cockpit.model.plan import (
    Approval,
    Basis,
    Check,
    Difference,
    Draft,
    Level,
    Loss,
    Outcome,
    Plan,
    Request,
    Result,
    StepResult,
    StepState,
    Target,
    plan_of,
)
from cockpit.model.report import RunReport
from cockpit.store.journal import Holder, JournalEntry
from tests.widgets import reports as made


def check(id: str, level: Level = Level.PASS, text: str = "", **changes: Any) -> Check:  # noqa: A002
    fields = {"id": id, "level": level, "text": text or f"{id} is well", "basis": Basis.OBSERVED}
    return Check(**(fields | changes))


CLEAN = (
    check("C-15", Level.WARN, "tree dirty: experiments/grug.py (+3 −1)  affects training"),
    check("resume-policy", text="resume policy allow · W&B id matches", basis=Basis.RECORDED),
    check("C-17", text="picks step-46000 (complete, this lineage, newest by step)"),
    check("C-18", text="config equals previous instance (214 keys)", basis=Basis.INFERRED),
)
BLOCKED = check("C-25", Level.BLOCK, "two live jobs write to one output root")
APPROVABLE = check("C-09", Level.BLOCK, "loss was not finite at step 910", overridable=True)


def draft(run: str, action: str = "relaunch", **changes: Any) -> Draft:
    pick = Pick(path="/data/ckpt/step-46000", step=46_000, why="newest complete")
    fields: dict[str, Any] = {
        "words": f"{action} {run}",
        "checks": CLEAN,
        "command": "uv run iris --cluster marin job run --no-wait -e WANDB_API_KEY •••• -- python"
        " experiments/grug.py --resume",
        "stops": (f"/ada/{run} (4 tasks)",),
        "spares": (f"/ada/{run}-eval",),
        "checkpoint": pick,
        "trainer_would_load": pick,
        "differences": (
            Difference(what="optimizer.lr", ran="0.0003", would_run="0.0001"),
            Difference(what="code.sha", ran="3fa2c1e", would_run="3fa2c1e"),
            Difference(what="env.FLAGS", ran=None, would_run="--xla"),
        ),
        "loses": "12 steps since step-46000 (≈ 45 s)",
        "can_save_first": True,
    }
    return Draft(**(fields | changes))


def target(step: int) -> Target:
    return Target(path=f"/data/ckpt/step-{step}", step=step, size=16_400_000_000, why="not kept")


def entry(
    run: str, number: int = 1, outcome: Outcome | None = None, **changes: Any
) -> JournalEntry:
    request = Request(action="relaunch", run=run, operator="ada")
    fields: dict[str, Any] = {
        "number": number,
        "run": f"/data/cockpit.toml#{run}",
        "action": "relaunch",
        "operator": "ada",
        "holder": Holder(host="gpu-box", pid=4211),
        "plan": plan_of(request, draft(run), made.NOW - 900),
        "begun_at": made.NOW - 800,
        "launch_id": f"{run}-i002",
        "outcome": outcome,
        "steps": (
            StepResult(name="stop", state=StepState.DONE, at=made.NOW - 790),
            StepResult(name="submit", state=StepState.BEGUN, at=made.NOW - 780),
        ),
    }
    return JournalEntry(**(fields | changes))


class StandInService:
    """Stands in for ``cockpit.actions.core.service.ActionService``."""

    def __init__(self, make: Callable[[Request], Draft] | None = None) -> None:
        self.make = make or (lambda request: draft(request.run, request.action))
        self.planned: list[tuple[Request, tuple[Approval, ...]]] = []
        self.acted: list[tuple[Request, str, str | None]] = []
        self.plan_gate: asyncio.Event | None = None
        self.gates: dict[str, asyncio.Event] = {}
        self.steps: Sequence[str] = ("evidence", "stop", "submit", "verify", "follow", "log")
        self.result: Callable[[Request, str], Result] | None = None
        self.trouble: Exception | None = None
        self.left: dict[str, tuple[InterruptedAction, ...]] = {}
        self.entries: dict[str, tuple[JournalEntry, ...]] = {}
        self.left_gate: asyncio.Event | None = None
        self.recovered: list[str] = []
        self.seen: list[Loss | None] = []
        self.measure: Callable[[Plan, RunReport], Plan] = lambda plan, report: plan

    async def veto(self, run: str, by: str, reason: str = "") -> Vetoed:
        return Vetoed((), None)

    async def end_elsewhere(self, run: str, by: str, *, ended: bool) -> str | None:
        return "orders on other machines end as soon as they read it" if ended else None

    async def plan(self, request: Request, approvals: Sequence[Approval] = ()) -> Plan:
        if self.plan_gate is not None:
            await self.plan_gate.wait()
        if self.trouble is not None:
            raise self.trouble
        self.planned.append((request, tuple(approvals)))
        return plan_of(request, self.make(request), made.NOW).approved(tuple(approvals))

    async def act(
        self,
        request: Request,
        words: str,
        approvals: Sequence[Approval] = (),
        *,
        shown: str | None = None,
        seen: Loss | None = None,
        on_step: Callable[[StepResult], None] = lambda step: None,
    ) -> Result:
        self.acted.append((request, words, shown))
        self.seen.append(seen)
        if self.result is not None:
            return self.result(request, shown or "")
        done = []
        for name in self.steps:
            on_step(StepResult(name=name, state=StepState.BEGUN, at=made.NOW))
            if name in self.gates:
                await self.gates[name].wait()
            done.append(StepResult(name=name, state=StepState.DONE, at=made.NOW, note=f"{name}!"))
            on_step(done[-1])
        return Result(
            plan_id=shown or "",
            outcome=Outcome.DONE,
            job_id="4711",
            launch_id=f"{request.run}-i003",
            steps=tuple(done),
        )

    def measured(self, plan: Plan, report: RunReport) -> Plan:
        return self.measure(plan, report)

    async def pushed(self, result: Result, within: float = 0.0) -> Result:
        return result

    async def recover(self, run: str) -> tuple[InterruptedAction, ...]:
        self.recovered.append(run)
        return self.left.pop(run, ())

    async def interrupted(self, run: str) -> tuple[InterruptedAction, ...]:
        if self.left_gate is not None:
            await self.left_gate.wait()
        return self.left.get(run, ())

    async def history(self, run: str) -> tuple[JournalEntry, ...]:
        return self.entries.get(run, ())
