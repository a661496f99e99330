"""What triage reads in log lines: Python tracebacks; and, coarsely, steps and losses."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from cockpit.rules.triage.signs import ECHO, ECHO_NAMES, LIBRARY, WRAPPERS

BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAISED = re.compile(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?"
    r"(?:Error|Exception|Interrupt|Exit|Fault|Failure|Warning|Died|Iteration))"
    r"(?::\s?(?P<text>.*))?$"
)
_PREFIX = re.compile(
    r"^(?:\x1b\[[\d;]*m|\[?(?:rank|default|worker|proc)_?\d+\]?:\s?|\([A-Za-z]\w*[^)]{0,80}\)\s"
    r"|\d+: |[A-Z]\d{8} [\d:.]+ \d+ \S+\s"
    r"|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s)+"
)
_RANK = re.compile(r"(?:rank|worker|proc|default|pid=|ip=)_?\d[\d.]*|^\d+(?=: )")
_STEP = re.compile(
    r"\b(?:global[_ ]?step|iteration|iter|step|steps)\b['\"]?\s*[:=#/]?\s*\[?\s*(\d[\d,]*)(?!\.?\d)"
    r"|\b(\d[\d,]*)(?:it)?\s*/\s*\d[\d,.]*[kM]?(?:it)?\s*\[(?![^\]]{0,200}\?\s?it/s).*(?:it/s|s/it)",
    re.I,
)
_OF_EPOCH = re.compile(r"\W*epochs?\b[^|]{0,40}\d%\|", re.I)
_LOSS = re.compile(
    r"\bloss\b['\"]?\s*[:=]?\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?![\w%])", re.I
)
_EVAL = re.compile(r"\b(val|valid|validation|eval|evaluation|test)\w*[ _/-]*loss\b", re.I)

SIDE = 3
"""Lines that must stand on either side of a jump."""

JUMP = 1.5
"""How much higher the loss must be after it (SPEC C-11)."""

KEPT = 500

LONGEST = 1000
"""Characters of a line in which an exception's name and message are looked for."""

CHAIN = 100
"""Lines within which one exception that was raised from another still follows it."""


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

    ``begin`` is the line (0-based) at which its traceback begins, ``who`` what its launcher
    put before the line: the rank that raised it, where ranks are told apart.
    """

    name: str
    text: str
    at: int
    frames: tuple[Frame, ...]
    begin: int
    who: str = ""

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
    line = ""
    for index, raw in enumerate(lines):
        after_code = index > 0 and line.startswith("    ")
        line = bare(raw)
        if BEGIN in line:
            frames, begin = [], index
        elif frame := _FRAME.match(line):
            begin = index if begin is None else begin
            frames.append(Frame(frame["file"], int(frame["line"])))
        elif (frames or after_code) and (raised := _RAISED.match(line[:LONGEST])):
            name = raised["name"].rpartition(".")[2]
            start = index if begin is None else begin
            who = " ".join(_RANK.findall(raw[: len(raw.rstrip()) - len(line)]))
            found.append(Raised(name, raised["text"] or "", index, tuple(frames), start, who))
            frames, begin = [], None
    return found


def decisive(raised: Sequence[Raised]) -> Raised | None:
    """Return the exception that ended the program: the last one, but for echoes.

    What only reports that another process has failed is no cause, nor is what a process meets
    when another one has gone (a connection that is reset, a collective that breaks). Where
    ranks are told apart, the first one that raised is the cause of the others' troubles.
    """
    real = [each for each in raised if each.name not in WRAPPERS]
    if not real:
        return raised[-1] if raised else None
    own = [each for each in real if not is_echo(each)]
    if not own:
        return real[-1]
    last = own[-1]
    others = [each for each in own if each.who and last.who and each.who != last.who]
    return _end_of_chain(own, others[0]) if others else last


def _end_of_chain(raised: Sequence[Raised], first: Raised) -> Raised:
    """Return the last that the same rank raised in one go: exceptions are raised from others."""
    same = [each for each in raised if each.who == first.who]
    chain = [each for each in same if each.at - first.at <= CHAIN]
    return chain[-1]


def is_echo(raised: Raised) -> bool:
    """Tell whether a process raises this when another process, or its peer, has gone."""
    return raised.name in ECHO_NAMES or ECHO.search(raised.text) is not None


def steps_of(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return (index, step) of every training line; the source that a traceback quotes is none."""
    found = []
    for index, line in enumerate(lines):
        step = _STEP.search(line)
        if step and not _EVAL.search(line) and not _FRAME.match(bare(lines[max(0, index - 1)])):
            found.append((index, int((step[1] or step[2]).replace(",", "")[:18])))
    return found


def counts_an_epoch(line: str) -> bool:
    """Tell whether the step of a training line is a batch of its epoch: ``Epoch 3: 40%|…``."""
    return _OF_EPOCH.match(line) is not None


def newest_step(lines: Sequence[str]) -> int | None:
    """Return the step that the last training line names."""
    for line in reversed(lines):
        found = _STEP.search(line)
        if found and not _EVAL.search(line):
            return int((found[1] or found[2]).replace(",", "")[:18])
    return None


def losses_of(lines: Sequence[str]) -> list[tuple[int, float]]:
    """Return (index, loss) of every line that tells a training loss."""
    return [(index, loss) for index, line in enumerate(lines) if (loss := _loss(line)) is not None]


def losses_leave_trend(lines: Sequence[str]) -> list[int]:
    """Return the indexes of the lines whose loss stays above 1.5 times the earlier median.

    Or of those whose loss is not a number. Empty when the loss behaves.
    """
    seen = losses_of(lines)
    broken = [index for index, loss in seen if not math.isfinite(loss)]
    if broken:
        return broken
    seen = seen[-KEPT:]
    values = [loss for _, loss in seen]
    for cut in range(SIDE, len(values) - SIDE + 1):
        before = median(values[:cut])
        if before > 0 and min(values[cut:]) > JUMP * before:
            return [index for index, _ in seen[cut:]]
    return []


def _loss(line: str) -> float | None:
    found = _LOSS.search(line)
    if found is None or _EVAL.search(line):
        return None
    try:
        return float(found[1])
    except ValueError:
        return None
