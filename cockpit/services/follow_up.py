"""What is left to do after an action, while somebody watches (SPEC A, W, S-11, S-12).

Carries out standing orders (SPEC A-15): a relaunch like a person's, or else an escalation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine
from functools import cache, partial
from typing import Any, Final

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.agents import OVER
from cockpit.actions.core.recovery import looked_up
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.wiring import build_service
from cockpit.model import check_rows as rows
from cockpit.model.acts import Outcome
from cockpit.model.alert import Severity
from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.observed import JobValue, Phase
from cockpit.model.plan import Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.standing import StandingOrder
from cockpit.model.wording import number
from cockpit.records.git.saver import Saver
from cockpit.records.issue.service import IssueService, new_critical
from cockpit.records.logbook.run_logs import run_log_of, with_status
from cockpit.records.recorder import RecordWriter
from cockpit.runtime.account import login_name
from cockpit.runtime.offload import offload
from cockpit.services.launch_checks import LaunchChecks
from cockpit.services.notifying import AutologConsent, PeriodicEntries
from cockpit.services.service import STORE_WITHIN, ReportService
from cockpit.store.alerts import Alerts
from cockpit.store.journal import Journal, StandingOrders
from cockpit.store.store import Store, StoreError, run_key
from cockpit.text.scrub import scrub, shown
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import turns_of

FLUSH_EVERY: Final = 30.0
PUSH_EVERY: Final = 60.0
WITHIN: Final = 120.0
ENDED: Final = "C-01"


class FollowUp(ReportService):
    """Looks after the runs of one engine: launches, entries, issues, run logs, pushes."""

    def __init__(
        self,
        engine: Engine,
        store: Store | None,
        clock: Clock,
        mine: Callable[[RunReport], bool],
        records: tuple[RecordWriter, IssueService],
    ) -> None:
        super().__init__(engine, clock, mine)
        self._store = store
        self._recorder, self._issues = records
        self._consent = AutologConsent(store, engine.file.path, clock)
        self._launch_checks = (
            None
            if store is None
            else LaunchChecks(store, clock, self._recorder, self._consent.given)
        )
        self._entries = PeriodicEntries(self._recorder, turns_of(store), clock)
        self._criticals: set[str] = set()
        self._ends: set[str] = set()
        self._flushed_at = float("-inf")
        self._push_due: dict[str, float] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with it, and what it has to ask a person; one line each."""
        asked = self._consent.notice
        return (*super().notices, *([] if asked is None else [asked]))

    async def look(self) -> None:
        """Do what is due now."""
        heard = self._reports()
        keys = run_key(self._engine.file.path, "") if heard else ""
        launched = await self._launched() if heard else ()
        for report in heard:
            key = f"{keys}{report.name}"
            if self._launch_checks is not None and key in launched:
                await self._watched("following launches", self._launch_checks.heard(key, report))
            if self._mine(report):
                await self._criticals_of(report)
                if self._entries.due(report) and await self._consent.given(report.spec):
                    await self._watched("the logbook", self._entries.write(key, report))
                await self._end_of_job(report)
            if self._mine(report):
                await self._push_left(report)
        now = self._clock.monotonic()
        if now - self._flushed_at < FLUSH_EVERY:
            return
        self._flushed_at = now
        runs = [run for run in self._engine.file.runs if run.records.issue is not None]
        if runs:
            await self._watched("queued comments", self._issues.flush(runs))

    async def _launched(self) -> Collection[str]:
        """Return the keys of the runs whose launches are followed: asked for once for all."""
        if self._launch_checks is None:
            return ()
        work = self._launch_checks.launched()
        found = await self._supervisor.run("following launches", WITHIN, work)
        return () if isinstance(found, Problem) else found

    async def _push_left(self, report: RunReport) -> None:
        """Let go behind what other cockpits have committed and could not push."""
        now, name = self._clock.monotonic(), report.name
        if report.spec.records.logbook is None or now < self._push_due.get(name, 0.0):
            return
        self._push_due[name] = now + PUSH_EVERY
        await self._watched("pushing the logbook", self._recorder.push_left(report.spec))

    async def _criticals_of(self, report: RunReport) -> None:
        """Post each new critical once; its name is the same for every cockpit that sees it."""
        if report.spec.records.issue is None:
            return
        criticals = [each for each in report.alerts if each.severity is Severity.CRITICAL]
        if not criticals:
            return
        try:
            opened = await self._opened(run_key(self._engine.file.path, report.name))
        except (StoreError, TimeoutError):
            return  # at the next look: a name of its own would be posted twice
        for alert in criticals:
            if self._store is not None and alert.key not in opened:
                continue  # it is being written down
            event = f"critical:{alert.key}:{opened.get(alert.key, alert.since):.0f}"
            if event in self._criticals:
                continue
            self._criticals.add(event)
            body = new_critical(report.spec, alert)
            await self._watched("the issue", self._recorder.comment(report.spec, event, body))

    async def _opened(self, key: str) -> dict[str, float]:
        """Return when each open alert was opened, by its key: the same for every cockpit."""
        if self._store is None:
            return {}
        found = await offload(Alerts(self._store).open, key, deadline=STORE_WITHIN)
        return {kept.alert.key: kept.opened_at for kept in found}

    async def _end_of_job(self, report: RunReport) -> None:
        """Write a job's end into the run log; one look at the file per job is enough."""
        job = report.facets.job.value
        known = None if job is None else f"{report.name} {job.id} {job.phase.value}"
        if report.spec.records.run_log is None or job is None or not job.phase.terminal:
            return
        if known in self._ends or not await self._consent.given(report.spec):
            return

        async def write() -> None:
            if await write_end(report, self._clock) is None and known is not None:
                self._ends.add(known)

        await self._watched("the run log", write())

    async def _watched(self, what: str, work: Coroutine[Any, Any, object]) -> None:
        """Await under the supervisor: a fault becomes a notice, a hang ends at its deadline."""
        await self._supervisor.run(what, WITHIN, work)


