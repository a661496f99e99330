"""What scripts for a host are made of, and two that many readers share: folders, open files."""

from __future__ import annotations

import errno
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.runtime.ssh import ASKING, LIMITED, TIMED_OUT, quote

Record = tuple[list[str], bytes]
"""The words of a mark, and what was printed until the next one."""

_MAGIC: Final = re.compile(r"[*?[]")
_USER: Final = re.compile(r"~[A-Za-z0-9_.-]*")


def new_mark() -> str:
    """Return what tells the marks of one script from all other text."""
    return secrets.token_hex(12)


def marking(mark: str) -> str:
    """Return the lines that define ``mark`` in a script: it prints its words on a line."""
    return f"mark() {{ printf '\\n@{mark} %s\\n' \"$*\"; }}"


def records(out: bytes, mark: str) -> list[Record]:
    """Return the records of an output, wherever in it they stand."""
    found: list[Record] = []
    for record in out.split(f"\n@{mark} ".encode())[1:]:
        head, _, payload = record.partition(b"\n")
        found.append((head.decode("ascii", "replace").split() or [""], payload))
    return found


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


LATE = 2
"""Folders that may take longer: then no other one is looked through any more."""
_APART = """
LC_ALL=C; export LC_ALL; late=0
%(limited)s%(marking)s
apart() {
  if [ $late -ge %(late)d ]; then mark dir "$1"; mark fail timeout; mark done "$1"; return; fi
  limited %(limit)d sh -c "$look" %(asking)s "$@" 2>/dev/null
  [ $? -eq 124 ] && { late=$((late + 1)); mark dir "$1"; mark fail timeout; mark done "$1"; }
}
"""


def looking(one: str, folders: Sequence[str], mark: str, limit: int) -> str:
    """Return the lines to run; ``folders`` are the words that ``one`` takes for each.

    ``limit``: seconds that looking through all of them may take, and through one of them apart.
    """
    marks = marking(mark)
    look = f"{marks}\n{one}"
    head = _APART % {
        "limited": LIMITED, "limit": limit, "late": LATE, "marking": marks, "asking": ASKING
    }  # fmt: skip
    each = "\n".join(f"  apart {words}" for words in folders)
    together = f'limited {limit} sh -c "$look" {ASKING} {" ".join(folders)} 2>/dev/null'
    return f"{head}look={quote(look)}\n{together}\nif [ $? -eq 124 ]; then\n{each}\n:\nfi\n"


def told(out: bytes, mark: str, count: int) -> list[list[Record] | None]:
    """Return what was told of each folder to its end, ``None`` where that broke off.

    Of one that was told twice the latter counts.
    """
    found: dict[str, list[Record]] = {}
    own: list[Record] = []
    for words, payload in records(out, mark):
        if words[0] == "dir":
            own = []
        elif words[0] == "done" and len(words) == 2:
            found[words[1]] = own
        else:
            own.append((words, payload))
    return [found.get(str(number)) for number in range(count)]


def paths_in(payload: bytes) -> list[str]:
    """Return the paths that were printed one after another, each ended by a NUL."""
    return [raw.decode("utf-8", "surrogateescape") for raw in payload.split(b"\0") if raw]


def broken_off() -> OSError:
    """Return what is wrong with a folder of which nothing was told to its end."""
    return OSError(errno.EIO, "its host's answer was cut off")


def failure(word: str, path: str, limit: int) -> OSError:
    """Return why a folder could not be looked through, by the word of ``mark fail``."""
    if word == "timeout":
        return TimeoutError(errno.ETIMEDOUT, f"its file system did not answer within {limit} s")
    if word == "denied":
        return PermissionError(errno.EACCES, "Permission denied", path)
    if word == "nofolder":
        return NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)


PROC: Final = "/proc"
LIMIT: Final = 2
"""Seconds that looking through the open files of a host may take."""
MOST: Final = 1000
"""Open files that are told of one host."""
_NAMED: Final = r"s,^l.w.* -> .*/\([^/]*/[^/]*\)$,\1,p"
"""Takes the file and its folder from a descriptor's link that may be written through."""


def writing(word: str) -> str:
    """Return the lines that tell which open files have ``word`` in their paths.

    ``mark`` and ``limited`` must be defined. Where it takes too long nothing is told.
    """
    look = (
        f"ls -l {PROC}/[0-9]*/fd 2>/dev/null | grep -F -e {quote(word)}"
        f" | sed -n {quote(_NAMED)} | sort -u | head -n {MOST}"
    )
    return f"""
if [ -d {PROC}/self/fd ]; then
  found=$(limited {LIMIT} sh -c {quote(look)} {ASKING} 2>/dev/null)
  [ $? -eq {TIMED_OUT} ] || {{ mark written; printf '%s\\n' "$found"; mark looked; }}
fi
"""


class Written(NamedTuple):
    """The files that processes of a host have open for writing, by the ends of their paths.

    A process may know the same file by another path (a link, a container's mount), so a file is
    known by its name and its folder's. ``None`` where processes cannot be seen.
    """

    ends: frozenset[tuple[str, ...]] | None

    def among(self, paths: Iterable[str]) -> frozenset[str] | None:
        """Return those of ``paths`` that a process may write to."""
        if self.ends is None:
            return None
        return frozenset(path for path in paths if _end(path) in self.ends)


def written_in(out: bytes, mark: str) -> Written:
    """Return what the lines of ``writing`` have told in an output."""
    told = [payload for words, payload in records(out, mark) if words[0] == "written"]
    lines = b"\n".join(told).decode("utf-8", "surrogateescape").splitlines()
    ends = frozenset(_end(line.removesuffix(" (deleted)")) for line in lines if line)
    return Written(ends if told else None)


def _end(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).parts[-2:]
