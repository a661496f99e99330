r"""The shell's side of listing a host, and what it answers, taken apart.

POSIX ``sh`` and what every system has; where ``find`` cannot print (BSD, small boxes) ``stat``
does, and names with a line break are left out. Each folder has its own time limit, so that one dead
mount costs the others nothing. The answer is a row of records that end in a NUL, which no name can
hold:

    C <seconds>           the host's clock
    B <number>            what follows belongs to that question: a group of folders or files
    F <place> <status>    that folder of the group cannot be listed: 81 to 83 (below)
    <type> <size> <mtime> <device.inode> <start>\0<path below it>     (find)
    =<type>|<size>|<mtime>|<inode>|<path>\n…                          (stat: all in one record)
    P #<hex digits>       bytes of a file
    E <status>            the end of a question; 124: out of time
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cockpit.runtime.ssh import LIMITED, quote
from cockpit.runtime.ssh_session import ASKING

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
