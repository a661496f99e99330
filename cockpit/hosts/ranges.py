"""What the agent reads of files: which there are, figures, ranges, places in them, who writes them.

Standard library only: it is sent along with the agent. Ranges begin and end at whole
pages, so that they can be kept as such. A file that does not answer costs no other one its answer,
and is not waited for again while it hangs.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import glob
import itertools
import os
import re
import stat as modes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from cockpit.hosts.agent import CALLS, matching, newest

PAGE = 4096
LIMIT = 2.0
"""Seconds without any progress after which a file is said to hang."""
SEARCHING = 6.0
"""Seconds for which a file is searched, or its lines are counted."""
CHUNK = 1 << 20
PART = 1 << 18
"""Bytes read at once of what is sent: a disk that brings them within ``LIMIT`` does not hang."""
MOST_BESIDE = 200
"""Files of one folder, or of one pattern, that are measured."""
OVERLAP = 1 << 16
"""Bytes that a text takes at most in which colours stand between the letters."""
HANGING: dict[str, threading.Thread] = {}
LATE = {"errno": errno.ETIMEDOUT, "text": f"its file system did not answer within {LIMIT:g} s"}
LATER = {"errno": errno.EAGAIN, "text": "too much requested at once"}


def pieces(
    asks: Sequence[Sequence[Any]], room: int, folders: Sequence[Sequence[Any]] = (), word: str = ""
) -> list[Any]:
    """Return this machine's clock and what its files are, in one go.

    Of each ask, ``[path, spans, version, own, beside, every]``, that is
    ``[path, version, [[offset, bytes], ...], [[path, version], ...]]``, or ``{errno, text}``.
    A path may be a pattern: the newest file that matches is meant. The path or the version is
    ``null`` where it is the one that was asked with; then no bytes come. None come either of a
    file that is not ``own``, where one is named. A span is ``[begin, end, last, to]``
    (``cockpit.sources.logs.ranged``). Files whose paths begin with ``beside`` are measured too,
    or with ``every`` all that the pattern matches. All bytes together are no more than ``room``;
    the first file's come in any case.

    Where ``folders`` are asked for (the arguments of ``below``) three things follow: what each
    holds, which files with ``word`` in their paths are written to (``null``: nobody can tell), and
    this machine's time zone.
    """
    now = time.time()
    files = [_Look(ask[0], ask, number == 0) for number, ask in enumerate(asks)]
    listed = [_Look(ask[0], tuple(ask)) for ask in folders]
    writers = [_Look("", word)] if word else []
    looks, left = [*listed, *writers, *files], _Room(room)
    first = _Reader(looks, left)
    if not _waited([first]):
        _waited([_Reader([look], left) for look in looks if look.answer is None])
    found = [now, [LATE if look.answer is None else look.answer for look in files]]
    if folders:
        found.append([LATE if look.answer is None else look.answer for look in listed])
        found.append(next((look.answer for look in writers if isinstance(look.answer, list)), None))
        found.append(time.strftime("%z"))
    return found


class _Room:
    def __init__(self, size: int) -> None:
        self.left = size
        self.lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self.lock:
            self.left -= size
            return self.left >= 0


class _Look:
    """What is asked of one path, and the answer once there is one.

    A list asks for a file, a tuple for what lies below a folder, a word for open files.
    """

    def __init__(self, path: str, ask: Any, first: bool = False) -> None:  # noqa: ANN401
        self.path = path
        self.ask = ask
        self.first = first
        self.answer: Any = None


class _Reader(threading.Thread):
    """Reads files one after another; one that hangs keeps this thread, and it alone."""

    def __init__(self, looks: Sequence[_Look], room: _Room) -> None:
        super().__init__(daemon=True)
        self.looks = looks
        self.room = room
        self.sign = time.monotonic()
        self.given_up = False
        self.done = threading.Event()
        self.now: _Look | None = None
        self.start()

    def run(self) -> None:
        for look in self.looks:
            if self.given_up:
                break
            hangs = HANGING.get(look.path)
            if hangs is not None and hangs.is_alive():
                look.answer = LATE
                continue
            self.now, self.sign = look, time.monotonic()
            try:
                if isinstance(look.ask, str):
                    answer: Any = open_to_write(look.ask, self._go_on)
                elif isinstance(look.ask, tuple):
                    answer = below(*look.ask, sign=self._go_on)
                else:
                    answer = self._read(look)
            except OSError as error:
                answer = {"errno": error.errno or 0, "text": error.strerror or str(error)}
            if not self.given_up:
                look.answer = answer
        self.done.set()

    def give_up(self) -> None:
        self.given_up = True
        if self.now is not None and self.now.answer is None:
            self.now.answer = LATE
            HANGING[self.now.path] = self

    def _go_on(self) -> None:
        self.sign = time.monotonic()

    def _read(self, look: _Look) -> object:
        asked, spans, unless, own, beside, every = look.ask
        path = newest(os.path.expanduser(asked))
        found = os.stat(path)
        version = _version(found)
        pieces: list[Any] = []
        wanted = version != unless and modes.S_ISREG(found.st_mode)
        if wanted and not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
        if wanted and spans and own in ("", path):
            with _opened(path) as file:
                version = _version(os.fstat(file.fileno()))
                for start, size in _ranges(spans, os.fstat(file.fileno()).st_size):
                    if not self.room.take(size) and not look.first:
                        return LATER
                    pieces.append([start, self._bytes(file, start, size)])
        others = [] if not every else matching(os.path.expanduser(asked))
        if beside:
            others = sorted(glob.glob(glob.escape(os.path.expanduser(beside)) + "*"))
        same = None if version == unless else version
        return [None if path == asked else path, same, pieces, list(self._measured(others))]

    def _bytes(self, file: IO[bytes], start: int, size: int) -> bytes:
        parts = []
        while size > 0:
            part = os.pread(file.fileno(), min(size, PART), start)
            if not part:
                break
            parts.append(part)
            start, size, self.sign = start + len(part), size - len(part), time.monotonic()
        return b"".join(parts)

    def _measured(self, paths: Sequence[str]) -> Iterator[list[str]]:
        for path in paths[:MOST_BESIDE]:
            self.sign = time.monotonic()
            with contextlib.suppress(OSError):
                yield [path, _version(os.stat(path))]


def _no_sign() -> None:
    """Say nobody that it goes on."""


def below(
    place: str,
    levels: Sequence[Sequence[str]],
    most: int,
    measured: int = 0,
    real: bool = False,
    *,
    sign: Callable[[], object] = _no_sign,
) -> list[Any]:
    """Return what lies at a place: ``[kind, level, [[path], [path, version], ...]]``.

    Of the ``levels``, patterns below the folder, the first counts by which anything is found. Of
    each pattern's files come the last ``most``, as their names sort; the last ``measured`` of them
    with versions. With ``real`` a link in the place of a folder that matches is followed.
    """
    path = os.path.expanduser(place)
    try:
        found = os.stat(path)
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path) from error
    if not modes.S_ISDIR(found.st_mode):
        return ["file", 0, [[path]]] if modes.S_ISREG(found.st_mode) else ["other", 0, []]
    os.scandir(path).close()  # it may not be read
    walk = _Walk(sign)
    for number, patterns in enumerate(levels):
        files: list[list[str]] = []
        for pattern in patterns:
            follow = real and glob.has_magic(os.path.dirname(pattern))
            start = os.path.realpath(path) if follow else path
            last = itertools.islice(walk.files(start, pattern.split("/"), follow), most)
            for at, each in enumerate(last):
                with walk.noting():
                    files.append([each, _version(os.stat(each))] if at < measured else [each])
        if files:
            return ["folder", number, sorted({each[0]: each for each in files}.values())]
    if walk.trouble is not None:
        raise walk.trouble
    return ["folder", len(levels), []]


class _Walk:
    """Finds files by patterns; ``trouble`` is the first that hid some."""

    def __init__(self, sign: Callable[[], object]) -> None:
        self._sign = sign
        self.trouble: OSError | None = None

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Go on where a file or folder cannot be seen; one that is not there is no trouble."""
        try:
            yield
        except OSError as error:
            if error.errno not in ABSENT:
                self.trouble = self.trouble or error

    def files(self, folder: str, parts: Sequence[str], follow: bool) -> Iterator[str]:
        """Yield the files below a folder whose names match, part by part, from the last one on."""
        self._sign()
        head, rest = parts[0], parts[1:]
        names = [head]
        if glob.has_magic(head):
            names = []
            with self.noting():
                shown = (name for name in os.listdir(folder) if not name.startswith("."))
                names = sorted(fnmatch.filter(shown, head), reverse=True)
        for name in names:
            path = os.path.join(folder, name)
            if follow and os.path.islink(path):
                path = os.path.realpath(path)
            if rest:
                yield from self.files(path, rest, follow)
                continue
            regular = False
            with self.noting():
                regular = modes.S_ISREG(os.stat(path).st_mode)
            if regular:
                self._sign()
                yield path


ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def open_to_write(word: str, sign: Callable[[], object] = _no_sign) -> list[str] | None:
    """Return the files with a word in their paths that processes may write to.

    Each as its folder and name: a process may know it by another path (a link, a container's
    mount). ``None`` where processes cannot be seen.
    """
    if not os.path.isdir("/proc/self/fd"):
        return None
    found = set()
    for target, handle in _handles():
        sign()
        if word in target and _writes(handle):
            named = target[: -len(DELETED)] if target.endswith(DELETED) else target
            found.add("/".join(named.split("/")[-2:]))
    return sorted(found)


