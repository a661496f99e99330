"""What is asked of files on a host, what is told of them, and the bytes kept of that.

On a host without Python only the newest bytes of a log are read, by one small script, and nothing
is ever done there.

A log that is a file of this machine, where its writer goes on after a rotation, and packed logs.

A rotation renames a file, and a writer that does not open it anew goes on in it. Which files
processes write, the kernel tells (Linux' ``/proc``); those of other users are not seen. Nothing
is kept open between two looks.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat as modes
import sys
import threading
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, NamedTuple, cast

from cockpit.hosts.agent import newest
from cockpit.hosts.link import Ask as Question
from cockpit.hosts.link import ask
from cockpit.hosts.ranges import PAGE
from cockpit.hosts.script import run_script_blocking
from cockpit.model.place import FILE, Place
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.process import WRITTEN_FILES
from cockpit.runtime.ssh import quote
from cockpit.sources.logs.ranged import NOTHING, Opened, Ranged, Span, Stat, Wish
from cockpit.text.safe import clean


class Ask(NamedTuple):
    """What is wanted of one file: ``path``, perhaps a pattern, as its host spells it.

    Nothing is sent of a file that a pattern finds if it is not ``own``, where one is named. Files
    whose paths begin with ``beside`` are measured, too; with ``every`` all that a pattern matches.
    """

    path: str
    wish: Wish = NOTHING
    own: str = ""
    beside: str = ""
    every: bool = False


class Answer(NamedTuple):
    """What one file was when looked at: ``version`` is what its host said of it.

    ``pieces`` are offsets (multiples of ``PAGE``) and the bytes there. ``now`` is the host's clock
    (epoch, s).
    """

    path: str
    version: str
    identity: tuple[int, int]
    size: int
    mtime: float
    now: float
    pieces: tuple[tuple[int, bytes], ...] = ()
    beside: tuple[Answer, ...] = ()


class LaterError(OSError):
    """Others that were asked for before have filled the answer: ask again."""


Told = Answer | OSError
"""An answer, or why there is none: not found, no permission, no regular file, too late."""


def question(asks: Sequence[Ask], room: int, **more: object) -> Question:
    """Return what to ask a host's agent for some files; their bytes are at most ``room``.

    ``more`` is what else the agent's ``pieces`` is asked for.
    """
    return ask("its files", "pieces", asks=[_asked(each) for each in asks], room=room, **more)


def _asked(each: Ask) -> list[Any]:
    spans = [
        [span.begin, span.end, span.last, max(PAGE, span.to - span.to % PAGE)]
        for span in each.wish.spans
    ]
    unless = each.wish.unless if isinstance(each.wish.unless, str) else ""
    return [each.path, spans, unless, each.own, each.beside, each.every]


def answers(asks: Sequence[Ask], value: Any) -> list[Told]:  # noqa: ANN401 - as the agent's
    """Return what an agent has told of each file asked for."""
    return [_told(each, one, value[0]) for each, one in zip(asks, value[1], strict=True)]


def _told(each: Ask, found: Any, now: float) -> Told:  # noqa: ANN401
    if isinstance(found, dict):
        return failure(each.path, found["errno"], found["text"])
    path, version, pieces, beside = found
    answer = measured(path or each.path, version or str(each.wish.unless), now)
    if answer is None:
        return OSError(errno.EILSEQ, "its name is not valid UTF-8")
    if answer.size < 0:
        return OSError(0, "not a regular file", answer.path)
    others = (measured(name, version, now) for name, version in beside)
    return answer._replace(
        pieces=tuple((start, data) for start, data in pieces),
        beside=tuple(other for other in others if other is not None and other.size >= 0),
    )


def measured(path: str, version: str, now: float) -> Answer | None:
    """Return what a version says of a file; ``None`` for a name that cannot be shown."""
    device, inode, size, mtime, mode = version.split()
    if not path.isascii() and any("\ud800" <= sign <= "\udfff" for sign in path):
        return None
    length = int(size) if modes.S_ISREG(int(mode, 16)) else -1
    return Answer(path, version, (int(device), int(inode)), length, float(mtime), now)


def failure(path: str, number: int, text: str) -> OSError:
    """Return why a file cannot be read, by the number of the error or else by its text."""
    if "No such file" in text or "Not a directory" in text:
        number = errno.ENOENT
    if "ermission denied" in text:
        number = errno.EACCES
    if number == errno.EAGAIN:
        return LaterError(number, text)
    if number in (errno.ENOENT, errno.ENOTDIR):
        return FileNotFoundError(errno.ENOENT, "No such file or directory", path)
    if number in (errno.EACCES, errno.EPERM):
        return PermissionError(errno.EACCES, "Permission denied", path)
    if number == errno.ETIMEDOUT:
        return TimeoutError(number, text)
    return OSError(number or errno.EIO, clean(text, 200) or "it cannot be inspected", path)


MOST: Final = 8 << 20
"""Bytes that are kept of one file."""
ALTOGETHER: Final = 64 << 20
"""Bytes that are kept of all files."""

Pages = OrderedDict[int, bytes]
"""Pages by number; the last one of a file may be short."""


class PageCache:
    """The pages of many files, by any key; safe for threads."""

    def __init__(self, most: int = MOST, altogether: int = ALTOGETHER) -> None:
        self._most = most
        self._altogether = altogether
        self._files: OrderedDict[Hashable, Pages] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._kept = 0
        self._lock = threading.Lock()

    @property
    def kept(self) -> int:
        """How many bytes are kept now, by whole pages."""
        return self._kept * PAGE

    def seen(self, key: Hashable, size: int) -> None:
        """Take note of a file's size: one that has shrunk is another text."""
        with self._lock:
            if size < self._sizes.get(key, 0):
                self._forget(key)
            self._sizes[key] = size

    def put(self, key: Hashable, start: int, data: bytes) -> None:
        """Keep bytes that begin at a page; where they differ from those known, forget the file."""
        with self._lock:
            pages = self._files.setdefault(key, OrderedDict())
            new = {(start + at) // PAGE: data[at : at + PAGE] for at in range(0, len(data), PAGE)}
            if any(_differ(pages.get(number, b""), page) for number, page in new.items()):
                self._kept -= len(pages)
                pages.clear()
            for number, page in new.items():
                if len(page) >= len(pages.get(number, b"")):
                    self._kept += number not in pages
                    pages[number] = page
                pages.move_to_end(number)
            self._files.move_to_end(key)
            while len(pages) * PAGE > self._most:
                pages.popitem(last=False)
                self._kept -= 1
            while self._kept * PAGE > self._altogether and len(self._files) > 1:
                self._forget(next(iter(self._files)))

    def get(self, key: Hashable, start: int, end: int) -> tuple[bytes, int]:
        """Return the bytes known from ``start`` on, up to ``end``, and where they end."""
        with self._lock:
            pages = self._files.get(key)
            if pages is None:
                return b"", start
            self._files.move_to_end(key)
            parts, at = [], start
            while at < end and (page := pages.get(at // PAGE)) is not None:
                pages.move_to_end(at // PAGE)
                part = page[at % PAGE : min(PAGE, at % PAGE + end - at)]
                if not part:
                    break
                parts.append(part)
                at += len(part)
            return b"".join(parts), at

    def _forget(self, key: Hashable) -> None:
        self._kept -= len(self._files.pop(key, ()))
        self._sizes.pop(key, None)


def _differ(known: bytes, new: bytes) -> bool:
    both = min(len(known), len(new))
    return known[:both] != new[:both]


PLAIN_MOST: Final = 1 << 20
"""Bytes that are read at once."""
_SCRIPT: Final = """LC_ALL=C; export LC_ALL
f=%(path)s
if stat -c %%s / >/dev/null 2>&1; then S=-c F='%%d %%i %%s %%Y %%f'
else S=-f F='%%d %%i %%z %%m %%Xp'; fi
date +%%s
s=$(stat -L $S "$F" "$f" 2>&1) || { printf '! %%s' "$s"; exit; }
printf '%%s\\n%%s\\n' "$s" "$f"
[ -f "$f" ] || exit 0
[ -r "$f" ] || { printf 'Permission denied'; exit 1; }
z=${s#* }; z=${z#* }; z=${z%%%% *}; e=%(end)s
[ "$e" -lt "$z" ] || e=$z
b=$((e - %(last)d)); [ $b -gt %(begin)d ] || b=%(begin)d
b=$((b - b %% %(page)d))
printf '%%s\\n' $b
tail -c +$((b + 1)) "$f" | head -c $(((e - b + %(page)d - 1) / %(page)d * %(page)d))
"""


def read_plainly(host: str, asks: Sequence[Ask], deadline: float) -> list[Told]:
    """Return the newest bytes of each file; raises ``RemoteError`` without an answer."""
    return [_read(host, each, deadline) for each in asks]


def _read(host: str, each: Ask, deadline: float) -> Told:
    spans = each.wish.spans or (Span(0, 0),)
    end = spans[-1].end
    last = min(PLAIN_MOST, max(PLAIN_MOST if span.last is None else span.last for span in spans))
    path = word_of(each.path)
    if is_pattern(each.path):
        path = f"$(ls -td -- {path} {word_of(each.path, magic=True)} 2>/dev/null | head -n 1)"
    script = _SCRIPT % {
        "path": path, "page": PAGE, "begin": max(0, min(span.begin for span in spans)),
        "last": last, "end": "$z" if end is None else end,
    }  # fmt: skip
    out = run_script_blocking(host, script, deadline=deadline, cap=2 * PLAIN_MOST).out
    now, _, rest = out.partition(b"\n")
    said, _, rest = rest.partition(b"\n")
    if said.startswith(b"! "):
        return failure(each.path, 0, said[2:].decode("utf-8", "replace"))
    name, _, rest = rest.partition(b"\n")
    begin, _, data = rest.partition(b"\n")
    if begin == b"Permission denied":
        return failure(each.path, errno.EACCES, "")
    answer: Answer | None = None
    with suppress(ValueError):
        answer = measured(name.decode(), said.decode("ascii"), float(now))
    if answer is None:
        return OSError(errno.EIO, "its host's answer cannot be read")
    if answer.size < 0:
        return OSError(0, "not a regular file", answer.path)
    return answer._replace(pieces=((int(begin), data),))


_MAGIC: Final = re.compile(r"[*?[]")
_USER: Final = re.compile(r"~[A-Za-z0-9_.-]*")


def is_pattern(path: str) -> bool:
    """Tell whether a path has letters that a pattern is made of."""
    return _MAGIC.search(path) is not None


def word_of(path: str, magic: bool = False) -> str:
    """Return a path as a word of the shell, from the home where it says so (``~/x``).

    With ``magic``, ``*``, ``?`` and ``[a-z]`` in it are a pattern; ``**`` is ``*``.
    """
    quoted = _pattern if magic else quote
    user = _USER.match(path) if path.startswith("~") else None
    if user is not None and path[user.end() : user.end() + 1] in ("", "/"):
        home = '"$HOME"' if user[0] == "~" else user[0]
        return home + (quoted(path[user.end() :]) if path[user.end() :] else "")
    return quoted(path) if path.startswith("/") else "./" + quoted(path)


def _pattern(text: str) -> str:
    parts = re.split(r"(\*+|\?|\[[!^]?\]?[^]/]*\])", text)
    return "".join(_magic(part) if at % 2 else quote(part) for at, part in enumerate(parts) if part)


def _magic(part: str) -> str:
    if not part.startswith("["):
        return part[0]
    plain = re.compile(r"[A-Za-z0-9_.\-\]]")
    inner = "".join(char if plain.match(char) else quote(char) for char in part[1:-1].lstrip("!^"))
    return f"[{'!' if part[1] in '!^' else ''}{inner}]"


ENDING: Final = r"(?:[.-]\d[\dT_.:-]*|\.old|\.bak)"
"""What a rotation puts behind a name."""
DELETED: Final = " (deleted)"
"""How the kernel marks a file that has no name any more."""
_ROTATED: Final = re.compile(ENDING)


def goes_on_in(path: str, written: Mapping[str, str]) -> str | None:
    """Return what holds the log now that was once at ``path``; ``None`` where nothing surely does.

    ``written`` are the files that processes write, as the kernel names them, each with a handle
    that reads it (``/proc/PID/fd/N``). Of two that might be it neither is taken.
    """
    if path in written:
        return None
    named = PurePosixPath(path)
    found = set()
    for target, handle in written.items():
        plain = PurePosixPath(target.removesuffix(DELETED))
        gone = target.endswith(DELETED)
        if plain.parent != named.parent or not plain.name.startswith(named.name):
            continue
        if _ROTATED.fullmatch(plain.name, len(named.name)) or (gone and plain == named):
            found.add(handle if gone else target)
    return found.pop() if len(found) == 1 else None


class LocalLog(Ranged):
    """A file, by its path, or the newest of those that a pattern matches."""

    def __init__(self, path: str | Path) -> None:
        self.place = Place(FILE, "", str(path))

    @contextmanager
    def open(self, wish: Wish = NOTHING) -> Iterator[Opened]:
        """Open the file anew, so that a rotated or replaced one is simply the new one."""
        with open_regular(self.place.path) as (fd, status):
            yield _OpenFile(fd, status)

    def newest(self) -> LocalLog:
        """Return the newest file that matches a path or glob; itself if none does."""
        found = newest(self.place.path)
        return self if found == self.place.path else LocalLog(found)

    def beside(self, prefix: str) -> list[tuple[Ranged, Stat]]:
        """Return the files of its folder whose names begin so."""
        found: list[tuple[Ranged, Stat]] = []
        for path in Path(self.place.path).parent.glob(f"{glob.escape(prefix)}*"):
            with suppress(OSError):
                found.append((LocalLog(path), stat_of(path.stat())))
        return found

    def renamed(self) -> LocalLog | None:
        """Return where its writer goes on, by the open files of all processes that can be seen."""
        path = Path(self.place.path)
        real = str(Path(os.path.realpath(path.parent)) / path.name)
        found = goes_on_in(real, WRITTEN_FILES.now())
        return None if found is None else LocalLog(found)


class _OpenFile(Opened):
    def __init__(self, fd: int, status: os.stat_result) -> None:
        self._fd = fd
        self.stat = stat_of(status)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer if the file has become shorter."""
        parts = []
        while start < end:
            data = os.pread(self._fd, end - start, start)
            if not data:
                break
            parts.append(data)
            start += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def stat_of(status: os.stat_result) -> Stat:
    """Return what the kernel says of a file."""
    return Stat(
        status.st_size,
        status.st_mtime,
        (status.st_dev, status.st_ino),
        (status.st_ino, status.st_size, status.st_mtime_ns),
    )


MAGIC: Final = 6
"""Bytes at a file's beginning that tell how it is packed."""


class Packing(NamedTuple):
    """One way to pack a file: the program, the ending of the name, how such a file begins.

    ``module`` of the standard library reads it, where this Python has that.
    """

    program: str
    ending: str
    magic: bytes
    module: str


PACKINGS: Final = (
    Packing("gzip", ".gz", b"\x1f\x8b", "gzip"),
    Packing("xz", ".xz", b"\xfd7zXZ\x00", "lzma"),
    Packing("bzip2", ".bz2", b"BZh", "bz2"),
    Packing("zstd", ".zst", b"\x28\xb5\x2f\xfd", "compression.zstd"),
)
ENDINGS: Final = tuple(each.ending for each in PACKINGS)


def packing_of(name: str, head: bytes = b"") -> Packing | None:
    """Return how a file is packed, by its first bytes, else by its name; ``None``: it is not."""
    by_magic = (each for each in PACKINGS if head.startswith(each.magic))
    by_name = (each for each in PACKINGS if name.endswith(each.ending))
    return next(by_magic, None) or next(by_name, None)


def unpacked(packing: Packing, file: BinaryIO) -> BinaryIO:
    """Return what reads a packed file; raises ``OSError`` where this Python cannot."""
    try:
        opener = import_module(packing.module).open
    except ImportError as error:
        text = f"it is packed with {packing.program}, which is not read here: unpack it"
        raise OSError(errno.EOPNOTSUPP, text) from error
    return cast("BinaryIO", opener(file))


def errors() -> tuple[type[Exception], ...]:
    """Return what reading a broken packed file raises, of the modules that are loaded."""
    lzma = sys.modules.get("lzma")
    more: tuple[type[Exception], ...] = () if lzma is None else (lzma.LZMAError,)
    return (OSError, EOFError, zlib.error, *more)


class PackedError(OSError):
    """A log that is to be followed was packed; ``strerror`` names the program."""


def refuse_packed(log: Ranged) -> None:
    """Raise ``PackedError`` for a log that was packed: nobody writes on in one of those."""
    packing = packing_of(log.path)
    if packing is None:
        return
    with log.open(Wish((Span(0, MAGIC),))) as opened:
        head = opened.read(0, min(MAGIC, opened.stat.size))
    if head.startswith(packing.magic):
        raise PackedError(errno.EOPNOTSUPP, packing.program)
