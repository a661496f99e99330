"""Many folders of a host looked through by one script, and what it tells of each.

All by one shell with one time limit; where that runs out, each by its own, so that a dead mount
does not cost the others their answer. What is looked for is a function ``one`` of the caller's, in
POSIX ``sh``: it begins with ``mark dir NUMBER`` and says why not by ``mark fail WORD``.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from cockpit.runtime.ssh import LIMITED, quote
from cockpit.runtime.ssh_session import ASKING
from cockpit.sources.scripts import Record, marking, records

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
