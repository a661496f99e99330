"""Carries out standing orders (SPEC A-15): a relaunch like a person's, or else an escalation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache, partial
from typing import Final

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.standing import OVER
from cockpit.actions.core.wiring import build_service
from cockpit.model import check_rows as rows
from cockpit.model.acts import Outcome
from cockpit.model.clock import Clock
from cockpit.model.observed import Phase
from cockpit.model.plan import Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.standing import StandingOrder
from cockpit.runtime.account import login_name
from cockpit.runtime.offload import offload
from cockpit.services.service import STORE_WITHIN, ReportService
from cockpit.store.standing import StandingOrders
from cockpit.store.store import Store, StoreError, run_key
from cockpit.text.scrub import shown
from cockpit.watch.engine import Engine

PATIENCE: Final = 180.0
"""Seconds for which a block may pass by itself: a log is read, a lock is given back."""
WHILE_HELD: Final = 1800.0
"""The same while another cockpit holds the run: it may be relaunching it."""
AGAIN: Final = 15.0
"""Seconds between two attempts."""
WITHIN: Final = 3600.0
"""Seconds for one attempt, its grace and all its steps."""
TRIES: Final = 3
"""Relaunches that may be refused at the last moment, one after another, before people are told."""
SAID: Final = 900
"""Characters of the reasons that a message has."""


class StandingService(ReportService):
    """Looks for runs with a standing order whose job has failed; ``mine`` are this cockpit's.

    It decides nothing: whether the order covers a relaunch is a check of the plan, and all that
    is known of former attempts stands in the journal.
    """

    def __init__(
        self, engine: Engine, store: Store, clock: Clock, mine: Callable[[RunReport], bool]
    ) -> None:
        super().__init__(engine, clock, mine)
        self._orders = StandingOrders(store)
        who = login_name()
        self._actions = cache(
            partial(build_service, lambda: engine.file, engine, store, clock, operator=who)
        )
        self._failed: dict[str, tuple[StandingOrder, float]] = {}
        """The runs to act on: by which order, and since when (monotonic)."""
        self._refused: dict[str, list[str]] = {}
        """Why relaunches were refused whose plans were clean, one after another."""
        self._next: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[object]] = {}

    async def look(self) -> None:
        """Begin an attempt for each run whose turn has come; none waits for another."""
        now = self._clock.monotonic()
        for report in self._reports():
            name, order = report.name, report.standing
            if order is None or not self._mine(report) or not has_failed(report):
                self._failed.pop(name, None)
                self._next.pop(name, None)
                self._refused.pop(name, None)
            else:
                since = self._failed.get(name, (order, now))[1]
                self._failed[name] = (order, since)
        for name, (order, since) in self._failed.items():
            under_way = name in self._tasks and not self._tasks[name].done()
            if not under_way and now >= self._next.get(name, now):
                self._next[name] = now + AGAIN
                what = f"the {order.operator} on {name}"
                work = self._supervisor.run(what, WITHIN, self.attempt(name, order, now - since))
                self._tasks[name] = asyncio.ensure_future(work)

    async def stop(self, within: float) -> None:
        """Begin nothing more; what waits for its grace never begins."""
        await super().stop(within)
        left = [task for task in self._tasks.values() if not task.done()]
        if left:
            await asyncio.wait(left, timeout=within)
        for task in left:
            task.cancel()

    async def attempt(self, run: str, order: StandingOrder, waited: float) -> None:
        """Relaunch if the plan is clean; escalate what does not come right in ``waited`` (s)."""
        service = self._actions()
        request = Request(action="relaunch", run=run, operator=order.operator)
        try:
            await service.recover(run)
            plan = await service.plan(request)
            if plan.blocked:
                await self._blocked(service, plan, order, waited)
                return
            refused = self._refused.get(run, [])
            if len(refused) >= TRIES:
                why = f"its relaunch was refused {len(refused)} times: {refused[-1]}"
                await self._escalate(service, run, order, why)
                return
            result = await service.act(request, plan.words, shown=plan.plan_id)
        except (RefuseError, StoreError, TimeoutError):
            return  # nothing is known to have been done: the next attempt looks anew
        if result.outcome is Outcome.REFUSED:
            self._refused.setdefault(run, []).append(result.message)
        if result.outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            why = f"its relaunch {result.text}: {result.message}"
            await self._escalate(service, run, order, why)
        await self._engine.poke(run)

    async def _blocked(
        self, service: ActionService, plan: Plan, order: StandingOrder, waited: float
    ) -> None:
        """Wait for what may pass; then tell people, which ends the order."""
        against = [check for check in plan.checks if check.stands_in_the_way]
        if any(check.id == rows.STANDING_ORDER.id and check.value == OVER for check in against):
            return
        held = any(check.id == rows.SECOND_MACHINE.id for check in against)
        if waited >= (WHILE_HELD if held else PATIENCE):
            why = "; ".join(dict.fromkeys(check.text for check in against))
            await self._escalate(service, plan.run, order, why)

    async def _escalate(
        self, service: ActionService, run: str, order: StandingOrder, why: str
    ) -> None:
        """Hand the run to a person; the order is over, whether or not anybody was reached."""
        note = f"The {order.operator} is over: {shown(why, SAID)}. A person must decide."
        request = Request(
            action="escalate", run=run, operator=order.operator, params={"note": note}
        )
        result = await service.act(request, f"escalate {run}")
        end = partial(self._orders.end, run_key(self._engine.file.path, run))
        if result.outcome is Outcome.REFUSED:
            why = f"{why}; nobody was told: {result.message}"
        said, now = shown(f"it gave up: {why}", SAID), self._clock.now()
        await offload(partial(end, said, now), deadline=STORE_WITHIN)


def has_failed(report: RunReport) -> bool:
    """Tell whether the run's job is known to have ended without success."""
    job = report.facets.job
    if not job.known or job.remembered or job.value is None:
        return False
    return job.value.phase in (Phase.FAILED, Phase.CANCELLED)
