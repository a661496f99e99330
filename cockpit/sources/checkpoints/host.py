"""The tree of one ssh host: one script lists all roots of all runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, NamedTuple

from cockpit.hosts.script import run_script
from cockpit.model.facet import ErrorKind
from cockpit.runtime.ssh import ASKING, LIMITED, RemoteError, quote
from cockpit.sources.checkpoints.contents import Entry, Fetched, Level, ListingError, Piece
from cockpit.sources.checkpoints.contents import TreeListing as Listed
from cockpit.sources.checkpoints.listing import STEP_NAME, Link
from cockpit.text.safe import clean

MISSING: Final = 81
NOT_A_FOLDER: Final = 82
DENIED: Final = 83
OUT_OF_TIME: Final = 124
LIMIT: Final = 6
"""Seconds that one question may take."""

_TESTS: Final = (
    'n=$#; i=0; while [ "$i" -lt "$n" ]; do p=$1; shift;'
    f' if ! [ -e "$p" ]; then s={MISSING}; elif ! [ -d "$p" ]; then s={NOT_A_FOLDER};'
    f' elif [ -r "$p" ] && [ -x "$p" ]; then s=0; else s={DENIED}; fi;'
    ' if [ "$s" = 0 ]; then set -- "$@" "$p/"; else printf \'F %s %s\\0\' "$i" "$s"; fi;'
    ' i=$((i+1)); done; [ "$#" -gt 0 ] || exit 0; '
)
_PRINT: Final = r"-printf '%y %s %T@ %D.%i %H\0%P\0'"
_DIRECTLY: Final = "-maxdepth 1"
_STAT: Final = (
    'stat FOLLOW -c "%F|%s|%Y|%i|%n" "$@" 2>/dev/null || stat FOLLOW -f "%HT|%z|%m|%i|%N" "$@"'
)
_BY_STAT: Final = (
    "printf '='; nl='\n'; find FOLLOW \"$@\" WHAT ! -name \"*$nl*\""
    f" -exec sh -c '{_STAT}' sh {{}} +; rc=$?; printf '\\0'; exit $rc"
)
_LEVEL: Final = f'{_TESTS}exec find -L "$@" {_DIRECTLY} {_PRINT}'
_WALK: Final = f'exec find "$@" {_PRINT}'
_LEVEL_BY_STAT: Final = f"{_TESTS}{_BY_STAT}".replace("FOLLOW", "-L").replace("WHAT", _DIRECTLY)
_WALK_BY_STAT: Final = _BY_STAT.replace("FOLLOW", "").replace("WHAT", "! -type d")
_BYTES: Final = (
    "while [ $# -gt 2 ]; do printf 'P #';"
    ' if [ -f "$1" ] && od -An -v -tx1 -j "$2" -N "$3" "$1";'
    " then printf '\\0'; else printf '!\\0'; fi; shift 3; done"
)
_WHOLE: Final = (
    'for p; do [ -f "$p" ] || exit 1; done;'
    " printf 'P #'; od -An -v -tx1 \"$@\" || exit 1; printf '\\0'"
)
HEAD: Final = f"""LC_ALL=C; export LC_ALL
{LIMITED}printf 'C %s\\0' "$(date +%s)"
if find /dev/null -printf '' 2>/dev/null; then
level={quote(_LEVEL)}
walk={quote(_WALK)}
else
level={quote(_LEVEL_BY_STAT)}
walk={quote(_WALK_BY_STAT)}
fi
bytes={quote(_BYTES)}
whole={quote(_WHOLE)}
ask() {{
printf 'B %s\\0' "$1"; run=$2; shift 2
limited {LIMIT} sh -c "$run" {ASKING} "$@" 2>/dev/null
printf 'E %s\\0' "$?"
}}
"""


def script_of(levels: Sequence[Sequence[str]], walks: Sequence[Sequence[str]]) -> str:
    """Return the script that names what lies in folders, and lists all below others, by groups.

    Questions are numbered: the groups of levels first.
    """
    lines = [f'ask {n} "$level" {" ".join(map(word, group))}' for n, group in enumerate(levels)]
    for number, group in enumerate(walks, len(levels)):
        starts = " ".join(f"{word(path)}/" for path in group)
        lines.append(f'ask {number} "$walk" {starts}')
    return HEAD + "\n".join(lines) + "\n"


def reading_script(batches: Sequence[Sequence[tuple[str, int, int]]]) -> str:
    """Return the script that reads (path, start, length) of files; a question is a batch."""
    lines = []
    for number, batch in enumerate(batches):
        words = " ".join(f"{word(path)} {start} {length}" for path, start, length in batch)
        lines.append(f'ask {number} "$bytes" {words}')
    return HEAD + "\n".join(lines) + "\n"


def whole_script(batches: Sequence[Sequence[str]]) -> str:
    """Return the script that reads files to their end, those of a batch as one."""
    lines = [f'ask {n} "$whole" {" ".join(map(word, batch))}' for n, batch in enumerate(batches)]
    return HEAD + "\n".join(lines) + "\n"


def word(path: str) -> str:
    """Return a path of the host as a word of its shell; one below ``~`` lies in its home."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{quote(path[1:]) if len(path) > 1 else ""}'
    return quote(path if path.startswith("/") else f"./{path}")


