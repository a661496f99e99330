"""The ``.wandb`` files of an ssh host: one trip per look finds them all and brings what is new.

The first look at a file takes two trips: it must be found before its head and its newest rows can
be asked for. The rows before those follow by later looks, so many bytes at each, runs in turn. A
file is read from what was brought of it, and nothing else; so are the rows for curves.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Final
from weakref import WeakSet

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import OtherClock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import WandbSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pieces import (
    Answer,
    Ask,
    LaterError,
    PageCache,
    Told,
    answers,
    question,
)
from cockpit.sources.logs.ranged import Span, Stat, Wish
from cockpit.sources.logs.remote import HostError
from cockpit.sources.run_folders import Written, found_there
from cockpit.sources.wandb.file import BLOCK, LaunchFile, WandbLog
from cockpit.sources.wandb.history import RowChunk
from cockpit.sources.wandb.listing import SUFFIX, Files, files_in, wanted_of
from cockpit.sources.wandb.metrics import MetricKeys
from cockpit.sources.wandb.run_files import FoundFiles, RunFiles, Wants, names_in, together

FARTHEST: Final = 4 << 20
"""Bytes before the end of a file in which its newest values are looked for."""
FARTHER: Final = 4
"""How much farther back than a reader wants bytes are brought, in lengths of what it wants."""
LARGEST: Final = 8 << 20
"""Bytes that are brought at most to complete one record."""

Key = tuple[str, tuple[int, int]]


class HeldLog(WandbLog):
    """The bytes of one file that are here."""

    places = 1
    farthest = FARTHEST
    largest = LARGEST

    def __init__(self, cache: PageCache, key: Key, size: int) -> None:
        self.size = size
        self.missed: list[tuple[int, int]] = []
        self._cache = cache
        self._key = key

    def bytes_at(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` on, up to ``stop`` or the first that is not here."""
        stop = min(stop, self.size)
        data, end = self._cache.get(self._key, start, stop)
        if end < stop:
            self.missed.append((end, stop))
        return data

    def near(self, offset: int) -> bool:
        """Tell whether all that follows an offset is here."""
        return self._is_cached(offset, self.size)

    def reach(self, low: int, high: int) -> int:
        """Return from which block's start on, at least ``low``, the bytes to ``high`` are here."""
        found = high
        while found > low:
            start = max(low, (found - 1) // BLOCK * BLOCK)
            if not self._is_cached(start, found):
                self.missed.append((max(0, low - FARTHER * (high - low)), found))
                break
            found = start
        return found

    def _is_cached(self, start: int, stop: int) -> bool:
        return self._cache.get(self._key, start, stop)[1] >= stop


class BoxFile(LaunchFile):
    """A file on a host, as it was reported last; ``told`` is ``None`` before that."""

    far = True

    def __init__(self, path: str, cache: PageCache) -> None:
        self.path = path
        self.told: Told | None = None
        self._cache = cache

    def take(self, told: Told, off: float) -> None:
        """Take in what a trip has brought; ``off`` is the host's clock minus ours (s)."""
        if isinstance(told, Answer):
            key = (self.path, told.identity)
            self._cache.seen(key, told.size)
            for start, data in told.pieces:
                self._cache.put(key, start, data)
            told = told._replace(pieces=())
        self.told, self.skew = told, off

    def drop(self, before: int) -> None:
        """Let the bytes before an offset go; who needs one all the same has missed it."""
        if isinstance(self.told, Answer):
            self._cache.drop((self.path, self.told.identity), before)

    @property
    def version(self) -> str:
        """What the host says of the file as it was seen last; empty before that."""
        return self.told.version if isinstance(self.told, Answer) else ""

    def stat(self) -> Stat:
        """Return what was reported, its time on our clock."""
        told = self._answer()
        return Stat(told.size, told.mtime - self.skew, told.identity, told.version)

    def open(self) -> HeldLog:
        """Open what is here of it."""
        told = self._answer()
        return HeldLog(self._cache, (self.path, told.identity), told.size)

    def _answer(self) -> Answer:
        if isinstance(self.told, Answer):
            return self.told
        if self.told is None:
            raise LaterError(
                errno.EAGAIN, "not read yet: files on one host are read one after another"
            )
        raise self.told


NEWEST: Final = 8 << 20
"""Bytes of newest rows that one look brings, of all files together."""
LEAST_NEWEST: Final = 32 * 1024
MOST_NEWEST: Final = 2 << 20
"""The least and the most of one file."""
OLDER: Final = 16 << 20
"""Bytes that one look brings of rows before the newest, of all files together."""
LEAST_OLDER: Final = 512 * 1024
"""Bytes of older rows worth asking a file for: where many are unread they take turns."""
MISSED: Final = 8 << 20
"""Bytes that one look brings of what was looked for in vain, of all files together."""
MOST_RANGES: Final = 8
HEAD: Final = 32 * 1024
"""Bytes of a file's beginning that are brought with its newest rows."""


def first(many: int, scale: float) -> Wish:
    """Return what to ask of each of ``many`` files that are new."""
    return Wish((_newest(0, many, scale), Span(0, HEAD)))


def plan(
    files: Sequence[tuple[BoxFile, Wants]], scale: float, turn: int
) -> list[tuple[BoxFile, Wish]]:
    """Return what to ask of each file; ``scale`` (0 to 1) is for slow links, ``turn`` counts."""
    unread = [at for at, (_, wants) in enumerate(files) if wants.behind]
    many = max(1, min(len(unread), int(OLDER * scale / LEAST_OLDER)))
    chosen = {unread[(turn * many + n) % len(unread)] for n in range(many if unread else 0)}
    older = int(OLDER * scale / max(1, len(chosen)))
    missed = int(MISSED * scale / max(1, sum(bool(wants.missed) for _, wants in files)))
    asked = []
    for at, (file, wants) in enumerate(files):
        if not wants.read_to and not wants.missed:
            asked.append((file, first(len(files), scale)._replace(unless=file.version)))
            continue
        begin = wants.read_to
        spans = [*_ranges(wants, missed)]
        if wants.unread is not None and not wants.behind:
            begin = min(begin, wants.unread[0])
        elif wants.unread is not None and at in chosen:
            start, least = wants.unread
            spans.append(Span(start, max(least, start + older)))
        unless = None if spans else file.version
        asked.append((file, Wish((_newest(begin, len(files), scale), *spans), unless)))
    return asked


def _newest(start: int, many: int, scale: float) -> Span:
    share = int(NEWEST * scale / max(1, many))
    most = int(MOST_NEWEST * scale)
    return Span(start, None, last=min(most, max(LEAST_NEWEST, share)), to=BLOCK)


def _ranges(wants: Wants, most: int) -> Iterator[Span]:
    """Yield what was missed, the ends of it where that is too much: newer rows tell more."""
    for start, stop in wants.missed[-MOST_RANGES:]:
        yield Span(max(start, stop - max(most, BLOCK)), stop)


ROUNDS: Final = 4
"""Looks in a row at which what was missed of one file is brought."""
ROOM: Final = 32 << 20
"""Bytes that one trip brings at most."""
HELD: Final = 64 << 20
HELD_OF_ONE: Final = 24 << 20
"""Bytes that are kept of all files, and of one."""
LEAST_SCALE: Final = 1 / 16
"""The least share of the usual bytes that is asked for over a slow link."""
WORTH_IT: Final = 1.0
"""Seconds that must be left for another trip."""
MOST_TRIPS: Final = 4

Asked = Sequence[tuple[BoxFile, Wish]]


class BoxRun(FoundFiles[BoxFile]):
    """One run's files on the host, as they were found last."""

    def __init__(self, spec: WandbSpec, cache: PageCache) -> None:
        super().__init__(lambda path: BoxFile(path, cache))
        self.spec = spec
        self.wanted = wanted_of(spec)
        self.rows = RunFiles(spec, self._is_cached, lambda: self.notes)
        self.problem: OSError | None = None
        self._rounds: dict[str, int] = {}
        self._readers: WeakSet[RunFiles] = WeakSet()
        self._lock = Lock()

    def reader(self, spec: WandbSpec) -> RunFiles:
        """Return another reader of the same files, under other names of metrics.

        As long as it lives, looks bring what it wants, too.
        """
        made = RunFiles(spec, self._is_cached, lambda: ())
        with self._lock:
            self._readers.add(made)
        return made

    def take_or_lack(self, found: Files | OSError) -> None:
        """Take in which files there are, or why none."""
        self.problem = found if isinstance(found, OSError) else None
        if not isinstance(found, OSError):
            self.take(found)

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

    def _is_cached(self) -> Sequence[LaunchFile]:
        """Return its files, one that has two names once; raises ``OSError``."""
        if self.problem is not None:
            raise self.problem
        if not self.files:
            raise LaterError(errno.EAGAIN, "its files have not been looked up yet")
        return list({file.stat().identity: file for file in self.files.values()}.values())


class Box:
    """One ssh host; ``look`` blocks and is called once at a time. ``now``: epoch, s."""

    def __init__(
        self, name: str, call: CallHost = call_blocking, now: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self._runs: dict[str, BoxRun] = {}
        self._call = call
        self._now = now
        self._cache = PageCache(HELD_OF_ONE, HELD)
        self._clock = OtherClock()
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

    def refresh(self, runs: Sequence[BoxRun], allowed: float) -> None:
        """Find the files of runs, bring what is new and what their readers want.

        One look at a time: another one waits for its turn. Raises ``HostError`` when the host did
        not answer within ``allowed`` seconds.
        """
        until = time.monotonic() + allowed
        if not self._looking.acquire(timeout=allowed):
            raise HostError(ErrorKind.TIMEOUT, f"{self.name}: another look is still under way")
        try:
            self._fetch(runs, until)
        finally:
            self._looking.release()

    def _fetch(self, runs: Sequence[BoxRun], until: float) -> None:
        wants = [(run, *each) for run in runs for each in run.wants()]
        self._turn += 1
        asked = plan([(file, each) for _, file, each in wants], self._scale, self._turn)
        listed, ends, zone = self._trip(
            asked, until, folders=[run.wanted.below for run in runs], word=SUFFIX
        )
        for run, answer in zip(runs, listed, strict=True):
            run.take_or_lack(_files_of(run, answer, Written(ends), zone))
        for run, file, each in wants:
            if each.missed and isinstance(file.told, Answer):
                run.closer(file.path)
            file.drop(each.done)
        self._scale = min(1.0, self._scale * 2)
        self._new((file for run in runs for file in run.files.values()), until)

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

    def _trip(self, asked: Asked, until: float, **more: object) -> list[Any]:
        """Read files in one trip, take in its answer, return what ``more`` was asked for.

        Raises ``HostError``.
        """
        asks = [Ask(file.path, wish) for file, wish in asked]
        left, sent = max(0.1, round(until - time.monotonic(), 1)), self._now()
        try:
            value = self._call(self.name, question(asks, ROOM, **more), left)
        except RemoteError as error:
            self._scale = max(LEAST_SCALE, self._scale / 4)
            raise HostError(error.kind, str(error)) from error
        except OSError as error:
            text = f"{self.name}: {error.strerror}"
            raise HostError(ErrorKind.BAD_ANSWER, text) from error
        self._clock.heed(value[0], sent, self._now())
        for (file, _), told in zip(asked, answers(asks, value), strict=True):
            file.take(told, self._clock.ahead)
        return list(value[2:])


def _files_of(run: BoxRun, answer: object, written: Written, zone: str) -> Files | OSError:
    """Return a run's files by what the agent says of its folder, or why there are none."""
    found = found_there(run.wanted.below, answer)
    if isinstance(found, OSError):
        return found
    try:
        return files_in(found, run.wanted, written.among, zone)
    except OSError as error:
        return error


ALLOWED: Final = 4.0
"""Seconds for one look: an answer with several curves takes some."""


class BoxCurves:
    """Who looks at one run's files for its curves. Methods block and raise ``OSError``."""

    def __init__(self, box: Box, run: BoxRun) -> None:
        self._box = box
        self._run = run
        self.trouble = ""
        """Why no more could be brought, at the last try."""

    def rows(self, spec: WandbSpec) -> BoxRows:
        """Return a reader under the names of metrics of ``spec``."""
        return BoxRows(self, self._run.reader(spec))

    def names(self) -> set[str]:
        """Return the metrics that were logged, as far as the files are here."""
        return names_in(list(self._run.files.values()))

    def bring(self, rows: RunFiles) -> None:
        """Look at the host if nothing was found yet, or the reader cannot go on without.

        A host that does not answer is no reason to hide what was read: ``trouble`` says it.
        """
        files = list(self._run.files.values())
        found = bool(files) and all(isinstance(file.told, Answer) for file in files)
        if found and not rows.lacking:
            return
        try:
            self._box.refresh([self._run], ALLOWED)
            self.trouble = ""
        except HostError as error:
            if not found:
                raise
            self.trouble = str(error.strerror)


class BoxRows:
    """One pass over the rows, as ``curves.files.Rows``."""

    def __init__(self, curves: BoxCurves, rows: RunFiles) -> None:
        self._curves = curves
        self._rows = rows

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as anything was read."""
        return self._rows.keys

    def more(self) -> RowChunk:
        """Return the next rows in order, as far as their bytes are here."""
        return self._rows.more()

    def recent(self, most: int) -> RowChunk:
        """Return the newest rows, after more was brought where that is needed."""
        self._curves.bring(self._rows)
        return self._rows.recent(most)
