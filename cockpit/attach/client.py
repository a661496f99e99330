"""The engine as a window has it: attaches to the process that serves, and asks it.

It attaches to the engine of its run file, starts one where none serves, and replaces one that
hangs. Meanwhile the window shows what the store remembers, then what it last received.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from cockpit.attach.meeting import (
    Connection,
    HungError,
    Meeting,
    MeetingError,
    Peer,
    Starter,
    connect,
    meeting_of,
    of_other_builds,
)
from cockpit.attach.wire import ASKS, BEAT, MISSED, Document, Parts, WireError, texts_in
from cockpit.model.clock import Clock, next_beat
from cockpit.model.report import Facets, FleetReport, RunReport, unread
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.shared_facts import RUN_FILE
from cockpit.model.wording import clock_time
from cockpit.runtime.offload import offload
from cockpit.runtime.process import process_facts
from cockpit.store.store import ReportMemory, Store, StoreError, run_key

if TYPE_CHECKING:
    from cockpit.model.curve import Curves, Span


Ask = Callable[..., Awaitable[object]]


class Remote:
    """The logs, curves and pasts of the engine's runs: every question of ``ASKS`` is a method.

    ``place`` returns where a run's log lies, as the engine last said; the rest raises what asking
    raises.
    """

    def __init__(self, ask: Ask, place: Callable[[str], str | None]) -> None:
        self._ask = ask
        self.place = place

    def __getattr__(self, what: str) -> Ask:
        if what not in ASKS:
            raise AttributeError(what)
        return partial(self._ask, what)

    async def curves(self, run: str, metrics: Sequence[str], span: Span) -> Curves:
        """Return these metrics of a run, as far as the engine has read them."""
        extent = [] if span.low is None or span.high is None else [span.low, span.high]
        asked = (run, list(metrics), span.by_time, extent, span.most)
        return cast("Curves", await self._ask("curves", *asked))


LOOK_EVERY: Final = 0.1
"""Seconds between two looks for an engine that is coming up."""
COMES_UP_WITHIN: Final = 20.0
PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before another engine is started, after each that did not come up."""
SILENT: Final = 15
"""Seconds without a word from any engine after which nothing that is shown is news."""
TOLD_FOR: Final = 60.0
"""Seconds for which it is said that an engine was replaced."""
RECALL_WITHIN: Final = 10.0
RECALLED: Final = 8
"""Reports that are read from the store in one piece, so that keys have their turn."""
OTHER_BUILD: Final = (
    "another build of the cockpit serves this run file, too (pid {pids}): restart it to share one"
)
ATTACHING: Final = "attaching to the engine; showing what was seen last"