class Line(NamedTuple):
    """One thing in a folder: its type (``d``, ``f``, ``l`` …), and where the listing started."""

    type: str
    size: int
    mtime: float
    inode: str
    start: str
    path: str


@dataclass
class Answer:
    """What one question was answered; ``status`` is ``None`` for one that has no end."""

    lines: list[Line] = field(default_factory=list)
    failed: dict[int, int] = field(default_factory=dict)
    """Which folder of the group cannot be listed, and why."""
    bytes: list[bytes | None] = field(default_factory=list)
    """In the order asked; ``None`` for a file that could not be read."""
    status: int | None = None


def taken_apart(out: bytes) -> tuple[float | None, dict[int, Answer]]:
    """Return the host's clock and the answers by number; what is cut off or odd is left out."""
    clock: float | None = None
    answers: dict[int, Answer] = {}
    current = Answer()
    records = iter(out.split(b"\0")[:-1])
    for record in records:
        kind, _, rest = record.partition(b" ")
        if kind == b"C":
            clock = _number(rest)
        elif kind == b"B":
            current = answers.setdefault(int(_number(rest) or 0), Answer())
        elif kind == b"E":
            current.status = int(_number(rest) or 0)
        elif kind == b"F":
            place, _, status = rest.partition(b" ")
            current.failed[int(_number(place) or 0)] = int(_number(status) or 0)
        elif kind == b"P":
            current.bytes.append(_from_hex(rest))
        elif record.startswith(b"="):
            current.lines += _stat_lines(record[1:])
        else:
            line = _line(record, next(records, None))
            current.lines += [] if line is None else [line]
    return clock, answers


def _line(record: bytes, below: bytes | None) -> Line | None:
    """Return what ``find`` has printed of one thing."""
    parts = record.split(b" ", 4)
    if len(parts) != 5 or below is None:
        return None
    kind, size, mtime, inode, start = parts
    length, at = _number(size), _number(mtime)
    if length is None or at is None:
        return None
    return Line(_text(kind), int(length), at, _text(inode), _text(start), _text(below))


_TYPES: Final = {"directory": "d", "regular": "f", "symbolic": "l"}


def _stat_lines(text: bytes) -> Iterator[Line]:
    for row in text.split(b"\n"):
        parts = row.split(b"|", 4)
        if len(parts) == 5:
            size, at = _number(parts[1]), _number(parts[2])
            if size is not None and at is not None:
                kind = _TYPES.get(_text(parts[0]).lower().partition(" ")[0], "?")
                yield Line(kind, int(size), at, _text(parts[3]), "", _text(parts[4]))


def _from_hex(text: bytes) -> bytes | None:
    try:
        return bytes.fromhex(text.lstrip(b"#").decode("ascii"))
    except ValueError:
        return None


def _number(text: bytes) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) < 1e18 else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


