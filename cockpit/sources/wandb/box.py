"""The ``.wandb`` files of an ssh host: one trip per look finds them all and brings what is new.

The first look at a file takes two trips: it must be found before its head and its newest rows can
be asked for. The rows before those follow by later looks, so many bytes at each, runs in turn.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Final
from weakref import WeakSet

from cockpit.hosts.script import run_script_blocking
from cockpit.model.facet import ErrorKind
from cockpit.model.run import WandbSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pages import PageCache
from cockpit.sources.logs.pieces import Answer, Ask, LaterError, Piece
from cockpit.sources.logs.ranged import Wish
from cockpit.sources.logs.remote import HostError, Run
from cockpit.sources.wandb.box_file import BoxFile
from cockpit.sources.wandb.box_listing import Found, Listing, Wanted
from cockpit.sources.wandb.box_plan import first, plan
from cockpit.sources.wandb.launches import LaunchFile
from cockpit.sources.wandb.run_files import RunFiles, Wants, together

ROUNDS: Final = 4
"""Looks in a row at which what was missed of one file is brought."""
ROOM: Final = 32 << 20
"""Bytes that one trip brings at most."""
CAP: Final = ROOM + (16 << 20)
HELD: Final = 64 << 20
HELD_OF_ONE: Final = 24 << 20
"""Bytes that are kept of all files, and of one."""
LEAST_SCALE: Final = 1 / 16
SAME_CLOCK: Final = 2.0
"""Seconds by which two readings of one clock may differ: it is told in whole ones."""
WORTH_IT: Final = 1.0
"""Seconds that must be left for another trip."""
MOST_TRIPS: Final = 4

Asked = Sequence[tuple[BoxFile, Wish]]


class BoxRun:
    """One run's files on the host, as they were found last."""

    def __init__(self, spec: WandbSpec, cache: PageCache) -> None:
        self.spec = spec
        self.notes: tuple[str, ...] = ()
        self.rows = RunFiles(spec, self._here, lambda: self.notes)
        self.problem: OSError | None = None
        self.files: dict[str, BoxFile] = {}
        self._cache = cache
        self._rounds: dict[str, int] = {}
        self._readers: WeakSet[RunFiles] = WeakSet()
        self._lock = Lock()

    @property
    def wanted(self) -> Wanted:
        """Where it is looked for."""
        place = self.spec.dir
        return Wanted("" if place is None else place.path, self.spec.run_id, str(place))

    def reader(self, spec: WandbSpec) -> RunFiles:
        """Return another reader of the same files, under other names of metrics.

        As long as it lives, looks bring what it wants, too.
        """
        made = RunFiles(spec, self._here)
        with self._lock:
            self._readers.add(made)
        return made

    def take(self, found: Found) -> None:
        """Take in which files there are, or why none."""
        self.problem = found if isinstance(found, OSError) else None
        if not isinstance(found, OSError):
            known, self.notes = self.files, found.notes
            self.files = {
                path: known.get(path) or BoxFile(path, self._cache) for path in found.paths
            }
            for path, file in self.files.items():
                file.written = path in found.written

    def wants(self) -> list[tuple[BoxFile, Wants]]:
        """Return what its readers want of each file; what was missed too often no more."""
        every = [one.wants() for one in self._all()]
        found = []
        for path, file in self.files.items():
            each = together([wants.get(path, Wants()) for wants in every])
            self._rounds[path] = self._rounds.get(path, 0) + 1 if each.missed else 0
            if self._rounds[path] > ROUNDS:
                each = each._replace(missed=())
            found.append((file, each))
        return found

    def closer(self, path: str) -> None:
        """Say that what was missed of a file is here now."""
        for one in self._all():
            one.closer(path)

    def _all(self) -> list[RunFiles]:
        with self._lock:
            return [self.rows, *self._readers]

    @property
    def lacking(self) -> bool:
        """True when its readers have looked for something in vain."""
        return any(each.missed for each in self.rows.wants().values())

    def _here(self) -> Sequence[LaunchFile]:
        """Return its files, one that has two names once; raises ``OSError``."""
        if self.problem is not None:
            raise self.problem
        if not self.files:
            raise LaterError(errno.EAGAIN, "its files have not been looked up yet")
        return list({file.stat().identity: file for file in self.files.values()}.values())