class AttachedEngine:
    """What the app asks of an engine, told by the one that serves this run file."""

    def __init__(
        self, file: CockpitFile, store: Store | None, clock: Clock, *, attends: bool
    ) -> None:
        self.file = file
        remote: Any = Remote(self._ask, self._log_place)
        self.logs, self.curves, self.pasts = remote, remote, remote
        self._store = store
        self._clock = clock
        self._attends = attends
        none, now = Facets.model_construct(), clock.now()
        self._reports = {run.name: unread(run, none, now) for run in file.runs}
        self._early: dict[str, RunReport] = {}
        """Reports of runs of which the order has not told yet."""
        self._parts = Parts()
        self._last: dict[str, RunReport] = {}
        """Each run's report as this engine told it last: what it tells next are changes of it."""
        self._told: set[str] = set()
        self._places: dict[str, str | None] = {}
        self._news: list[Callable[[RunReport], object]] = []
        self._rings: list[Callable[[str], object]] = []
        self._visible: list[str] = []
        self._connection: Connection | None = None
        self._engine_notices: tuple[str, ...] = ()
        self._state = ATTACHING
        self._events: list[tuple[float, str]] = []
        self._other_builds: tuple[Peer, ...] = ()
        self._failures = 0
        self._heard = False
        self._replaced_one = False
        self.silent = ""
        self.first_frame: asyncio.Event | None = None
        """What an engine is started after: it would take the processor from the first frame."""
        self.recalled = asyncio.Event()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the cockpit itself, one line each."""
        now = self._clock.monotonic()
        self._events = [each for each in self._events if now - each[0] < TOLD_FOR]
        said = [self._state] if self._state else []
        if self._other_builds:
            pids = ", ".join(str(each.pid) for each in self._other_builds)
            said.insert(0, OTHER_BUILD.format(pids=pids))
        return (*self._engine_notices, *(text for _, text in self._events), *said)

    @property
    def attached(self) -> bool:
        """Whether an engine tells what is shown."""
        return self._connection is not None and not self._state

    def report(self) -> FleetReport:
        """Return what was told last, at once."""
        return FleetReport.model_construct(
            checked_at=self._clock.now(), runs=tuple(self._reports.values())
        )

    def subscribe(self, callback: Callable[[RunReport], object]) -> Callable[[], None]:
        """Call back with every report that comes; return how to stop that."""
        self._news.append(callback)
        return partial(self._news.remove, callback)

    def on_ring(self, callback: Callable[[str], object]) -> None:
        """Call back when somebody is to be told by this terminal's bell."""
        self._rings.append(callback)

    async def run(self) -> None:
        """Stay attached until cancelled."""
        beside = [asyncio.ensure_future(each) for each in (self._recall(), self._mind_silence())]
        try:
            starter, hung = Starter(self.file.path), None
            while True:  # the folder to meet in may go, and come again elsewhere
                hung = await self._attach(await self._meeting(), starter, hung)
        finally:
            for task in beside:
                task.cancel()
            if self._connection is not None:
                self._connection.close()

    async def poke(self, name: str) -> None:
        """Ask for all facets of a run, now."""
        self._say(say="poke", run=name)

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts, so that none closes unseen."""
        self._say(say="looked", run=name)

    def prefer(self, visible: Sequence[str]) -> None:
        """Say which runs a person sees: they are read first."""
        if list(visible) != self._visible:
            self._visible = list(visible)
            self._say(say="visible", runs=self._visible)

    async def check(self, run: str) -> RunReport:
        """Have every facet of a run looked at once, and judged.

        Raises ``TimeoutError`` where no engine answers, ``ValueError`` for a run it does not have.
        """
        return cast("RunReport", await self._ask("check", run))

    async def _ask(self, what: str, *arguments: object) -> object:
        if self._connection is None or self._connection.hello is None:
            raise TimeoutError("no engine is attached yet")
        return await self._connection.ask(what, *arguments)

    def _say(self, **document: object) -> None:
        if self._connection is not None:
            self._connection.say(**document)

    def _log_place(self, name: str) -> str | None:
        return self._places.get(name)

    async def _meeting(self) -> Meeting:
        """Return where to meet; while there is none, that is said and looked at again."""
        while True:
            try:
                return meeting_of(self.file.path)
            except MeetingError as error:
                self._state = f"cannot attach to an engine: {error}"
                await self._clock.sleep(PAUSES[-1])

    async def _attach(self, meeting: Meeting, starter: Starter, hung: Peer | None) -> Peer | None:
        """Attach, and stay so while the engine lives; return the one that hangs, if it does."""
        connection = await self._reach(meeting, starter, hung)
        if connection is None:
            return hung
        connection.say(say="hello", attends=self._attends, visible=self._visible)
        self._connection, self._last = connection, {}
        starter.came_up()
        with contextlib.suppress(TimeoutError, OSError):
            self._other_builds = await offload(of_other_builds, meeting, deadline=RECALL_WITHIN)
        try:
            await connection.listen(self._take)
        except HungError:
            self._replacing(connection)
            return connection.peer
        except WireError as error:
            self._state = f"not attached: {error}"
            await self._clock.sleep(PAUSES[0])
            # An engine that speaks otherwise is replaced once: the fault may be this window's.
            if self._replaced_one or _is_watch(connection):
                return None
            self._replaced_one = True
            return connection.peer
        except (EOFError, OSError):
            self._state = "looking for another engine"
            self._note(f"{_engine_name(connection)} went at {clock_time(self._clock.now())}")
        finally:
            connection.close()
            self._connection, self._engine_notices = None, ()
        return None

    async def _reach(
        self, meeting: Meeting, starter: Starter, hung: Peer | None
    ) -> Connection | None:
        """Return a connection to an engine that is not the hung one; start one if none serves."""
        connection = await self._connected(meeting, hung)
        if connection is not None:
            return connection
        if self.first_frame is not None:
            await self.first_frame.wait()
        until = self._clock.monotonic() + COMES_UP_WITHIN
        try:
            await offload(starter.start, meeting, hung, deadline=COMES_UP_WITHIN)
        except (OSError, TimeoutError) as error:
            await self._did_not_come_up(
                str(error) or f"did not start within {COMES_UP_WITHIN:.0f} s"
            )
            return None
        while self._clock.monotonic() < until:
            await self._clock.sleep(LOOK_EVERY)
            connection = await self._connected(meeting, hung)
            if connection is not None:
                self._failures = 0
                return connection
            failed = starter.failed()
            if failed is not None:
                await self._did_not_come_up(failed)
                return None
        return None

    async def _connected(self, meeting: Meeting, hung: Peer | None) -> Connection | None:
        try:
            to_engine = connect(meeting)
        except MeetingError as error:
            self._state = str(error)
            return None
        if to_engine is None:
            return None
        connection = await Connection.over(to_engine, meeting.run_file)
        if hung is not None and connection.peer == hung:
            connection.close()
            return None
        return connection

    async def _did_not_come_up(self, why: str) -> None:
        """Say why no engine comes up, and wait, longer each time."""
        self._state = f"the engine did not start: {why}"
        self._tell_all()
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        await self._clock.sleep(pause)

    def _note(self, event: str) -> None:
        self._events = [*self._events[-1:], (self._clock.monotonic(), event)]  # two at most

    def _replacing(self, connection: Connection) -> None:
        """Say that an engine hangs; one that only windows had is ended, it would hang for ever."""
        peer, hello = connection.peer, connection.hello
        silent = f"{_engine_name(connection)} has been silent for {BEAT * MISSED:.0f} s"
        self._note(f"{silent}: replaced at {clock_time(self._clock.now())}")
        self._state = f"{silent}: starting another one"
        ours = hello is not None and hello.kind == "engine" and peer is not None
        if ours and peer is not None and process_facts(peer.pid).ticks == peer.ticks:
            with contextlib.suppress(OSError):
                os.kill(peer.pid, signal.SIGKILL)

    async def _mind_silence(self) -> None:
        """Once no engine has said a word for long, show what was told as what is remembered.

        A time in which this process slept counts for one lap. While all is well that is a beat's
        length: it ends as the engine's next sign of life is due, so both wake this process once.
        """
        quiet, since, lap = 0.0, self._clock.now(), 1.0
        while True:
            await next_beat(self._clock, lap)
            self._other_builds = tuple(filter(_still_lives, self._other_builds))
            if self._heard:
                quiet, since, self._heard = 1.0, self._clock.now(), False
                lap = BEAT
                continue
            quiet, lap = quiet + lap, 1.0
            if quiet >= SILENT and not self.silent:
                self.silent = f"no engine since {clock_time(since)}"
                self._reports = {name: _as_old(each) for name, each in self._reports.items()}
                self._tell_all()

    def _take(self, document: Document) -> None:
        """Take what the engine says."""
        self._heard = True
        if self.silent:
            self.silent = ""
            self._tell_all()
        said = document.get("say")
        if said == "report":
            self._take_report(document)
        elif said == "order":
            self._take_order(document.get("runs"))
        elif said == "file":
            self._take_file(document.get("file"))
        elif said == "beat" and "notices" in document:
            self._engine_notices = texts_in(document["notices"])
        elif said == "ring":
            for ring in self._rings:
                ring(str(document.get("sequence", "")))

    def _take_report(self, document: Document) -> None:
        content, of = document.get("report"), document.get("of")
        former = None if of is None else self._last.get(str(of))
        parts = self._parts
        report = parts.joined(content) if of is None else parts.rejoined(content, former)
        self._last[report.name] = report
        place = document.get("log")
        self._places[report.name] = str(place) if place else None
        self._told.add(report.name)
        if report.name not in self._reports:
            self._early[report.name] = report
            return
        self._state = ""
        self._reports[report.name] = report
        for callback in tuple(self._news):
            callback(report)

    def _take_order(self, names: object) -> None:
        """Take which runs there are; one that is new is not read yet."""
        specs = {run.name: run for run in self.file.runs}
        found = {}
        for name in texts_in(names):
            report = self._reports.get(name) or self._early.get(name)
            if report is None and name in specs:
                report = unread(specs[name], Facets(), self._clock.now())
            if report is not None:
                found[name] = report
        self._reports, self._early = found, {}
        self._last = {name: self._last[name] for name in texts_in(names) if name in self._last}

    def _take_file(self, content: object) -> None:
        try:
            self.file = CockpitFile.model_validate(content)
        except ValidationError as error:
            raise WireError("a run file of an unexpected shape") from error

    def _tell_all(self) -> None:
        """Have the window painted anew: what the cockpit says of itself has changed."""
        for report in tuple(self._reports.values()):
            for callback in tuple(self._news):
                callback(report)

    async def _recall(self) -> None:
        """Show what the store remembers of each run until the engine has told of it."""
        try:
            await self._recall_all()
        finally:
            self.recalled.set()

    async def _recall_all(self) -> None:
        if self._store is None:
            return
        names = [run.name for run in self.file.runs]
        for start in range(0, len(names), RECALLED):
            some = [name for name in names[start : start + RECALLED] if name not in self._told]
            try:
                found = await offload(self._remembered, tuple(some), deadline=RECALL_WITHIN)
            except (StoreError, TimeoutError):
                return
            for report in found:
                if report.name in self._reports and report.name not in self._told:
                    self._reports[report.name] = report
                    for callback in tuple(self._news):
                        callback(report)

    def _remembered(self, names: tuple[str, ...]) -> list[RunReport]:
        assert self._store is not None
        memory, specs = ReportMemory(self._store), {run.name: run for run in self.file.runs}
        found = ((name, memory.report(run_key(self.file.path, name))) for name in names)
        return [_recalled(report, specs[name]) for name, report in found if report is not None]


def _still_lives(peer: Peer) -> bool:
    return process_facts(peer.pid).ticks == peer.ticks


def _is_watch(connection: Connection) -> bool:
    return connection.hello is not None and connection.hello.kind == "watch"


def _engine_name(connection: Connection) -> str:
    """Return ``the watch (pid 4711)``."""
    kind = "watch" if _is_watch(connection) else "engine"
    return f"the {kind}" if connection.peer is None else f"the {kind} (pid {connection.peer.pid})"


def _recalled(report: RunReport, spec: RunSpec) -> RunReport:
    """Return the store's report of a run as the run file has it now, but for a handover's DRI."""
    owner = report.owner
    dri = spec.dri if owner is None or owner.source == RUN_FILE else owner.name
    return _as_old(report).model_copy(update={"spec": spec.model_copy(update={"dri": dri})})


def _as_old(report: RunReport) -> RunReport:
    """Return a report as nobody stands behind it any more."""
    return report.as_remembered().model_copy(update={"watched_by": None, "next_check_at": None})
