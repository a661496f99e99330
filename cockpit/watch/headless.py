"""A headless watch: owns its runs, writes their state files, ends when they are done (SPEC W)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import field_serializer

from cockpit.config.advice import unread_notice
from cockpit.hosts.own_folder import make_folder, put_new, put_whole, settle_folder
from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.clock import Clock
from cockpit.model.report import FleetReport, RunReport, phase_text
from cockpit.model.wording import utc_minute
from cockpit.runtime.moment import moment
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.store.ownership import Owned, Owner, Ownership, StoodIn, beat_every
from cockpit.store.store import StoreError, run_key
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from cockpit.watch.engine import Engine

SUFFIX: Final = "_monitoring_state.json"
_TRIES: Final = 100
DEADLINE: Final = 5.0
DEFAULT_FOLDER: Final = "scratch"


class MonitorState(Frozen):
    """IRIS's fields that a watch knows, and ``run``, ``owner``, ``cadence_s`` and ``last_signal``.

    ``ts`` is epoch seconds here and milliseconds in the file. A field that is ``None`` is not
    written, so that it keeps what someone else has put there.
    """

    ts: float
    run: str
    job_id: str | None = None
    owner: str | None = None
    cadence_s: Seconds | None = None
    last_signal: str | None = None
    restart_count: int | None = None
    config: str | None = None
    resubmit_command: str | None = None

    @field_serializer("ts")
    def _milliseconds(self, ts: float) -> int:
        return round(ts * 1000)


class StateFile:
    """One watch's state file in ``folder``, named by ``created_at`` (epoch seconds, in UTC).

    The same file is kept over the life of the watch. A file of another run or owner that was
    created in the same minute is left alone: ours is then called ``YYYYMMDD-HHMM-2_…``.
    """

    def __init__(self, folder: Path, created_at: float) -> None:
        self._folder = folder
        self._stamp = datetime.fromtimestamp(created_at, tz=UTC).strftime("%Y%m%d-%H%M")
        self._path: Path | None = None

    def write(self, payload: MonitorState) -> Path:
        """Write ``payload`` atomically and return the file; blocking.

        A reader sees the former or the new content, never a half. Raises ``OSError``, also for
        a file that is another run's by now: the next call takes another one.
        """
        ours = _plain(payload)
        make_folder(self._folder)
        if self._path is None:
            self._path = self._claim(ours)
        found = _read(self._path) or {}
        if found.get("run", payload.run) != payload.run:
            taken, self._path = self._path, None
            who = clean(found.get("owner") or "no owner", 100)
            text = f"{taken.name} now belongs to run {clean(found['run'], 100)} ({who})"
            raise OSError(0, f"{text}; expected run {payload.run}; it is left as it is")
        _replace(self._path, _merged(found, ours))
        return self._path

    def _claim(self, ours: dict[str, Any]) -> Path:
        for count in range(1, _TRIES):
            path = self._folder / f"{self._stamp}{f'-{count}' if count > 1 else ''}{SUFFIX}"
            if put_new(path, _text(ours), 0o644):
                return path
            found = _read(path)  # of the same watch, if that was started again at once
            if found is not None and all(found.get(k) == ours.get(k) for k in ("run", "owner")):
                return path
        raise FileExistsError(f"{self._folder}: {_TRIES} state files of {self._stamp} exist")


class StateFiles:
    """Writes the state of each run as ``me``: beside the files that it names, else in ``scratch``.

    A failure is a line, never an end of the watch.
    """

    def __init__(self, config_path: str, me: Owner, clock: Clock) -> None:
        self._config = Path(config_path)
        self._me = me
        self._clock = clock
        self._created_at = clock.now()
        self._files: dict[str, StateFile] = {}

    async def write(self, report: RunReport) -> str | None:
        """Write one run's state; return what went wrong, if anything did."""
        named = report.spec.monitor.state if report.spec.monitor is not None else None
        folder = Path(named).parent if named else self._config.parent / DEFAULT_FOLDER
        file = self._files.setdefault(report.name, StateFile(folder, self._created_at))
        try:
            await offload(file.write, self._state(report), deadline=DEADLINE)
        except (OSError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or error
            return f"{report.name}: the state file in {folder} cannot be written: {why}"
        return None

    def _state(self, report: RunReport) -> MonitorState:
        job, monitor = report.facets.job.value, report.facets.monitor.value
        command = report.spec.resubmit
        return MonitorState(
            ts=self._clock.now(),
            run=report.name,
            job_id=None if job is None else job.id,
            owner=self._me.name,
            cadence_s=report.spec.cadence,
            last_signal=_last_signal(report),
            restart_count=(monitor.restart_count if monitor is not None else None) or 0,
            config=str(self._config),
            resubmit_command=shlex.join(command) if isinstance(command, tuple) else command,
        )


def _last_signal(report: RunReport) -> str:
    """Return the newest state in one line: phase, progress, verdict, worst alert."""
    worst = f"; {report.worst.id} {report.worst.title}" if report.worst is not None else ""
    return f"{phase_text(report.facets.job)}, {report.progress.text}, {report.verdict.value}{worst}"


def restarted(path: Path, job_id: str, restart_count: int, now: float) -> None:
    """Note a restart in a monitor's state file: the new job, the count; all else stays.

    The entry of the former job is retired with it (``retired_job_id``); done twice it is the
    same. Blocking; raises ``OSError``, also for a file that is no state file any more.
    """
    found = _read(path)
    if found is None:
        raise OSError(0, "is no longer a monitor state file (JSON object)")
    former = found.get("job_id")
    ours: dict[str, Any] = {"job_id": job_id, "restart_count": restart_count}
    if former not in (None, job_id):
        ours |= {"retired_job_id": former, "retired_at": round(now * 1000)}
    _replace(path, _merged(found, ours))


def _merged(found: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return what stands there with ours put in; a count of restarts never goes down."""
    counts = [each.get("restart_count") for each in (found, ours)]
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    return {**found, **ours, **({"restart_count": max(whole)} if whole else {})}


def _plain(payload: MonitorState) -> dict[str, Any]:
    document = payload.model_dump(mode="json", exclude_none=True)
    return {
        key: scrub(value) if isinstance(value, str) else value for key, value in document.items()
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with open_regular(str(path)) as (handle, found):
            document = json.loads(os.read(handle, found.st_size))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _replace(path: Path, document: dict[str, Any]) -> None:
    put_whole(path, _text(document))
    settle_folder(path.parent)


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


STORE_DEADLINE = 10.0
DEFAULT_CADENCE = 900.0
"""Seconds between two rounds where no run names a cadence."""
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
        self, engine: Engine, me: Owner, clock: Clock, *, stop: StopPoint, once: bool = False
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
        """Beat; after a hang say who notified people meanwhile and who took which run over."""
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
            # Not wait_for: before Python 3.12 it swallows a cancellation (a signal to leave) that
            # comes just as a report does.
            async with asyncio.timeout(LISTEN):
                reports.append(await queue.get())
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
