"""A cheap look at each run's local files once a second wakes the pollers on change.

It runs in a thread of its own. A file system that hangs holds up this thread alone.

What the watch loop is made of: supervised tasks, listeners, and whose turn it is.
"""

from __future__ import annotations

import asyncio
import glob
import os
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from heapq import nsmallest
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from cockpit.model.clock import SOONEST, Clock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.observed import JobValue
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.runtime.account import fault_line, write_details
from cockpit.sources.trackers import folders as tracker_folders

if TYPE_CHECKING:
    from cockpit.watch.runstate import RunState


T = TypeVar("T")


class Supervisor:
    """Runs one piece of work with a deadline, and turns its failure into a problem that is shown.

    ``faults`` holds one line for each distinct place that failed; its details are written once.
    """

    def __init__(self, clock: Clock, crashes: Path) -> None:
        self._clock = clock
        self._crashes = crashes
        self._lines: dict[str, str] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults so far, one line each."""
        return tuple(self._lines.values())

    async def run(self, what: str, seconds: float, work: Coroutine[Any, Any, T]) -> T | Problem:
        """Return what ``work`` gives, or the problem that kept it from giving anything."""
        try:
            return await within(self._clock, seconds, work)
        except TimeoutError:
            message = f"{what}: no answer within {seconds:.2g} s"
            return Problem(kind=ErrorKind.TIMEOUT, message=message)
        except Exception as error:  # noqa: BLE001 - any fault of a source is shown, none ends the watch
            return Problem(kind=ErrorKind.BAD_ANSWER, message=f"{what}: {self._record(error)}")

    def _record(self, error: Exception) -> str:
        place = "".join(traceback.format_tb(error.__traceback__)[-1:]) + type(error).__name__
        if place not in self._lines:
            details = write_details(error, self._crashes, self._clock.now())
            self._lines[place] = fault_line(error, details)
        return self._lines[place]


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns, or raise ``TimeoutError`` after ``seconds``.

    Work that is late is cancelled and not waited for: it may be stuck in the kernel.
    """
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:.2g} s")
    finally:
        timer.cancel()
        if not task.done():
            task.add_done_callback(_swallow)
            task.cancel()


