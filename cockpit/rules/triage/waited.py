"""How long a job has waited, as its own log tells: a figure, an age, the stamps of its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.standing import stamps_of

PATIENCE: Final = 30 * 60
"""Seconds of waiting after which a person should know (SPEC T, ``capacity_wait``)."""
_SECONDS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART: Final = (
    r"\d+(?:\.\d+)? ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
)
_SPAN: Final = rf"(?P<{{0}}>(?:{_PART},? ?(?:and )?){{{{1,4}}}})"
_TIME: Final = rf"{_SPAN[:-1]}|(?:\d{{{{1,4}}}}-)?\d{{{{1,3}}}}:\d\d:\d\d)"
_BEEN: Final = (
    r"waited|waiting|pending|queued|in (?:the )?queue|elapsed|unschedulable|unscheduled|stuck|still"
    r"|unavailable|held|no (?:capacity|quota|resources)|not (?:ready|scheduled|started|placed)"
)
_TOLD: Final = late_regex(
    rf"\b(?:{_BEEN})\b(?!.{{0,40}}\b(?:every|poll|interval|retry|back-?off|next|eta|estimat\w*"
    r"|expect\w*|start\w* in|time-?out|limit|at most|up to|left|remain\w*|deadline"
    r"|wall ?time|request\w*|duration)\b"
    r"|[^\d]{0,40}\b(?:since|at|from|until|by)\b)"
    rf"[^\d|]{{0,40}}{_TIME.format('been')}(?! ?(?:timeout|limit|remain|left|until|more))"
    rf"|\b{_SPAN.format('since')} ?(?:ago\b|since (?:creat|submi|request|queu)\w*"
    r"|in (?:the )?queue\b|(?:\w+ )?(?:waiting|pending|queued)\b)"
    rf"|\bqueue[ _]?time\W{{1,3}}{_TIME.format('queue')}"
    rf"|\(x\d+ over {_TIME.format('over')}\)"
    rf"|\(autoscaler \+{_TIME.format('scaler')}\) (?:Failed|Error|Warning)"
    rf"|\bPending\s+\d+\s+{_TIME.format('age')}(?:\s|$)",
    re.I,
)
"""Kubernetes' events tell how long they came, Ray's autoscaler counts from its start."""
_FIGURE: Final = late_regex(r"(\d+(?:\.\d+)?) ?([dhms])", re.I)


def waited_long(log: Log, waiting: Sequence[int]) -> list[int]:
    """Return the lines by which a job has waited for longer than ``PATIENCE``.

    ``waiting`` are the lines (0-based) that say that it waits. Figures of one line are told
    by that line alone; stamps are held against each other where they are of one look.
    """
    told = [i for i in log.matching(_TOLD) if _longest(log.lines[i]) >= PATIENCE]
    if told:
        return told
    first: dict[str, tuple[int, float]] = {}
    known = frozenset(waiting)
    for stamp in stamps_of(log, min(waiting, default=len(log.lines))):
        if stamp.line in known:
            line, at = first.setdefault(stamp.form, (stamp.line, stamp.at))
            if stamp.at - at >= PATIENCE:
                return [line, stamp.line]
    return []


def _longest(line: str) -> float:
    times = (text for found in _TOLD.finditer(line) for text in found.groups() if text)
    return max(map(_seconds, times), default=0.0)


def _seconds(text: str) -> float:
    if ":" in text:
        days, _, clock = text.rpartition("-")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        return 86400.0 * int(days or 0) + 3600 * hours + 60 * minutes + seconds
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _FIGURE.findall(text))