DELETED = " (deleted)"
"""How the kernel marks a file that has no name any more."""


def _handles() -> Iterator[tuple[str, str]]:
    """Yield what processes have open, and the handle (``/proc/PID/fd/N``) that they have."""
    for handle in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            yield os.readlink(handle), handle


def _writes(handle: str) -> bool:
    try:
        return bool(os.lstat(handle).st_mode & modes.S_IWUSR)
    except OSError:  # closed meanwhile
        return False


def _waited(readers: Sequence[_Reader]) -> bool:
    """Wait for readers as long as each goes on; return whether all have come to their end."""
    whole = True
    for reader in readers:
        while not reader.done.wait(max(0.01, reader.sign + LIMIT - time.monotonic())):
            if time.monotonic() - reader.sign >= LIMIT:
                reader.give_up()
                whole = False
                break
    return whole


def _version(found: os.stat_result) -> str:
    """Return device, inode, size, time of the last write and mode: any change is another text."""
    seconds, rest = divmod(found.st_mtime_ns, 10**9)
    mode = f"{found.st_mode:x}"
    return f"{found.st_dev} {found.st_ino} {found.st_size} {seconds}.{rest:09d} {mode}"


def _ranges(spans: Sequence[Sequence[Any]], size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length, in whole pages, of what spans name; nothing twice in a row."""
    known = (0, 0)
    for begin, end, last, to in spans:
        end = size if end is None else min(end, size)
        begin = begin if last is None else max(begin, end - last)
        begin -= begin % to
        stop = begin + -(-(end - begin) // PAGE) * PAGE
        if stop > begin and not (known[0] <= begin and stop <= known[1]):
            known = begin, stop
            yield begin, stop - begin


def _opened(path: str) -> IO[bytes]:
    """Open a file; one that has become a pipe meanwhile is not waited for."""
    return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | NO_WAIT))


NO_WAIT = os.O_NONBLOCK


def _chunks(file: IO[bytes], at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield a file's bytes ``[at, end)`` with their offsets; raises ``OSError`` after a time."""
    until = time.monotonic() + SEARCHING
    while at < end:
        data = os.pread(file.fileno(), min(CHUNK, end - at), at)
        if not data:
            return
        yield at, data
        at += len(data)
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, "it takes too long to read through it")


