"""The invisible line by which a post is known again: which event it tells, and who posted it.

``<!-- cockpit:<event> <sender> -->`` is the last line of every post. The event's digest is the
same on every machine, so that nobody posts an event twice; the sender's tells which of two
posts is one's own, so that of a race only one stays.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub

ROBOT: Final = "🤖"
LONGEST: Final = 60_000
"""Characters of a body; GitHub takes 65,536 with everything."""
_MARKER: Final = re.compile(r"<!-- cockpit:([0-9a-f]{16}) ([0-9a-f]{8}) -->")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CUT: Final = "… cut here; the whole of it is in the logbook"


class Marker(NamedTuple):
    """Which event, and whose post of it."""

    event: str
    sender: str

    @property
    def line(self) -> str:
        """The line that is posted."""
        return f"<!-- cockpit:{self.event} {self.sender} -->"


def event_digest(run: str, event: str) -> str:
    """Return an event's identity: 16 hexadecimal digits, the same everywhere."""
    return hashlib.sha256(f"{run}\n{event}".encode()).hexdigest()[:16]


def sender_digest(*parts: str) -> str:
    """Return a sender's identity: 8 hexadecimal digits that tell nothing about it."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def marker_of(body: str) -> Marker | None:
    """Return the marker of a post: its last line, never one that is quoted or inside."""
    lines = body.rstrip().splitlines()
    found = _MARKER.fullmatch(lines[-1]) if lines else None
    return None if found is None else Marker(found.group(1), found.group(2))


def same_text(one: str, other: str) -> bool:
    """Tell whether two posts are the same, whatever their line breaks."""
    return one.split() == other.split()


def post_text(body: str, marker: Marker, *, exact: bool = False) -> str:
    """Return exactly what is posted: safe, masked, 🤖 first unless ``exact``, the marker last.

    ``exact`` words were approved by a person: only secrets and control characters leave them.
    """
    plain = scrub(_exactly(body) if exact else _safe(body)).strip()
    if not exact and not plain.startswith(ROBOT):
        plain = f"{ROBOT} {plain}".strip()
    return f"{_closed(_short(plain))}\n\n{marker.line}"


def _exactly(body: str) -> str:
    return _CONTROL.sub("", body.replace("\r\n", "\n"))


def _safe(body: str) -> str:
    return "\n".join(line.plain for line in safe_lines(body))


def _short(body: str) -> str:
    if len(body) <= LONGEST:
        return body
    kept = body[:LONGEST].rpartition("\n")[0] or body[:LONGEST]
    return f"{_closed(kept)}\n\n{_CUT}"


def _closed(body: str) -> str:
    """Return ``body`` with a code fence that was left open closed: what follows is no code."""
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark is None:
            continue
        if not fence:
            fence = mark.group(1)
        elif mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
    return f"{body}\n{fence}" if fence else body
