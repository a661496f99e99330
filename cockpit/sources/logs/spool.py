"""What was fetched of a log that has no file: kept here, bounded, and read like one.

A controller gives lines and a cursor to go on from. One spool per run and job holds them: a folder
of segments, and an index that says up to where they count and with which cursor to go on. The
index is replaced in one go after the lines are written, so that a kill between the two neither
loses nor doubles a line. Whoever appends says from which cursor the lines were fetched: of two
processes that fetch the same log one is refused, and goes on from where the other has come.

Offsets count all bytes that were ever appended. Of more than ``MOST`` bytes the oldest segments are
dropped: the log then begins later (``Stat.begin``), and its readers say so. Lines are stored with
secrets masked, in files of mode 0600. Everything blocks and raises ``OSError``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from cockpit.config.file import state_dir
from cockpit.model.place import FILE, Place
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.private_folder import machine_tag
from cockpit.sources.logs.ranged import NOTHING, Opened, Ranged, Stat, Wish
from cockpit.text.scrub import scrub

MOST: Final = 64 << 20
"""Bytes of one log that are kept."""
SEGMENT: Final = 4 << 20
"""Bytes after which a new segment begins: what is dropped at once."""
ALTOGETHER: Final = 1 << 30
"""Bytes of all spools that are kept; those that were least recently written go first."""
DAYS: Final = 14
"""Days after which a spool that nobody writes to any more is removed."""
SUFFIX: Final = ".spool"
HOLE: Final = b"[cockpit] lines are missing here: they were gone before they could be fetched\n"
PATIENCE: Final = 2.0
"""Seconds that the lock of another writer is waited for."""
_INDEX: Final = "index.json"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class _Segment(NamedTuple):
    """Bytes ``[start, start + size)`` of the log, in a file named by where they start."""

    start: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.start:020d}.log"


class _Index(NamedTuple):
    """What counts of a spool: ``number`` tells it from a later one of its name."""

    number: int
    cursor: str | None = None
    at: float = 0.0
    segments: tuple[_Segment, ...] = ()

    @property
    def begin(self) -> int:
        return self.segments[0].start if self.segments else 0

    @property
    def end(self) -> int:
        last = self.segments[-1] if self.segments else _Segment(0, 0)
        return last.start + last.size


class Spool:
    """The lines of one job of a run. ``job_id`` tells apart what has its own log, first to last."""

    def __init__(self, run: str, job_id: str, folder: Path | None = None) -> None:
        self._all = folder or spools_folder()
        self.folder = self._all / _named(run) / f"{_named(job_id)}{SUFFIX}"
        self.place = Place(FILE, "", str(self.folder))

    def cursor(self) -> str | None:
        """Return from where to fetch on; ``None``: from the beginning, nothing is kept yet."""
        index = _read(self.folder)
        return None if index is None else index.cursor

    def at(self) -> float:
        """Return when the last line that is kept was written (s), 0 if none is."""
        index = _read(self.folder)
        return 0.0 if index is None else index.at

    def append(
        self,
        lines: Sequence[bytes],
        cursor: str | None,
        at: float,
        *,
        since: str | None,
        hole: bool = False,
    ) -> bool:
        """Add lines that were fetched from cursor ``since`` on; the next ones follow ``cursor``.

        ``at`` is when the last one was written (s), ``hole`` tells that lines before them are
        lost. False: nothing was added, another process has come further; fetch from ``cursor()``.
        """
        if not self.folder.exists():
            _make(self.folder, self._all.parent)
            tidy(self._all)
        with _locked(self.folder) as mine:
            index = _read(self.folder) or _Index(secrets.randbits(48))
            if not mine or index.cursor != since:
                return False
            if not lines and cursor == since:
                _touch(self.folder / _INDEX)
                return True
            data = (HOLE if hole else b"") + _masked(lines)
            segments = _write(self.folder, index.segments, data)
            at = max(at, index.at) if data else index.at
            _replace(self.folder, _Index(index.number, cursor, at, segments))
            _drop(self.folder, segments)
            return True

    def last(self, count: int) -> list[bytes]:
        """Return the last lines that are kept, without line breaks: where a fetched tail joins."""
        from cockpit.sources.logs.ranged import lines_before

        try:
            with SpoolLog(self.place).open() as log:
                found = lines_before(log, log.stat.size, count)
        except FileNotFoundError:
            return []
        return [line.data.rstrip(b"\n") for line in found]


def spools_folder() -> Path:
    """Return where spools lie: this user's on this machine, for a home may be shared."""
    return _passing or state_dir() / "logs" / machine_tag()


@contextmanager
def passing() -> Iterator[None]:
    """Keep spools in a folder that is gone at the end: for one look that writes nothing.

    Inside another one that one's folder is used, and outlives this look.
    """
    global _passing
    if _passing is not None:
        yield
        return
    with TemporaryDirectory(prefix="cockpit-", ignore_cleanup_errors=True) as folder:
        _passing = Path(folder)
        try:
            yield
        finally:
            _passing = None


_passing: Path | None = None