CAP: Final = 24_000_000
"""Bytes of one answer at most: some 150,000 files."""
FEW: Final = 4
"""Files up to which each is read by itself."""
GROUP: Final = 100
"""Checkpoints that are listed, or files that are read, under one time limit."""
SKEWED: Final = 5.0
"""Seconds from which on two clocks disagree."""
SPARE: Final = 0.5
_LIMIT: Final = 4096
_REASONS: Final = {
    MISSING: (ErrorKind.NOT_FOUND, "does not exist"),
    NOT_A_FOLDER: (ErrorKind.BAD_ANSWER, "is not a folder"),
    DENIED: (ErrorKind.PERMISSION, "may not be read (permission denied)"),
}


class _Below(NamedTuple):
    """A line, and its path below the folder that was asked for."""

    line: Line
    path: str


class HostTree:
    """Lists and reads the files of one ssh host (``None``: of this machine, by the same script)."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._skew = 0.0

    async def fetch(self, levels: Collection[str], walks: Sequence[str], until: float) -> Fetched:
        """Name what lies in folders, and list all below others, in one script."""
        named, listed = [*_groups(levels)], [*_groups(walks)]
        answers, cut = await self._run(script_of(named, listed), until)
        found = Listed({}, {})
        for number, group in enumerate(named):
            answer = answers.get(number, Answer())
            for path, lines in _reached(group, answer).items():
                found.levels[path] = self._level(lines)
            for place, status in answer.failed.items():
                found.levels[group[place]] = self._failed(group[place], status)
        for number, group in enumerate(listed, len(named)):
            answer = answers.get(number, Answer())
            for path, lines in _reached(group, answer).items():
                found.walks[path] = tuple(self._files(lines))
            if cut and group[0] not in found.walks and answer.lines:
                text = f"more than {len(answer.lines):,} files"
                found.walks[group[0]] = ListingError(ErrorKind.BAD_ANSWER, text, whole=False)
        return found

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""
        found: dict[Piece, bytes | ListingError] = {}
        whole = [piece for piece in pieces if piece.whole]
        try:
            if len(whole) > FEW:
                await self._whole(whole, found, until)
            left = [piece for piece in pieces if piece not in found]
            if left:
                await self._apart(left, found, until)
        except ListingError as error:
            return {**dict.fromkeys(pieces, error), **found}
        return found

    async def _whole(
        self, pieces: Sequence[Piece], found: dict[Piece, bytes | ListingError], until: float
    ) -> None:
        """Read small files by one program for many, where they are as long as they were."""
        batches = [pieces[at : at + GROUP] for at in range(0, len(pieces), GROUP)]
        script = whole_script([[piece.path for piece in batch] for batch in batches])
        answers, _ = await self._run(script, until)
        for number, batch in enumerate(batches):
            data = next(iter(answers.get(number, Answer()).bytes), None)
            if data is not None and len(data) == sum(piece.length for piece in batch):
                for piece in batch:
                    found[piece], data = data[: piece.length], data[piece.length :]

    async def _apart(
        self, pieces: Sequence[Piece], found: dict[Piece, bytes | ListingError], until: float
    ) -> None:
        batches = [pieces[at : at + GROUP] for at in range(0, len(pieces), GROUP)]
        words = [[(each.path, each.start, each.length) for each in batch] for batch in batches]
        answers, _ = await self._run(reading_script(words), until)
        for number, batch in enumerate(batches):
            for piece, data in zip(batch, answers.get(number, Answer()).bytes, strict=False):
                unread = ListingError(ErrorKind.PERMISSION, "it cannot be read", whole=False)
                found[piece] = unread if data is None else data

    async def _run(self, script: str, until: float) -> tuple[dict[int, Answer], bool]:
        """Return the answers, and whether there were too many; raises ``ListingError``."""
        left = until - asyncio.get_running_loop().time() - SPARE
        if left <= 0.0:
            return {}, False
        began = time.time()
        try:
            done = await run_script(self._host, script, deadline=left, cap=CAP)
        except RemoteError as error:
            clock, answers = taken_apart(error.out)
            if error.kind is ErrorKind.TIMEOUT and clock is not None:
                return answers, False  # what was listed in time counts; the rest comes later
            raise ListingError(error.kind, clean(error, _LIMIT)) from error
        except TimeoutError as error:
            raise ListingError(ErrorKind.TIMEOUT, clean(error, _LIMIT)) from error
        clock, answers = taken_apart(done.out)
        if clock is None:
            text = f"{self._host or 'this machine'}: its shell's answer cannot be parsed"
            said = clean(done.err.decode("utf-8", "replace").strip()[:200])
            raise ListingError(ErrorKind.BAD_ANSWER, f"{text}: {said}" if said else text)
        self._heed(clock + 0.5 - (began + time.time()) / 2)
        return answers, done.cut

    def _heed(self, skew: float) -> None:
        if abs(skew) < SKEWED:
            self._skew = 0.0
        elif abs(skew - self._skew) >= SKEWED:
            self._skew = skew

    def _failed(self, path: str, status: int) -> ListingError:
        kind, why = _REASONS.get(status, (ErrorKind.BAD_ANSWER, "cannot be listed"))
        where = f"{self._host}:{path}" if self._host else path
        return ListingError(kind, clean(f"{where} {why}", _LIMIT), whole=False)

    def _level(self, lines: Sequence[_Below]) -> Level:
        """Return what lies in a folder; of one folder under several names the likeliest one."""
        folders: dict[str, str] = {}
        links: list[Link] = []
        for line, name in sorted(lines, key=_likeliest):
            if line.type == "l":
                links.append(Link(name, "", there=False))
            elif line.type == "d" and folders.setdefault(line.inode, name) != name:
                links.append(Link(name, folders[line.inode], there=True))
        found = [each for each in lines if each.line.type != "l"]
        names, files = tuple(folders.values()), tuple(self._files(found))
        return Level(files, names, links=tuple(links), same=_same(lines))

    def _files(self, lines: Sequence[_Below]) -> Iterator[Entry]:
        for line, path in lines:
            if line.type != "d":
                tag = f"{line.size} {line.mtime} {line.inode}"
                yield Entry(path, line.size, line.mtime - self._skew, tag)


def _groups(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield folders that are likely to lie on one disk together, a bounded number of them."""
    disks: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        disks.setdefault(tuple(path.split("/")[:3]), []).append(path)
    for group in disks.values():
        for at in range(0, len(group), GROUP):
            yield group[at : at + GROUP]