class Box:
    """One ssh host; ``look`` blocks and is called once at a time. ``now``: epoch, s."""

    def __init__(
        self, name: str, run: Run = run_script_blocking, now: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self._runs: dict[str, BoxRun] = {}
        self._run = run
        self._now = now
        self._cache = PageCache(HELD_OF_ONE, HELD)
        self._off = 0.0
        self._scale = 1.0
        self._turn = 0
        self._looking = Lock()

    def run(self, name: str, spec: WandbSpec) -> BoxRun:
        """Return what is known of a run; of one whose settings have changed nothing."""
        former = self._runs.get(name)
        if former is None or former.spec != spec:
            former = self._runs[name] = BoxRun(spec, self._cache)
        return former

    def forget(self, name: str) -> None:
        """Know nothing of a run any more but what was brought of its files."""
        self._runs.pop(name, None)

    def look(self, runs: Sequence[BoxRun], allowed: float) -> None:
        """Find the files of runs, bring what is new and what their readers want.

        One look at a time: another one waits for its turn. Raises ``HostError`` when the host did
        not answer within ``allowed`` seconds.
        """
        until = time.monotonic() + allowed
        if not self._looking.acquire(timeout=allowed):
            raise HostError(ErrorKind.TIMEOUT, f"{self.name}: another look is still under way")
        try:
            self._look(runs, until)
        finally:
            self._looking.release()

    def _look(self, runs: Sequence[BoxRun], until: float) -> None:
        wants = [(run, *each) for run in runs for each in run.wants()]
        self._turn += 1
        asked = plan([(file, each) for _, file, each in wants], self._scale, self._turn)
        listing = Listing([run.wanted for run in runs])
        out = self._trip(asked, until, listing.script)
        for run, found in zip(runs, listing.answers(out), strict=True):
            run.take(found)
        for run, file, each in wants:
            if each.missed and isinstance(file.told, Answer):
                run.closer(file.path)
            file.drop(each.done)
        self._new((file for run in runs for file in run.files.values()), until)
        self._scale = min(1.0, self._scale * 2)

    def _new(self, files: Iterable[BoxFile], until: float) -> None:
        """Bring what a first look at a file needs, as far as there is time."""
        every = list(files)
        for _ in range(MOST_TRIPS):
            new = [file for file in every if file.told is None or isinstance(file.told, LaterError)]
            if not new or until - time.monotonic() < WORTH_IT:
                break
            wish = first(len(new), self._scale)
            try:
                self._trip([(file, wish) for file in new], until)
            except HostError as error:
                if error.kind is not ErrorKind.TIMEOUT:
                    raise
                break  # the files that came in time are known; the rest says that it is not yet

    def _trip(self, asked: Asked, until: float, more: str = "") -> bytes:
        """Run one script that reads files (and does ``more``), take in what it told of them.

        What was sent before time ran out counts. Raises ``HostError``.
        """
        piece = Piece([Ask(file.path, wish) for file, wish in asked], ROOM)
        reading = f"(\n{piece.script}\n)\n" if asked else ""
        sent, late = self._now(), None
        try:
            left = max(0.1, round(until - time.monotonic(), 1))
            out = self._run(self.name, f"(\n:\n{more}\n)\n{reading}", deadline=left, cap=CAP).out
        except RemoteError as error:
            late = HostError(error.kind, str(error))
            out = error.out if error.kind is ErrorKind.TIMEOUT else b""
        got = self._now()
        for (file, _), told in zip(asked, piece.answers(out) if asked else (), strict=True):
            if isinstance(told, Answer):
                self._heed(told.now, sent, got)
            if late is None or isinstance(told, Answer):
                file.take(told, self._off)
        if late is not None:
            self._scale = max(LEAST_SCALE, self._scale / 4)
            raise late
        return out

    def _heed(self, now: float, sent: float, got: float) -> None:
        """Take note of the host's clock, read in whole seconds between sending and getting."""
        off = min(0.0, now + 1.0 - sent) + max(0.0, now - got)
        if now > 0.0 and (not off or abs(off - self._off) > SAME_CLOCK):
            self._off = off