def is_spool(place: Place) -> bool:
    """Tell whether a place is that of a spool."""
    return place.here and place.path.endswith(SUFFIX) and Path(place.path, _INDEX).exists()


class SpoolLog(Ranged):
    """A spool as a log."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @contextmanager
    def open(self, wish: Wish = NOTHING) -> Iterator[Opened]:
        """Look at what is kept of it now."""
        index = _read(Path(self.place.path))
        if index is None:
            raise FileNotFoundError(2, "nothing of this log fetched yet", self.place.path)
        with ExitStack() as stack:
            yield _OpenSpool(Path(self.place.path), index, stack)


class _OpenSpool(Opened):
    def __init__(self, folder: Path, index: _Index, stack: ExitStack) -> None:
        self._folder, self._index, self._stack = folder, index, stack
        self._open: dict[int, int] = {}
        own = (index.number, index.begin, index.end, index.at)
        self.stat = Stat(index.end, index.at, (0, index.number), own, index.begin)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer if they have been dropped since."""
        parts = []
        for segment in self._index.segments:
            first = max(start, segment.start)
            last = min(end, segment.start + segment.size)
            if first < last:
                try:
                    data = os.pread(self._fd(segment), last - first, first - segment.start)
                except FileNotFoundError:  # dropped since the look began
                    break
                parts.append(data)
                if len(data) < last - first:
                    break
        return b"".join(parts)

    def _fd(self, segment: _Segment) -> int:
        if segment.start not in self._open:
            path = str(self._folder / segment.name)
            self._open[segment.start] = self._stack.enter_context(open_regular(path))[0]
        return self._open[segment.start]


def tidy(folder: Path, now: float | None = None) -> None:
    """Remove spools that nobody has written to for days, and the oldest of too many bytes."""
    now = time.time() if now is None else now
    found = []
    for path in folder.glob(f"*/*{SUFFIX}/{_INDEX}"):
        with suppress(OSError):
            size = sum(each.stat().st_size for each in path.parent.iterdir())
            found.append((path.stat().st_mtime, size, path.parent))
    room = ALTOGETHER
    for mtime, size, spool in sorted(found, reverse=True):
        room -= size
        if room < 0 or now - mtime > DAYS * 86400.0:
            shutil.rmtree(spool, ignore_errors=True)


def _named(name: str) -> str:
    """Return a file's name for any text: readable, and as different as the texts are."""
    tag = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{_UNSAFE.sub('-', name)[:60].strip('-.')}-{tag}"


def _make(folder: Path, above: Path) -> None:
    """Make a folder and those over it up to ``above``, each for this user alone."""
    if folder != above:
        _make(folder.parent, above)
    folder.mkdir(mode=0o700, exist_ok=True, parents=folder == above)


def _touch(path: Path) -> None:
    """Note, once a day, that a spool is still asked for."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > 86400.0:
            os.utime(path)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the writers' lock; False if another one keeps it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)


def _read(folder: Path) -> _Index | None:
    """Return the index; ``None`` if there is none, or lines that it counts are not there."""
    try:
        with open_regular(str(folder / _INDEX)) as (fd, status):
            found = json.loads(os.pread(fd, status.st_size, 0))
        segments = tuple(_Segment(int(start), int(size)) for start, size in found["segments"])
        if segments and (folder / segments[-1].name).stat().st_size < segments[-1].size:
            return None  # the machine went down before they were on the disk
        return _Index(int(found["number"]), found["cursor"], float(found["at"]), segments)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def _masked(lines: Sequence[bytes]) -> bytes:
    text = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
    return scrub(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _write(folder: Path, segments: Sequence[_Segment], data: bytes) -> tuple[_Segment, ...]:
    """Write behind the last segment's counted bytes, or into new ones; return what is kept now."""
    kept, at = list(segments), 0
    while at < len(data):
        if not kept or kept[-1].size >= SEGMENT:
            kept.append(_Segment(kept[-1].start + kept[-1].size if kept else 0, 0))
        last = kept[-1]
        edge = data.find(b"\n", max(at, at + SEGMENT - last.size - 1)) + 1 or len(data)
        _put(folder / last.name, last.size, data[at:edge])
        kept[-1], at = _Segment(last.start, last.size + edge - at), edge
    while len(kept) > 1 and sum(each.size for each in kept) > MOST:
        del kept[0]
    return tuple(kept)


def _put(path: Path, offset: int, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while data:
            written = os.pwrite(handle, data, offset)
            data, offset = data[written:], offset + written
    finally:
        os.close(handle)


def _replace(folder: Path, index: _Index) -> None:
    fresh = folder / f"{_INDEX}.new"
    document = {**index._asdict(), "segments": [list(each) for each in index.segments]}
    with suppress(FileNotFoundError):
        fresh.unlink()
    _put(fresh, 0, json.dumps(document).encode())
    fresh.replace(folder / _INDEX)


def _drop(folder: Path, kept: Sequence[_Segment]) -> None:
    """Remove segments that the index does not name; best tried again when it fails."""
    names = {each.name for each in kept}
    for path in folder.glob("*.log"):
        if path.name not in names:
            with suppress(OSError):
                path.unlink()