def _reached(group: Sequence[str], answer: Answer) -> dict[str, list[_Below]]:
    """Return what lies below each folder of a group, of those that were listed to their end."""
    found: dict[str, list[_Below]] = {path: [] for path in group}
    known: dict[str, str] = {}
    last = ""
    for line in answer.lines:
        start, below = _start(line, found, known)
        if start in found:
            last = start
            if below:
                found[start].append(_Below(line, below))
    whole = answer.status is not None and answer.status != OUT_OF_TIME
    failed = {group[place] for place in answer.failed if place < len(group)}
    reached = len(group) if whole else group.index(last) if last else 0
    return {path: found[path] for path in group[:reached] if path not in failed}


def _start(line: Line, group: Collection[str], known: dict[str, str]) -> tuple[str, str]:
    """Return in which of the folders a line lies, and its path there."""
    if line.start:
        if line.start not in known:
            known[line.start] = _spelled(line.start.rstrip("/"), group)
        return known[line.start], line.path
    for path in group:
        for spelled in (f"{path}/", f"./{path}/", path.removeprefix("~") + "/"):
            before, found, below = line.path.partition(spelled)
            if found and (not before or path.startswith("~")):
                return path, below.lstrip("/")
    return "", ""


def _spelled(start: str, group: Collection[str]) -> str:
    """Return a folder as it was asked for: the host has put its home in place of ``~``."""
    if start in group:
        return start
    relative = (path for path in group if not path.startswith("/"))
    return next((each for each in relative if start.endswith(each.lstrip("~./"))), "")


def _same(lines: Sequence[_Below]) -> tuple[tuple[str, str], ...]:
    """Return each pair of names of one thing: links are followed, so their inode is its own."""
    by_inode: dict[tuple[str, str], list[str]] = {}
    for line, name in lines:
        if line.type in ("d", "f"):
            by_inode.setdefault((line.type, line.inode), []).append(name)
    return tuple(pair for names in by_inode.values() for pair in permutations(names, 2))


def _likeliest(below: _Below) -> tuple[bool, bool, str]:
    named = STEP_NAME.fullmatch(below.path) is not None
    return (not named, not any(map(str.isdecimal, below.path)), below.path)