async def write_end(report: RunReport, clock: Clock) -> str | None:
    """Append the end of the present job to ``## Status``; return what stands in the way, if so.

    A success is an end, and a failure that opened a critical alert; a stop that was ordered has
    its own line already. A run log that says the end of this job, in whatever words, stays as
    it is.
    """
    facet, run_log = report.facets.job, report.spec.records.run_log
    job = facet.value
    if run_log is None or job is None or not facet.known or job.id is None:
        return None
    critical = any(a.id == ENDED and a.severity is Severity.CRITICAL for a in report.alerts)
    if job.phase is not Phase.SUCCEEDED and not (job.phase is Phase.FAILED and critical):
        return None
    at = job.ended_at or report.checked_at
    entry_of_end, text = (
        re.compile(rf"\({re.escape(_name(job))}\)\s*$", re.M),
        end_text(report, job),
    )

    def edit(data: bytes) -> bytes:
        known = entry_of_end.search(data.decode("utf-8", "replace"))
        return data if known or not data.strip() else with_status(data, at, text)

    try:
        path = run_log_of(run_log, report.name, at)
    except OSError as error:
        return f"{run_log}: {error.strerror or error}"
    done = await Saver(clock).save(path, edit, f"{report.name}: log the end of a job")
    return None if done.lasting else f"{path}: {done.trouble}"


def end_text(report: RunReport, job: JobValue) -> str:
    """Return one line with its evidence: how it ended, at which step, with which loss."""
    how = "completed" if job.phase is Phase.SUCCEEDED else "failed"
    tracker = report.facets.tracker.value
    parts = [
        how,
        *([f"exit code {job.exit_code}"] if job.exit_code is not None else []),
        f"step {report.progress.words}",
        *([] if tracker is None or tracker.loss is None else [f"loss {number(tracker.true_loss)}"]),
    ]
    return scrub(f"{', '.join(parts)} ({_name(job)})")


def _name(job: JobValue) -> str:
    return f"{job.launch_id}, {job.id}" if job.launch_id else f"{job.id}"


LOOK_UP_WITHIN: Final = 180.0
"""Seconds for one run: a look-up, and the records that a settled launch still wants."""


class LaunchLookUps(ReportService):
    """Settles lost launches and stops, at once and then every cadence (SPEC A)."""

    def __init__(
        self,
        engine: Engine,
        store: Store | None,
        clock: Clock,
        mine: Callable[[RunReport], bool],
        operator: str,
    ) -> None:
        super().__init__(engine, clock, mine)
        self._journal = None if store is None else Journal(store)
        self._actions = cache(
            partial(build_service, lambda: engine.file, engine, store, clock, operator=operator)
        )
        self._due: dict[str, float] = {}
        self._known: dict[str, frozenset[str]] = {}
        """The launches that were unknown at the last look, by run."""
        self._looking = asyncio.Lock()

    async def finish(self) -> None:
        """Look once more at what is due: the only round may have come before the services did."""
        self._heard |= {report.name: report for report in self._engine.report().runs}
        await self.look()

    async def look(self) -> None:
        """Look up what is due now, once a look that is under way has ended."""
        async with self._looking:
            for report in self._reports():
                name = report.name
                if self._mine(report) and self._is_due(report) and await self._anything(name):
                    what = f"looking up launches of {name}"
                    await self._supervisor.run(what, LOOK_UP_WITHIN, self._settle(name))

    def _is_due(self, report: RunReport) -> bool:
        """Tell whether a run's turn has come: each cadence, and when a launch becomes unknown."""
        now, name = self._clock.monotonic(), report.name
        unknown = frozenset(a.key for a in report.alerts if f"C-02:{name}:launch:" in a.key)
        new = not unknown <= self._known.get(name, frozenset())
        self._known[name] = unknown
        if not new and now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + report.spec.cadence
        return True

    async def _anything(self, run: str) -> bool:
        """Tell whether the journal has anything to look up; most runs never have."""
        if self._journal is None:
            return False
        key = run_key(self._engine.file.path, run)
        try:
            left = await offload(self._journal.unfinished, key, deadline=STORE_WITHIN)
        except (StoreError, TimeoutError):
            return False  # at the next cadence
        return any(map(looked_up, left))

    async def _settle(self, run: str) -> None:
        try:
            await self._actions().look_up(run)
        except (RefuseError, StoreError, TimeoutError):
            return  # at the next cadence
        await self._engine.poke(run, "job")


PATIENCE: Final = 180.0
"""Seconds for which a block may pass by itself: a log is read, a lock is given back."""
WHILE_HELD: Final = 1800.0
"""The same while another cockpit holds the run: it may be relaunching it."""
AGAIN: Final = 15.0
"""Seconds between two attempts."""
ORDER_WITHIN: Final = 3600.0
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
                work = self._supervisor.run(
                    what, ORDER_WITHIN, self.attempt(name, order, now - since)
                )
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
