"""The level that a log line tells of itself: a warning, an error, or anything less."""

from __future__ import annotations

import re
from typing import Final, Literal

Level = Literal["", "I", "W", "E"]
"""Nothing told, or information, a warning, an error (and worse)."""
HEAD: Final = 120
"""Characters of a line in which its level is looked for."""
_GLOG: Final = re.compile(r"\W{0,4}(?:\[?rank ?\d+\]?:? ?)?([DIWEFC])\d{4}(?:\d{4})? +\d\d:\d\d")
_WORD: Final = re.compile(
    r"(?<![\w.])(?P<upper>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)(?![\w=.])"
    r"|level(?:name)?[\"']?[=:] ?[\"']?(?P<field>[A-Za-z]+)"
    r"|(?:^|[\[< ])(?P<lower>info|warning|error|fatal|critical)(?:[\]>]|: )"
)
_RAISED: Final = re.compile(
    r"(?:^|[\s:|\]])(?:\w+\.){0,8}(?P<name>\w{0,60}(?:Error|Exception|Interrupt|Warning))(?::|$)"
)
_STACK: Final = ("Traceback (most recent call last)", "During handling of the above exception",
                 "The above exception was the direct cause")  # fmt: skip


def level_of(line: str) -> Level:
    """Return the level that a line tells of itself; of a traceback's first and last line, error."""
    head = line[:HEAD]
    found = _GLOG.match(head)
    if found is not None:
        return _letter(found[1])
    word = _WORD.search(head)
    if word is not None:
        return _letter((word["upper"] or word["field"] or word["lower"]).upper())
    if any(each in head for each in _STACK):
        return "E"
    raised = _RAISED.search(head)
    if raised is None:
        return ""
    return "W" if raised["name"].endswith("Warning") else "E"


def _letter(word: str) -> Level:
    if word.startswith("W"):
        return "W"
    return "E" if word.startswith(("E", "F", "C")) else "I"


class Levels:
    """The level of each of many lines, in their order: a traceback is one thing."""

    def __init__(self) -> None:
        self._level: Level = ""
        self._stack = False

    def next(self, line: str) -> Level:
        """Return the level of the next line; what is indented below one belongs to it."""
        inside = not line.strip() or line[0] in " \t|"
        if inside and self._level in ("W", "E"):
            return self._level
        own = level_of(line)
        self._level = "E" if self._stack and own == "" and not inside else own
        self._stack = any(each in line for each in _STACK)
        return self._level

    @property
    def pending(self) -> bool:
        """Whether the next line may belong to the one before."""
        return self._stack or self._level in ("W", "E")
