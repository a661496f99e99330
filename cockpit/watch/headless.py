"""A headless watch: owns its runs, keeps their state files, and knows when it is done (SPEC W)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from cockpit.config.unread import unread_notice
from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.report import FleetReport, RunReport
from cockpit.model.wording import utc_minute
from cockpit.runtime.moment import moment
from cockpit.runtime.offload import offload
from cockpit.store.beats import StoodIn, beat_every
from cockpit.store.ownership import Owned, Owner, Ownership
from cockpit.store.store import StoreError, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.statefile import StateFiles

STORE_DEADLINE = 10.0
DEFAULT_CADENCE = 900.0
LISTEN = 0.5
"""Seconds between two looks at whether the stated time has come."""

T = TypeVar("T")


class StopPoint(Frozen):
    """The stated stopping point; without one the watch ends when every run is over."""

    step: int | None = None
    time: Instant | None = None

    def reached(self, step: int | None) -> bool:
        """Return whether a run at ``step`` has come to the stated step."""
        return self.step is not None and step is not None and step >= self.step


class HeadlessWatch:
    """Watches the engine's runs as ``me``. Claim; go through ``rounds``; release."""

    def __init__(
        self,
        engine: Engine,
        me: Owner,
        clock: Clock,
        *,
        stop: StopPoint,
        once: bool = False,
    ) -> None:
        self.lost: list[str] = []
        self._engine = engine
        self._me = me
        self._clock = clock
        self._ownership = engine.ownership
        self._stop = stop
        self._once = once
        self._mine = {run.name: run_key(engine.file.path, run.name) for run in engine.file.runs}
        self._seen: set[str] = set()
        self._done: set[str] = set()
        self._said: list[str] = []
        self._known: set[str] = set()
        self._files = StateFiles(engine.file.path, me, clock)
        self._file = engine.file
        self._others: set[str] = set()
        self._beaten: asyncio.Future[None] | None = None
        """The last sign of life, which may be under way."""
        self._say_once(unread_notice(engine.file))

    async def claim(self, *, takeover: bool) -> list[str]:
        """Take all runs, or none: return a line for each that somebody else watches."""
        busy: list[str] = []
        for name, key in self._mine.items():
            owned = await self._claim(name, key, takeover=takeover)
            while owned is not None and (doubt := await self._doubt(owned)) > 0:
                await self._clock.sleep(min(doubt, self._beat_every))
                owned = await self._claim(name, key, takeover=takeover)
            if owned is not None:
                busy.append(f"{name} is watched by {owned.owner.label}; --takeover takes over")
        if busy:
            await self.release()
            return busy
        replaced = {} if self._ownership is None else self._ownership.replaced
        for hung in replaced.values():
            self._say_once(f"{hung.line}: this watch notifies people now")
        await self._beat()
        return busy

    async def release(self) -> None:
        """Give up every run that is still mine; what a beat under way finds out is said first."""
        if self._beaten is not None:
            await asyncio.wait((self._beaten,))
        for key in self._mine.values():
            await self._release(key)
        await self._ask(lambda own: own.leave(self._me, moment(self._clock)))

    async def rounds(self) -> AsyncIterator[tuple[RunReport, ...]]:
        """Yield the reports of each round until the watch is done; nothing while none is due."""
        queue: asyncio.Queue[RunReport] = asyncio.Queue()
        leave = self._engine.on_round(queue.put_nowait)
        loop = asyncio.ensure_future(self._engine.run())
        beating = asyncio.ensure_future(self._beating())
        try:
            while not self._finished():
                reports = await self._next(queue, loop)
                await self._follow_file()
                mine = tuple(report for report in reports if report.name in self._mine)
                await self._keep(mine)
                yield mine
        finally:
            leave()
            beating.cancel()
            loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await loop

    async def _beating(self) -> None:
        """Give a sign of life every few seconds, from this very loop: one that hangs gives none."""
        while True:
            await self._clock.sleep(self._beat_every)
            self._beaten = asyncio.ensure_future(self._beat())
            await asyncio.shield(self._beaten)

    async def _beat(self) -> None:
        """Beat; say who told people meanwhile if this process hung, and see who took what over."""
        me, every = self._me, self._beat_every
        beaten = await self._ask(lambda own: own.beat(me, moment(self._clock), every))
        if beaten is None:
            return
        if beaten.stood_in is not None:
            self._said.append(stood_in_line(beaten.stood_in, self._clock.now()))
        for name, key in list(self._mine.items()):
            if key not in beaten.runs:
                await self._still_mine(name)

    async def _doubt(self, owned: Owned) -> float:
        return await self._ask(lambda own: own.doubt(owned, moment(self._clock))) or 0.0

    @property
    def _beat_every(self) -> float:
        return beat_every(self.cadence or DEFAULT_CADENCE)

    def owns(self, report: RunReport) -> bool:
        """Return whether this watch owns a run: then it is the one that tells people."""
        return report.name in self._mine

    @property
    def cadence(self) -> float | None:
        """The shortest cadence of the runs that are still mine, ``None`` if none is."""
        return min(map(self._cadence, self._mine), default=None)

    def messages(self, notices: Iterable[str]) -> list[str]:
        """Return what is to be said to a person since the last call; each notice but once."""
        for notice in (*self._engine.notices, *notices):
            self._say_once(notice)
        said, self._said = self._said, []
        return said

    def last(self) -> FleetReport:
        """Return the newest reports of the runs watched."""
        report = self._engine.report()
        runs = tuple(run for run in report.runs if run.name in self._mine)
        return report.model_copy(update={"runs": runs})

    def _finished(self) -> bool:
        if not self._seen >= self._mine.keys():
            return False
        late = self._stop.time is not None and self._clock.now() >= self._stop.time
        return late or self._done >= self._mine.keys()

    async def _next(
        self, queue: asyncio.Queue[RunReport], loop: asyncio.Future[None]
    ) -> list[RunReport]:
        reports: list[RunReport] = []
        if loop.done():
            loop.result()
        with contextlib.suppress(TimeoutError):
            reports.append(await asyncio.wait_for(queue.get(), LISTEN))
        while not queue.empty():
            reports.append(queue.get_nowait())
        return reports

    async def _follow_file(self) -> None:
        """Take the runs that an edit of the run file has added, give up those that it removed."""
        file = self._engine.file
        if file is self._file:
            return
        self._file = file
        self._say_once(unread_notice(file))
        named = {run.name: run_key(file.path, run.name) for run in file.runs}
        for name in self._mine.keys() - named.keys():
            await self._release(self._mine.pop(name))
        for name in named.keys() - self._mine.keys() - self._others - set(self.lost):
            owned = await self._claim(name, named[name], takeover=False)
            if owned is None:
                self._mine[name] = named[name]
                continue
            self._others.add(name)
            self._say_once(f"{name} is watched by {owned.owner.label}; it is not watched here")

    async def _keep(self, reports: tuple[RunReport, ...]) -> None:
        """Give a sign of life for each run, write its state file, see whether it is done."""
        for report in reports:
            name = report.name
            self._seen.add(name)
            if not await self._still_mine(name):
                continue
            self._say_once(await self._files.write(report))
            step = report.progress.step
            if self._once or self._stop.reached(step) or self._engine.over(name):
                self._done.add(name)

    def _say_once(self, line: str | None) -> None:
        if line is not None and line not in self._known:
            self._known.add(line)
            self._said.append(line)

    def _cadence(self, name: str) -> float:
        runs = self._engine.file.runs
        return next((run.cadence for run in runs if run.name == name), DEFAULT_CADENCE)

    async def _still_mine(self, name: str) -> bool:
        key = self._mine.get(name)
        if key is None:
            return False
        now, cadence = moment(self._clock), self._cadence(name)
        taken = await self._ask(lambda own: own.refresh(key, self._me, now, cadence))
        if taken is None:
            return True
        if self._mine.pop(name, None) is None:
            return False
        self._said.append(f"{name} was taken over by {taken.owner.label}; no longer watched here")
        self.lost.append(name)
        return False

    async def _claim(self, name: str, key: str, *, takeover: bool) -> Owned | None:
        now, cadence, me = moment(self._clock), self._cadence(name), self._me
        return await self._ask(lambda own: own.claim(key, me, now, cadence, takeover=takeover))

    async def _release(self, key: str) -> None:
        await self._ask(lambda own: own.release(key, self._me))

    async def _ask(self, ask: Callable[[Ownership], T]) -> T | None:
        if self._ownership is None:
            return None
        try:
            return await offload(functools.partial(ask, self._ownership), deadline=STORE_DEADLINE)
        except (StoreError, TimeoutError) as error:
            self._say_once(f"who watches cannot be recorded: {error}")
            return None


def stood_in_line(stood_in: StoodIn, now: float) -> str:
    """Return what a watch says of itself that hung and goes on."""
    since, until = utc_minute(stood_in.since), utc_minute(now)
    told = f"{stood_in.who} notified people from {utc_minute(stood_in.at)} on"
    return f"this watch hung from {since} to {until}; {told}; this one notifies again now"
