"""Follows a launch: looked at after 120 s and then at the cadence, its outcome written once.

A first step that is not the expected one, and a death, are said at once (SPEC A-2, W, K).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar

from cockpit.actions.followed import FIRST_CHECK, Seen, followed
from cockpit.actions.ground import Recorder
from cockpit.model.clock import Clock
from cockpit.model.plan import StepResult, StepState
from cockpit.model.records import EventEntry
from cockpit.model.report import RunReport
from cockpit.rules import say
from cockpit.sources.offload import offload
from cockpit.store.followups import Followup, FollowupStore, Progressed
from cockpit.store.journal import Journal
from cockpit.store.store import Store, StoreError

RETRY_AFTER: Final = 60.0
DEADLINE: Final = 15.0
PLACE: Final = 900
"""Where the outcome stands among an action's steps: behind all of them."""
T = TypeVar("T")


def due(followup: Followup, cadence: float, now: float) -> bool:
    """Tell whether a launch is to be judged: after 120 s, then every cadence."""
    if followup.judged_at is None:
        return now >= followup.at + FIRST_CHECK
    return now >= followup.judged_at + cadence


class Followups:
    """Judges each report of a run against its last launch, and writes the outcome down once.

    ``heard`` is called with every report. Several cockpits may do so: the store decides which
    of them writes. What could not be written is tried again.
    """

    def __init__(self, store: Store, clock: Clock, recorder: Recorder) -> None:
        self._followups = FollowupStore(store)
        self._journal = Journal(store)
        self._clock = clock
        self._recorder = recorder

    async def heard(self, key: str, report: RunReport) -> Followup | None:
        """Return the launch as it is known now, ``None`` without one; never raises for the store.

        ``key`` is the run's ``run_key``. Bad first steps and deaths are judged at once, the rest
        when it is due.
        """
        if not self._followups.writes:
            return None
        try:
            followup = await self._asked(self._followups.last, key)
            if followup is None:
                return None
            if not followup.recorded:
                return await self._again(key, followup, report)
            if followup.state.final:
                return followup
            return await self._judged(key, followup, report)
        except (StoreError, TimeoutError):
            return None

    async def _judged(self, key: str, old: Followup, report: RunReport) -> Followup:
        seen, now = await self._known_stop(key, old, followed(old, report)), self._clock.now()
        at_once = seen.state in (Progressed.WRONG_STEP, Progressed.DIED, Progressed.STOPPED)
        news = seen.state is not old.state
        if not (at_once and news) and not due(old, report.spec.cadence, now):
            return await self._first_seen(key, old, seen)
        told = news and seen.state.told
        new = old.model_copy(
            update={
                "state": seen.state,
                "text": seen.text,
                "first_step": seen.first_step,
                "judged_at": now,
                "changed_at": now if news else old.changed_at,
                "recorded": not told,
            }
        )
        if not await self._asked(self._followups.change, key, old, new):
            return old
        return await self._record(key, new, report) if told else new

    async def _known_stop(self, key: str, followup: Followup, seen: Seen) -> Seen:
        """Return a death that our own journal ordered as what it is: a stop, and by whom."""
        if seen.state is not Progressed.DIED:
            return seen
        entry = await self._asked(self._journal.last_stop, key, followup.job_id)
        if entry is None:
            return seen
        text = f"{followup.launch_id} was stopped by {entry.operator} through the cockpit"
        return seen.model_copy(update={"state": Progressed.STOPPED, "text": text})

    async def _first_seen(self, key: str, old: Followup, seen: Seen) -> Followup:
        """Keep the first step at once: the rows that show it pass by."""
        if seen.first_step == old.first_step:
            return old
        new = old.model_copy(update={"first_step": seen.first_step})
        return new if await self._asked(self._followups.change, key, old, new) else old

    async def _again(self, key: str, followup: Followup, report: RunReport) -> Followup:
        """Write down what another process, or an earlier try, did not come to write."""
        if self._clock.now() < (followup.judged_at or 0.0) + RETRY_AFTER:
            return followup
        retried = followup.model_copy(update={"judged_at": self._clock.now()})
        if not await self._asked(self._followups.change, key, followup, retried):
            return followup
        return await self._record(key, retried, report)

    async def _record(self, key: str, followup: Followup, report: RunReport) -> Followup:
        at = followup.changed_at or followup.at
        good = followup.state is Progressed.PASSED
        state = StepState.DONE if good else StepState.FAILED
        step = StepResult(name="progress", state=state, at=at, note=followup.text)
        await self._asked(self._journal.step, followup.entry, PLACE, step)
        if report.spec.records.logbook is not None:
            message = f"{followup.run}: log {followup.action}"
            entry = outcome_entry(followup, at)
            if not (await self._recorder.event(report.spec, entry, message)).lasting:
                return followup
        done = followup.model_copy(update={"recorded": True})
        await self._asked(self._followups.change, key, followup, done)
        return done

    async def _asked(self, ask: Callable[..., T], *args: object) -> T:
        return await offload(functools.partial(ask, *args), deadline=DEADLINE)


def outcome_entry(followup: Followup, at: float) -> EventEntry:
    """Return what the logbook is told of a launch's outcome."""
    title = {
        Progressed.PASSED: f"{followup.action} confirmed: {followup.launch_id}",
        Progressed.NOT_PASSED: f"{followup.action} has not passed: {followup.launch_id}",
        Progressed.DIED: f"{followup.action} died: {followup.launch_id}",
        Progressed.WRONG_STEP: f"{followup.action} began at the wrong step: {followup.launch_id}",
    }.get(followup.state, followup.launch_id)
    good = followup.state is Progressed.PASSED
    return EventEntry(
        title=title,
        at=at,
        status=followup.text,
        evidence=f"launched {say.moment(followup.at)} by {followup.operator}",
        decision="none needed" if good else "a person must decide",
        next="the cadence goes on" if good else _advice(followup),
    )


def _advice(followup: Followup) -> str:
    if followup.state is Progressed.WRONG_STEP:
        return "stop it before it overwrites good checkpoints"
    if followup.state is Progressed.DIED:
        return "triage the log; the same failure again is escalated (C-14)"
    return "look at log, tracker and checkpoints"