def breaks_before(path: str, end: int) -> int:
    """Return how many line breaks stand before an offset."""
    with _opened(path) as file:
        return sum(data.count(b"\n") for _, data in _chunks(file, 0, end))


def after_breaks(path: str, breaks: int) -> int | None:
    """Return the offset behind so many line breaks; ``None`` if there are fewer."""
    left = breaks
    with _opened(path) as file:
        for start, data in _chunks(file, 0, os.fstat(file.fileno()).st_size):
            here = data.count(b"\n")
            if here < left:
                left -= here
                continue
            at = 0
            for _ in range(left):
                at = data.index(b"\n", at) + 1
            return start + at
    return None


def find(
    path: str, expression: str, ignore_case: bool, begin: int, end: int, back: bool
) -> int | None:
    """Return where an expression, in Latin-1, first (``back``: last) stands in ``[begin, end)``.

    Raises ``OSError`` where that takes too long.
    """
    wanted = re.compile(expression.encode("latin-1"), re.IGNORECASE if ignore_case else 0)
    until = time.monotonic() + SEARCHING
    starts = range(begin, end, CHUNK)
    with _opened(path) as file:
        for start in reversed(starts) if back else starts:
            size = min(end, start + CHUNK + OVERLAP) - start
            data = os.pread(file.fileno(), size, start)
            found = (match.start() for match in wanted.finditer(data))
            at = max(found, default=None) if back else next(found, None)
            if at is not None:
                return start + at
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "it takes too long to search it")
    return None


def written(path: str) -> list[Any]:
    """Return where a path leads, and the files there that processes write, named as it begins.

    Each has a handle (``/proc/PID/fd/N``) that reads it, also when its name is gone.
    """
    folder, name = os.path.split(os.path.expanduser(path))
    real = os.path.join(os.path.realpath(folder), name)
    named = ((target, each) for target, each in _handles() if target.startswith(real))
    return [real, {target: each for target, each in named if _writes(each)}]


for _each in (pieces, find, breaks_before, after_breaks, written):
    CALLS[_each.__name__] = _each
