"""The engine's end: gives every window what it knows, and answers what they ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from functools import partial
from operator import is_
from typing import Final, Literal, cast

import cockpit
from cockpit.attach import wire
from cockpit.attach.meeting import Meeting, leave, listen, ours, place_of
from cockpit.model.clock import Clock, next_beat
from cockpit.model.curve import Curve, Curves, Span
from cockpit.model.logtext import Hit, LogPage, Matches, Near
from cockpit.model.place import Place
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import CockpitFile
from cockpit.platforms.table import kind_of
from cockpit.runtime.offload import offload
from cockpit.sources.curves import CurveFiles, CurveReading
from cockpit.sources.logs.file import (
    LogFile,
    line_at,
    nearest_step,
    nearest_time,
    sift,
    step_pattern,
)
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.remote import log_at
from cockpit.sources.logs.search import count_expression, count_from, find_expression
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import UnknownRunError

DEADLINE: Final = 10.0
SLICE: Final = 0.15
"""Seconds that one step of a search takes, so that it can be stopped and can tell how far."""
PATIENCE: Final = 2.0
"""Seconds that are spent on looking for a step where only a nearer one is known."""


class LogReading:
    """The logs of the runs whose reports ``report_of`` returns, as they are on the disk now.

    Every method raises ``OSError`` and ``TimeoutError``, ``find`` and ``matches`` also
    ``ValueError`` for an expression that is none or takes too long.
    """

    def __init__(self, report_of: Callable[[str], RunReport | None]) -> None:
        self._report_of = report_of

    def place(self, run: str) -> str | None:
        """Return where the run's log can be read in pages, if it can."""
        report = self._report_of(run)
        return None if report is None else log_place(report)

    async def tail(self, run: str, count: int) -> LogPage:
        """Return the last lines."""
        return await offload(self._file(run).tail, count, deadline=DEADLINE)

    async def page(self, run: str, offset: int, count: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        return await offload(self._file(run).page, offset, count, back, deadline=DEADLINE)

    async def search(self, run: str, term: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a text: on a match, or where the time ran out."""
        file = self._file(run)
        return await offload(file.search, term, offset, back, SLICE, deadline=DEADLINE)

    async def find(self, run: str, expression: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a person's regular expression."""
        return await find_expression(self._log(run), expression, offset, back)

    async def matches(self, run: str, term: str, regex: bool, offset: int) -> Matches:
        """Count a moment: where matching lines start, from ``offset`` on."""
        if regex:
            return await count_expression(self._log(run), term, offset)
        log = self._log(run)
        return await offload(count_from, log, term, False, offset, SLICE, deadline=DEADLINE)

    async def sift(self, run: str, offset: int, count: int, back: bool, begin: int) -> LogPage:
        """Read warnings and errors alone for a moment: those before ``offset``, or from it on."""
        log = self._log(run)
        return await offload(sift, log, offset, count, back, begin, SLICE, deadline=DEADLINE)

    async def exact_step(self, run: str, step: int) -> Hit | None:
        """Return the newest line that tells exactly this step."""
        end, pattern = 1 << 62, step_pattern(step)
        look = partial(self._file(run).search, pattern, end, True, PATIENCE, True)
        return await offload(look, deadline=DEADLINE)

    async def line_at(self, run: str, number: int) -> int | None:
        """Return where the line of this number (from 1) starts."""
        return await offload(line_at, self._log(run), number, deadline=DEADLINE)

    async def nearest_step(self, run: str, step: int, begin: int) -> Near | None:
        """Return the line after ``begin`` whose training step is nearest."""
        return await offload(nearest_step, self._log(run), step, begin, deadline=DEADLINE)

    async def nearest_time(self, run: str, at: float, begin: int) -> Near | None:
        """Return the line after ``begin`` whose own time is nearest to ``at``."""
        return await offload(nearest_time, self._log(run), at, begin, deadline=DEADLINE)

    def _log(self, run: str) -> Ranged:
        report = self._report_of(run)
        place = None if report is None else _place(report)
        if place is None:
            raise OSError(0, f"no log of {run} can be read from here")
        return log_at(place)

    def _file(self, run: str) -> LogFile:
        return LogFile(self._log(run))


def log_place(report: RunReport) -> str | None:
    """Return where a run's log can be read in pages, if it can."""
    place = _place(report)
    return None if place is None else str(place)


def _place(report: RunReport) -> Place | None:
    log, kind = report.facets.log.value, kind_of(report.spec)
    return None if log is None or kind is None else kind.log_place(report.spec, log)


class EngineCurves:
    """The curves of the runs whose reports ``report_of`` returns, by their names."""

    def __init__(
        self, tracker: object, report_of: Callable[[str], RunReport | None], clock: Clock
    ) -> None:
        """``tracker`` is the engine's; one that knows no files (``CurveFiles``) gives no curve."""
        self._report_of = report_of
        reads = hasattr(tracker, "curve_files")
        self._reading = CurveReading(cast("CurveFiles", tracker), clock) if reads else None

    async def curves(
        self, run: str, metrics: Sequence[str], by_time: bool, extent: Sequence[float], most: int
    ) -> Curves:
        """Return these metrics of a run (see ``CurveReading``); an empty extent is all of it."""
        report = self._report_of(run)
        named = tuple(str(each) for each in metrics)
        if report is None or self._reading is None:
            return Curves((), tuple(Curve(each, why="its tracker is not read") for each in named))
        low, high = (float(extent[0]), float(extent[1])) if len(extent) == 2 else (None, None)
        span = Span(bool(by_time), low, high, int(most))
        return await self._reading.curves(report.spec, named, span)


HELLO_WITHIN: Final = 10.0
CHECK_WITHIN: Final = 20.0
AT_ONCE: Final = 65_536
"""Bytes of reports that are made before anything else has its turn: some six of them, or of a
fleet at rest a dozen."""
LEAST: Final = 1024
"""Bytes that a report counts at least: one of which little has changed takes time as well."""
MOST_ASKED: Final = 32
"""Questions of one window that are answered at one time."""
SIGN: Final = wire.frame({"say": "beat"})
"""A sign of life that tells nothing else."""
_URGENT: Final = (Verdict.CRITICAL, Verdict.ATTENTION, Verdict.UNKNOWN)


class EngineServer:
    """Serves one engine to the windows of its run file, until it is closed or replaced."""

    def __init__(
        self, engine: Engine, meeting: Meeting, kind: Literal["watch", "engine"], clock: Clock
    ) -> None:
        self.replaced = False
        self.windows: set[Window] = set()
        self.changed = asyncio.Event()
        """Set whenever a window comes or goes, or another engine takes this one's place."""
        self._engine = engine
        self._meeting = meeting
        self._kind: Literal["watch", "engine"] = kind
        self._clock = clock
        self._logs = LogReading(self.report_of)
        self._curves = EngineCurves(engine.tracker, self.report_of, clock)
        self._pasts = engine.pasts
        self._reports: dict[str, RunReport] = {}
        self._texts = wire.Texts()
        self._notices: tuple[str, ...] = ()
        self._tasks: set[asyncio.Task[None]] = set()
        self._inode: int | None = None
        self._leaving: list[Callable[[], None]] = []
        self._listening: asyncio.Server | None = None
        self.more_notices: Callable[[], tuple[str, ...]] = tuple

    async def open(self) -> None:
        """Take windows from now on, in place of any other engine; raises ``MeetingError``."""
        at = listen(self._meeting)
        self._inode = place_of(self._meeting)
        self._listening = await asyncio.start_unix_server(self._welcome, sock=at)
        self._take_all()
        self._leaving = [
            self._engine.subscribe(self._news),
            self._engine.on_reload(self._reloaded),
        ]

    async def close(self) -> None:
        """Let all windows go; they find another engine, or start one."""
        for stop in self._leaving:
            stop()
        leave(self._meeting, self._inode)
        if self._listening is not None:
            self._listening.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def beat(self) -> None:
        """Give signs of life until cancelled, or until another engine serves instead."""
        while True:
            if place_of(self._meeting) != self._inode:
                self.replaced = True
                self.changed.set()
                return
            self._take_all()
            notices = (*self._engine.notices, *self.more_notices())
            if notices != self._notices:
                self._notices = notices
                self._tell({"say": "beat", "notices": notices})
            else:
                self._tell_frame(SIGN)
            await next_beat(self._clock, wire.BEAT)

    def ring(self, sequence: str) -> bool:
        """Ring the terminal of every window; return whether there is one."""
        self._tell({"say": "ring", "sequence": sequence})
        return bool(self.windows)

    @property
    def attended(self) -> bool:
        """Whether there is a window whose person may act."""
        return any(window.attends for window in self.windows)

    def report_of(self, name: str) -> RunReport | None:
        """Return the newest report of a run."""
        return self._reports.get(name)

    def frame_of(self, report: RunReport, former: RunReport | None = None) -> bytes:
        """Return a report as it crosses; to who was told ``former`` before, what has changed."""
        said: wire.Document = {"say": "report", "log": log_place(report)}
        if former is None or former.spec != report.spec:
            return wire.frame({**said, "report": self._texts.parted(report)})
        return wire.frame(
            {**said, "of": report.name, "report": self._texts.changed(report, former)}
        )

    def order(self) -> wire.Document:
        """Return the runs there are, and the ones to tell of first."""
        return {"say": "order", "runs": list(self._reports)}

    def urgent(self) -> list[str]:
        """Return the runs, those that need a person first."""
        return sorted(self._reports, key=lambda name: self._reports[name].verdict not in _URGENT)

    def greeting(self) -> list[wire.Document]:
        """Return what every window is told at first."""
        hello = wire.Hello(
            build=wire.build(), version=cockpit.__version__, file=self._meeting.run_file,
            kind=self._kind,
        )  # fmt: skip
        notices = {"say": "beat", "notices": self._notices}
        return [
            {"say": "hello", "hello": hello},
            _file(self._engine.file),
            self.order(),
            notices,
        ]

    def heard(self, window: Window, document: wire.Document) -> None:
        """Do what a window says; a question is answered beside all else."""
        said, run = document.get("say"), document.get("run")
        if said == "ask":
            window.answer(document)
        elif said == "poke" and isinstance(run, str) and run in self._reports:
            self._spawn(self._engine.poke(run))
        elif said == "looked" and isinstance(run, str):
            self._spawn(self._engine.looked_at(run))
        elif said == "visible":
            window.visible = _names(document.get("runs"), self._reports)
            self.prefer()

    def prefer(self) -> None:
        """Have the engine read first what is seen in any window."""
        seen = (name for window in self.windows for name in window.visible)
        self._engine.prefer(tuple(dict.fromkeys(seen)))

    async def asked(self, what: str, arguments: list[object]) -> wire.Document:
        """Return the answer to one question as it crosses."""
        try:
            wire.ASKS[what].check(arguments)
        except KeyError:
            return {"trouble": "value", "text": f"no such question: {what[:40]!r}"}
        except TypeError as error:
            return {"trouble": "value", "text": f"{what}: {error}"}
        return await wire.answered(self._method(what)(*arguments))

    def _method(self, what: str) -> Callable[..., Awaitable[object]]:
        if what == "check":
            return self._check
        pasts = dict.fromkeys(("timeline", "then", "log_then"), self._pasts)
        others: dict[str, object] = {"curves": self._curves, **pasts}
        found: Callable[..., Awaitable[object]] = getattr(others.get(what, self._logs), what)
        return found

    async def _check(self, run: object) -> RunReport:
        try:
            return (await self._engine.check([str(run)], CHECK_WITHIN)).runs[0]
        except UnknownRunError as error:
            raise ValueError(str(error)) from error

    def _spawn(self, work: Awaitable[None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _news(self, report: RunReport) -> None:
        self._reports[report.name] = report
        for window in self.windows:
            window.tell_report(report.name)

    def _take_all(self) -> None:
        """Take reports that changed without news, such as when a run is looked at next."""
        runs = self._engine.report().runs
        if len(runs) == len(self._reports) and all(map(is_, runs, self._reports.values())):
            return  # as at most beats
        reports = {each.name: each for each in runs}
        former, self._reports = self._reports, reports
        if list(former) != list(reports):
            self._texts.keep(reports)
            for window in self.windows:
                window.keep(reports)
            self._tell(self.order())
        for name, report in reports.items():
            if former.get(name) is not report:
                for window in self.windows:
                    window.tell_report(name)

    def _reloaded(self, file: CockpitFile) -> None:
        self._tell(_file(file))
        self._take_all()
        self._tell(self.order())  # the runs may have been told before the file that names them

    def _tell(self, document: wire.Document) -> None:
        if self.windows:
            self._tell_frame(wire.frame(document))

    def _tell_frame(self, data: bytes) -> None:
        for window in self.windows:
            window.tell(data)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one window until it goes."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        window = Window(self, reader, writer)
        try:
            if ours(writer.get_extra_info("socket")):
                await window.serve()
        except (EOFError, wire.WireError, OSError, TimeoutError):
            pass  # it has gone, or is none of ours
        except asyncio.CancelledError:
            pass  # by ``close``; the loop would print it as a fault
        finally:
            self.windows.discard(window)
            self.prefer()
            self.changed.set()
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()


class Window:
    """One window of an engine: what is to be told to it, and what it asks."""

    def __init__(
        self, server: EngineServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.attends = False
        self.visible: tuple[str, ...] = ()
        self._server = server
        self._reader = reader
        self._writer = writer
        self._said: list[bytes] = []
        self._reports: dict[str, None] = {}
        self._told: dict[str, RunReport] = {}
        """Each run's report as it was told last."""
        self._more = asyncio.Event()
        self._asked: set[asyncio.Task[None]] = set()

    def tell(self, data: bytes) -> None:
        """Tell a frame as soon as the window reads; signs of life do not heap up."""
        if not self._said or self._said[-1] != data:
            self._said.append(data)
        self._more.set()

    def tell_report(self, name: str) -> None:
        """Tell the newest report of a run, whichever that is by then."""
        self._reports[name] = None
        self._more.set()

    def keep(self, names: Container[str]) -> None:
        """Forget what was told of all but these runs, as the window does with the order."""
        self._told = {name: each for name, each in self._told.items() if name in names}

    def answer(self, document: wire.Document) -> None:
        """Answer a question beside all else that is said."""
        number, what = document.get("id"), document.get("what")
        arguments = document.get("arguments")
        if not isinstance(arguments, list):
            return

        async def asked() -> None:
            if len(self._asked) > MOST_ASKED:
                found: wire.Document = {
                    "trouble": "timeout",
                    "text": "too much is asked at one time",
                }
            else:
                found = await self._server.asked(str(what), arguments)
            self.tell(wire.frame({"say": "answer", "id": number, **found}))

        task = asyncio.ensure_future(asked())
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def serve(self) -> None:
        """Greet, then tell and listen until the window goes."""
        for document in self._server.greeting():
            self._writer.write(wire.frame(document))
        async with asyncio.timeout(HELLO_WITHIN):
            hello = await wire.read_frame(self._reader)
        self.attends = bool(hello.get("attends"))
        known = self._server.urgent()
        self.visible = _names(hello.get("visible"), known)
        self._reports = dict.fromkeys((*self.visible, *known))
        self._more.set()
        self._server.windows.add(self)
        self._server.prefer()
        self._server.changed.set()
        telling = asyncio.ensure_future(self._telling())
        try:
            while not telling.done():
                self._server.heard(self, await wire.read_frame(self._reader))
        finally:
            for task in (telling, *self._asked):
                task.cancel()
            await asyncio.gather(telling, *self._asked, return_exceptions=True)

    async def _telling(self) -> None:
        """Write what is to be told: what was said first, then one report after another."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._said or self._reports:
                said, self._said = self._said, []
                for data in said:
                    self._writer.write(data)
                self._writer.write(b"".join(self._newest()))
                await self._writer.drain()
                if self._said or self._reports:
                    await asyncio.sleep(0)

    def _newest(self) -> Iterator[bytes]:
        """Yield the reports that are to be told next, as many as a window may read at once.

        What is told together wakes a window once: of a fleet at rest that is all of it.
        """
        left = AT_ONCE
        while self._reports and left > 0:
            name = next(iter(self._reports))
            del self._reports[name]
            newest = self._server.report_of(name)
            if newest is not None:
                told = self._server.frame_of(newest, self._told.get(name))
                self._told[name] = newest
                left -= max(len(told), LEAST)
                yield told


def _names(found: object, known: Container[str]) -> tuple[str, ...]:
    """Return the runs that a window has named, as far as there are such."""
    return tuple(name for name in wire.texts_in(found) if name in known)


def _file(file: CockpitFile) -> wire.Document:
    return {"say": "file", "file": file}
