"""A cheap look at each run's local files once a second wakes the pollers on change.

It runs in a thread of its own. A file system that hangs holds up this thread alone.
"""

from __future__ import annotations

import asyncio
import glob
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cockpit.model.clock import SOONEST, Clock
from cockpit.model.facet import Facet
from cockpit.model.observed import JobValue
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.sources.trackers import folders as tracker_folders
from cockpit.watch.tasks import Turns

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
                if over.acquire(timeout=self._wait()):
                    return
        except Exception as error:  # noqa: BLE001 - raised again on the loop
            self._fault = error
        finally:
            self._processes.close()

    def _wait(self) -> float:
        wait = EVERY - (self._clock.monotonic() - BETWEEN) % EVERY
        return wait if wait >= SOONEST * EVERY else wait + EVERY

    def _wake_changed(self, news: list[Change]) -> None:
        for name, facet in news:
            self._wake(facet, name)
