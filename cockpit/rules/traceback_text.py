"""Python tracebacks as they stand in a log: where they begin, what was raised, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cockpit.rules.triage_signs import LIBRARY, WRAPPERS

BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAISED = re.compile(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?"
    r"(?:Error|Exception|Interrupt|Exit|Fault|Failure|Warning|Died|Iteration))"
    r"(?::\s?(?P<text>.*))?$"
)
_PREFIX = re.compile(
    r"^(?:\x1b\[[\d;]*m|\[?(?:rank|default|worker|proc)_?\d+\]?:\s?|\([A-Za-z]\w*[^)]{0,80}\)\s"
    r"|\d+: |[A-Z]\d{8} [\d:.]+ \d+ \S+\s)+"
)


class Frame(NamedTuple):
    """One ``File "…", line …`` of a traceback."""

    file: str
    line: int

    @property
    def own(self) -> bool:
        """True when the file belongs to no installed library."""
        return LIBRARY.search(self.file) is None


class Raised(NamedTuple):
    """One exception: its short name, message, line (``at``, 0-based) and frames.

    ``begin`` is the line (0-based) at which its traceback begins.
    """

    name: str
    text: str
    at: int
    frames: tuple[Frame, ...]
    begin: int

    @property
    def place(self) -> Frame | None:
        """Return the innermost frame of one's own code, else the innermost of all."""
        own = [frame for frame in self.frames if frame.own]
        return own[-1] if own else (self.frames[-1] if self.frames else None)


def bare(line: str) -> str:
    """Return ``line`` without what a launcher puts before it (``[rank0]: ``, ``(raylet) ``)."""
    return _PREFIX.sub("", line.rstrip())


def exceptions(lines: Sequence[str]) -> list[Raised]:
    """Return the exceptions with a traceback in ``lines``, in the order in which they stand.

    A message without frames before it counts too when the excerpt begins inside a traceback.
    """
    found: list[Raised] = []
    frames: list[Frame] = []
    begin: int | None = None
    for index, raw in enumerate(lines):
        line = bare(raw)
        if BEGIN in line:
            frames, begin = [], index
        elif frame := _FRAME.match(line):
            begin = index if begin is None else begin
            frames.append(Frame(frame["file"], int(frame["line"])))
        elif (raised := _RAISED.match(line)) and (frames or _after_code(lines, index)):
            name = raised["name"].rpartition(".")[2]
            start = index if begin is None else begin
            found.append(Raised(name, raised["text"] or "", index, tuple(frames), start))
            frames, begin = [], None
    return found


def _after_code(lines: Sequence[str], index: int) -> bool:
    return index > 0 and bare(lines[index - 1]).startswith("    ")


def decisive(raised: Sequence[Raised]) -> Raised | None:
    """Return the exception that ended the program: the last that reports no other one."""
    real = [each for each in raised if each.name not in WRAPPERS]
    return real[-1] if real else (raised[-1] if raised else None)
