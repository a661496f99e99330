"""A log on a host without Python: its newest bytes, by one small script.

Nothing else is read there, and nothing is done.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from cockpit.hosts.ranges import PAGE
from cockpit.hosts.script import run_script_blocking
from cockpit.sources.logs.pieces import Answer, Ask, Told, failure, measured
from cockpit.sources.logs.ranged import Span
from cockpit.sources.scripts import is_pattern, word_of

MOST: Final = 1 << 20
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
    last = min(MOST, max(MOST if span.last is None else span.last for span in spans))
    path = word_of(each.path)
    if is_pattern(each.path):
        path = f"$(ls -td -- {path} {word_of(each.path, magic=True)} 2>/dev/null | head -n 1)"
    script = _SCRIPT % {
        "path": path, "page": PAGE, "begin": max(0, min(span.begin for span in spans)),
        "last": last, "end": "$z" if end is None else end,
    }  # fmt: skip
    out = run_script_blocking(host, script, deadline=deadline, cap=2 * MOST).out
    return _told(each, out)


def _told(each: Ask, out: bytes) -> Told:
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