def _swallow(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


Event = TypeVar("Event")


class Listeners(Generic[Event]):
    """Callbacks that get each event, in the order in which they joined."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Event], object]] = []

    def join(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Tell ``callback`` of every event from now on; return how to stop that."""
        self._callbacks.append(callback)

        def leave() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return leave

    def call(self, event: Event) -> None:
        """Tell everyone of one event."""
        for callback in tuple(self._callbacks):
            callback(event)


HEAD_START: Final = 1000
"""Places by which a run of one rank comes before those of the next: none waits for good."""


class WaitingRuns:
    """Names of runs, each once: by ``rank``, else first come first served."""

    def __init__(self, rank: Callable[[str], int] | None = None) -> None:
        self._names: dict[str, int] = {}
        self._rank = rank
        self._came = 0
        self._bell = asyncio.Event()

    def add(self, name: str) -> None:
        """Let a run wait; one that waits already keeps its place."""
        self._came += 1
        self._names.setdefault(name, self._came)
        self._bell.set()

    async def until_any(self) -> None:
        """Return as soon as a run waits."""
        while not self._names:
            await self._bell.wait()
            self._bell.clear()

    def take(self, most: int) -> list[str]:
        """Return the runs whose turn it is, ``most`` of them; they wait no more."""
        names = nsmallest(most, self._names, key=self._place)
        for name in names:
            del self._names[name]
        return names

    def _place(self, name: str) -> int:
        rank = 0 if self._rank is None else self._rank(name)
        return self._names[name] + rank * HEAD_START


VISIBLE: Final = 0
UNWELL: Final = 1
OTHER: Final = 2
LARGE: Final = 200
"""Runs beyond which a fleet's files are looked at by turns, and what nobody sees less often."""


class Preference:
    """Ranks runs; a rank is a head start, so that the last ones wait longer but never for good."""

    def __init__(self, states: Mapping[str, RunState]) -> None:
        self._states = states
        self._visible: frozenset[str] = frozenset()

    def prefer(self, visible: Iterable[str]) -> None:
        """Say which runs stand on a screen now."""
        self._visible = frozenset(visible)

    def rank(self, name: str) -> int:
        """Return the run's rank: the lower, the sooner it is its turn."""
        if name in self._visible:
            return VISIBLE
        state = self._states.get(name)
        return UNWELL if state is not None and state.unwell else OTHER


class Turns:
    """Whose turn it is: those on a screen always, of the unwell and of the others the next ``few``.

    So what a second costs does not grow with the fleet, nor when all of it is unwell at once.
    """

    def __init__(self, rank: Callable[[str], int], few: int) -> None:
        self._rank = rank
        self._few = few
        self._waiting: dict[int, dict[str, None]] = {UNWELL: {}, OTHER: {}}

    def take(self, names: Iterable[str]) -> list[str]:
        """Return the runs whose turn it is; none waits longer than the others of its rank."""
        by_rank: dict[int, dict[str, None]] = {VISIBLE: {}, UNWELL: {}, OTHER: {}}
        for name in names:
            by_rank[self._rank(name)][name] = None
        return [*by_rank[VISIBLE], *self._next(UNWELL, by_rank), *self._next(OTHER, by_rank)]

    def _next(self, rank: int, by_rank: Mapping[int, dict[str, None]]) -> list[str]:
        there, known = by_rank[rank], self._waiting[rank]
        if there.keys() != known.keys():
            waiting = [name for name in known if name in there]
            known = dict.fromkeys((*waiting, *there))
            self._waiting[rank] = known
        now = list(islice(known, self._few))
        for name in now:  # behind all others
            del known[name]
            known[name] = None
        return now


if TYPE_CHECKING:
    from cockpit.watch.runstate import RunState


Signature = tuple[tuple[int, int, int] | None, ...]
Paths = Mapping[str, tuple[str, ...]]

WAKES = {
    "log": ("log",),
    "process": ("job",),
    "tracker": ("tracker",),
    "checkpoints": ("checkpoints",),
    "monitor": ("monitor",),
    "records": ("records",),
}
"""Which facets a change of a group of files concerns."""
NEWEST_FRAGMENTS = 2
NEWEST_CHECKPOINTS = 3
KEPT_OPEN = 128
"""Processes of which a file is kept open at most."""


def watched_paths(run: RunSpec, facets: Facets) -> dict[str, tuple[str, ...]]:
    """Return the local paths of a run by group: those named, and those the last look found."""
    groups = {
        "log": _log(run, facets),
        "process": _process(run, facets.job),
        "tracker": _tracker(run, facets),
        "checkpoints": _checkpoints(run, facets),
        "monitor": _monitor(run, facets),
        "records": (run.records.logbook,) if run.records.logbook else (),
    }
    return {name: tuple(p for p in paths if _local(p)) for name, paths in groups.items()}


def signatures(
    watched: Mapping[str, Paths], processes: ProcessStates
) -> dict[tuple[str, str], Signature]:
    """Stat everything; blocking. Returns a signature for each (run, group)."""
    return {
        (name, group): tuple([_stat(path, processes) for path in paths])
        for name, groups in watched.items()
        for group, paths in groups.items()
        if paths
    }


def changed(
    old: Mapping[tuple[str, str], Signature], new: Mapping[tuple[str, str], Signature]
) -> Iterable[tuple[str, str]]:
    """Yield (run, facet) for every facet whose files look different now."""
    for key, signature in new.items():
        if old.get(key, signature) != signature:
            name, group = key
            for facet in WAKES[group]:
                yield name, facet


def _log(run: RunSpec, facets: Facets) -> tuple[str, ...]:
    kind, log = _kind(run), facets.log.value
    if kind is None:
        return ()
    places = (kind.log_place(run, None), None if log is None else kind.log_place(run, log))
    return tuple(dict.fromkeys(place.path for place in places if place is not None and place.here))


def _process(run: RunSpec, job: Facet[JobValue]) -> tuple[str, ...]:
    kind = _kind(run)
    return () if kind is None else kind.watched_files(run, job.value)


def _kind(run: RunSpec) -> type[Platform] | None:
    """Return the run's kind of job; imports here: a run file alone needs no platform."""
    from cockpit.platforms.table import kind_of

    return kind_of(run)


def _tracker(run: RunSpec, facets: Facets) -> tuple[str, ...]:
    folders = tracker_folders(run)
    if not folders:
        return ()
    seen = facets.tracker.value.files if facets.tracker.value is not None else ()
    return (*folders, *seen[-NEWEST_FRAGMENTS:])


def _checkpoints(run: RunSpec, facets: Facets) -> tuple[str, ...]:
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    found = facets.checkpoints.value.items if facets.checkpoints.value is not None else ()
    return (*map(str, roots), *(item.path for item in found[-NEWEST_CHECKPOINTS:]))


def _monitor(run: RunSpec, facets: Facets) -> tuple[str, ...]:
    spec = run.monitor
    if spec is None:
        return ()
    seen = facets.monitor.value.path if facets.monitor.value is not None else None
    folder = str(Path(spec.state).parent) if spec.state else None
    plain = None if folder is None or glob.has_magic(folder) else folder
    return tuple(path for path in (plain, seen, spec.events) if path)


def _local(path: str) -> bool:
    return "://" not in path


def _stat(path: str, processes: ProcessStates) -> tuple[int, int, int] | None:
    if path.startswith("/proc/"):
        return processes.of(path)
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of these
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


class ProcessStates:
    """The states of processes as the kernel tells them now; of most through a file kept open.

    Such a file is that very process's, also once its id is used again: it then tells nothing.
    """

    def __init__(self) -> None:
        self._files: dict[str, FileIO] = {}

    def of(self, folder: str) -> tuple[int, int, int] | None:
        """Return whether a process (``/proc/PID``) runs (0), is stopped (1) or is over (2).

        The second figure is its start; ``None`` where there is none. Blocking.
        """
        file = self._files.get(folder)
        if file is not None:
            try:
                return _process_stat(file)
            except OSError:  # it is gone, and its id may be another one's by now
                self._files.pop(folder).close()
        with ExitStack() as opened:
            try:
                file = opened.enter_context(FileIO(f"{folder}/stat"))
                told = _process_stat(file)
            except OSError:
                return None
            if len(self._files) < KEPT_OPEN:
                self._files[folder] = file
                opened.pop_all()  # it stays open
        return told

    def let_go(self) -> None:
        """Keep no file open of a process that is gone: nobody may ask for it any more. Blocking."""
        for folder, file in tuple(self._files.items()):
            try:
                _process_stat(file)
            except OSError:
                self._files.pop(folder).close()

    def close(self) -> None:
        """Keep none open any more."""
        while self._files:
            self._files.popitem()[1].close()


def _process_stat(file: FileIO) -> tuple[int, int, int]:
    fields = os.pread(file.fileno(), 512, 0).rpartition(b")")[2].split(None, 20)
    if len(fields) < 20:
        raise OSError("not what the kernel writes")
    letter = fields[0]
    state = 1 if letter in (b"T", b"t") else 2 if letter in (b"Z", b"X") else 0
    return (state, int(fields[19]), 0)


EVERY: Final = 1.0
"""Seconds between two looks at all files."""
BETWEEN: Final = 0.5
"""Seconds after the beat at which a sweep begins: beside the loop's own work the two would pass the
interpreter to and fro at each system call."""
SWEPT: Final = 100
"""Well runs on no screen whose files are looked at in one sweep; of the unwell as many."""
LET_GO: Final = 60
"""Sweeps after which no file is kept open of a process that is gone."""
DEADLINE: Final = 3.0

Change = tuple[str, str]
"""(run, facet)."""


class Sweeper:
    """Looks at the files of the runs once a second and calls ``wake`` for each facet they concern.

    ``states`` returns the runs there are, a mapping that nobody changes; it is called in the
    thread, ``wake`` on the event loop.
    """

    def __init__(
        self,
        states: Callable[[], Mapping[str, RunState]],
        rank: Callable[[str], int],
        wake: Callable[[str, str], None],
        clock: Clock,
    ) -> None:
        self._states = states
        self._wake = wake
        self._clock = clock
        self._turns = Turns(rank, SWEPT)
        self._seen: dict[tuple[str, str], Signature] = {}
        self._processes = ProcessStates()
        self._sweeps = 0
        self._swept: Mapping[str, RunState] = {}
        self._began: float | None = None
        self._fault: Exception | None = None
        self._over = threading.Lock()
        """Released to have the thread end."""

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._over = threading.Lock()
        self._over.acquire()
        work = (asyncio.get_running_loop(), self._over)
        threading.Thread(target=self._run, args=work, name="sweep", daemon=True).start()

    def stop(self) -> None:
        """Begin no other sweep."""
        self._over.release()

    def late(self) -> bool:
        """Tell whether a sweep does not come to its end; raises what ended the sweeping."""
        if self._fault is not None:
            raise self._fault
        began = self._began
        return began is not None and self._clock.monotonic() - began > DEADLINE

    def once(self) -> list[Change]:
        """Return what has changed since the last sweep; blocking."""
        states = self._states()
        watched = {name: states[name].paths for name in self._turns.take(states)}
        seen = signatures(watched, self._processes)
        self._sweeps += 1
        if self._sweeps % LET_GO == 0:
            self._processes.let_go()
        news = list(changed(self._seen, seen))
        self._seen.update(seen)
        if states is not self._swept:  # another mapping after each edit of the run file
            self._swept = states
            self._seen = {key: each for key, each in self._seen.items() if key[0] in states}
        return news

    def _run(self, loop: asyncio.AbstractEventLoop, over: threading.Lock) -> None:
        try:
            while True:
                self._began = self._clock.monotonic()
                news = self.once()
                self._began = None
                if news:
                    loop.call_soon_threadsafe(self._wake_changed, news)
                wait = EVERY - (self._clock.monotonic() - BETWEEN) % EVERY
                if over.acquire(timeout=wait if wait >= SOONEST * EVERY else wait + EVERY):
                    return
        except Exception as error:  # noqa: BLE001 - raised again on the loop
            self._fault = error
        finally:
            self._processes.close()

    def _wake_changed(self, news: list[Change]) -> None:
        for name, facet in news:
            self._wake(facet, name)
