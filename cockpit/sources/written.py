"""Which files of a host a process has open for writing: a part of a script, and its answer.

The kernel's own words (Linux' ``/proc``); the files of other users' processes are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.runtime.ssh import TIMED_OUT, quote
from cockpit.runtime.ssh_session import ASKING
from cockpit.sources.scripts import records

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
