"""Where the writer of a log goes on after the log has lost its name: renamed, or deleted.

A rotation renames a file, and a writer that does not open it anew goes on in it. Which files
processes write, the kernel tells (Linux' ``/proc``); those of other users are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from cockpit.runtime.ssh import ASKING, LIMITED, quote
from cockpit.sources.scripts import marking, records, word_of

LIMIT: Final = 2
"""Seconds that looking through the open files of a host may take."""
MOST: Final = 5000
ENDING: Final = r"(?:[.-]\d[\dT_.:-]*|\.old|\.bak)"
"""What a rotation puts behind a name."""
DELETED: Final = " (deleted)"
"""How the kernel marks a file that has no name any more."""
_ROTATED: Final = re.compile(ENDING)
_HANDLE: Final = re.compile(r"l.w.*? (\d+) -> (/.*) (/proc/\d+/fd):$")
_HANDLES: Final = r"/^\/proc\/[0-9]*\/fd:$/h; /^l.w.* -> \/dev\//d; /^l.w.* -> \//{G;s/\n/ /;p;}"


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


def script(path: str, mark: str) -> str:
    """Return the lines that tell which files a host's processes write, and where ``path`` leads."""
    folder, name = PurePosixPath(path).parent, PurePosixPath(path).name
    look = f"ls -l /proc/[0-9]*/fd 2>/dev/null | sed -n {quote(_HANDLES)} | head -n {MOST}"
    return f"""LC_ALL=C; export LC_ALL
{LIMITED}{marking(mark)}
[ -d /proc/self/fd ] || exit 0
real=$(limited {LIMIT} sh -c 'cd -P -- "$1" && pwd' {ASKING} {word_of(str(folder))} 2>/dev/null)
mark at; printf '%s/%s' "$real" {quote(name)}
found=$(limited {LIMIT} sh -c {quote(look)} {ASKING} 2>/dev/null) || exit 0
mark written; printf '%s\\n' "$found"; mark end
"""


def told(out: bytes, mark: str) -> str | None:
    """Return by a script's output where the writer goes on."""
    said = {words[0]: payload for words, payload in records(out, mark)}
    path = said.get("at", b"").decode("utf-8", "surrogateescape").strip("\n")
    return goes_on_in(path, dict(_handles(said.get("written", b"")))) if path else None


def _handles(out: bytes) -> Iterator[tuple[str, str]]:
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        if found := _HANDLE.match(line):
            yield found[2], f"{found[3]}/{found[1]}"
