"""What triage reads in log lines, coarsely: steps, losses, and what else proves progress."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from itertools import islice
from statistics import median
from typing import NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.prefixes import bare

_QUOTED = late_regex(r'^\s*File "[^"]+", line \d+')
# Every repetition is bounded: a line of figures alone costs no more than its length.
_STEP = late_regex(
    r"\b(?:global[_ ]?step|iteration|iter|step|steps|num_updates|(?<=\[)batch(?==))\b"
    r"['\"]?\s*[:=#/]?\s*[\[\"']?\s*"
    r"(\d[\d,]{0,20})(?!\.?\d|\.(?:batch|extern|interactive)\b)"  # Slurm's steps are none
    r"|\b(\d[\d,]{0,20})(?:it)?\s*/\s*\d[\d,.]{0,20}[kM]?(?:it)?\s*\["
    r"(?![^\]]{0,200}\?\s?it/s).{0,400}?"
    r"(?:it/s|s/it)",
    re.I,
)
_SETTING = late_regex(
    r"(?:--[\w-]{0,80}|\b(?:(?:max|maximum|total|num|number of|warm[ -]?up|accumulation|decay)[ -]"
    r"(?:[a-z]+[ -])?|(?:save|saving|log|logging|eval|evaluation|per|every)[ -]))$",
    re.I,
)
"""What stands before steps that nobody has taken: ``Total optimization steps = 12,000``."""
_RESUMED = late_regex(
    r"\b(?:load|restor|resum|restart|continu|start|pick)(?:s|ed|ing)?\b[^|]{0,100}$", re.I
)
"""What stands before a step that an earlier start has reached."""
_BEFORE = 100
_LOSS = late_regex(
    r"(?:\b|(?<=\w_))(?P<loss>loss)(?:_step|_epoch)?\b['\"]?\s*(?P<is>[:=])?\s*(?:(?:tensor|array)\()?"
    r"\[?['\"]?(?P<value>[-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?![\w%])",
    re.I,
)
_WHOLE = late_regex(r"(?:\b|[_/])(?:train(?:ing)?|total|lm|clm|mlm|nll|ce|cross_entropy)_$", re.I)
"""By such a name it is the loss of all of training; that of a part tells only that it moves."""
_COUNTED = late_regex(r"\d\s?/\s?\d|\b(?:updates?|episodes?|epochs?|batch|rollouts?)\b", re.I)
"""What stands beside it where it was measured: ``z_loss: 0.001`` alone is a setting."""
_NORM = late_regex(
    r"\bgrad\w*[ _]?norm\b['\"]?\s*[:=]?\s*['\"]?([-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d+)?|nan"
    r"|inf(?:inity)?))(?![\w%])",
    re.I,
)
_SCALE = late_regex(
    r"\bloss.?scale\b.{0,40}\breducing (?:it )?to (\d[\d.]{0,20}(?:e[-+]?\d{1,3})?)(?!\w)", re.I
)
_PART = late_regex(r"['\"]?\bepochs?\b['\"]?\s{0,3}[:=\[]?\s{0,3}(\d+(?:\.\d+)?)", re.I)
_COUNT = late_regex(r"\bprogress on:\s?\w{1,40} (\d[\d.,]{0,20}[kM]?)it/", re.I)
"""How far Levanter's line says that it is, rounded."""
_BAR = late_regex(r"\b(\d[\d.,]{0,20}[kMGT]?)B?/\d[\d.,]{0,20}[kMGT]?B?\s*\[[\d:]+<")
_EVAL = late_regex(r"\b(val|valid|validation|eval|evaluation|test)\w*[ _/-]*loss\b", re.I)
_OTHERS = late_regex(
    r"((\b|_)(val|valid|validation|eval|evaluation|test|dev|held_?out)\w*(/\w{1,40})?[ _/-]*"
    r"|\b(val|valid|validation|eval|evaluation|test set)\b([\s:|\[\]()/\d-]|step|epoch"
    r"|iter(ation)?|batch|average|avg|mean|results?|metrics?){1,30}"
    r"|\b(best|lowest|min(imum)?|prev(ious)?|target)[ _](\w{1,20}[ _]){0,2})$",
    re.I,
)
"""What stands before a loss that is not of training: an evaluation's, the best (from infinity)."""
_OTHER = ("val", "test", "dev", "held", "best", "lowest", "min", "prev", "target")
"""One of these stands there, then: to look for a word is far cheaper."""
_SUMMED_UP = late_regex(r"\b(final|last)[ _](\w{1,20}[ _]){0,2}$", re.I)
"""What stands before one that a program tells of all its training: nothing moves by it."""
_OF_NAMES = f"{string.ascii_letters}{string.digits}_/"

SIDE = 3
"""Lines that must stand on either side of a jump."""

JUMP = 1.5
"""How much higher the loss must be after it (SPEC C-11)."""

KEPT = 500


def steps_of(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return (index, step) of every training line; the source that a traceback quotes is none."""
    found = []
    for index, line in enumerate(lines):
        step = _step(line)
        if step and not _EVAL.search(line) and not _QUOTED.match(bare(lines[max(0, index - 1)])):
            found.append((index, int((step[1] or step[2]).replace(",", "")[:18])))
    return found


def _step(line: str) -> re.Match[str] | None:
    """Return where a line tells of a step that was taken."""
    for found in _STEP.finditer(line):
        before = line[max(0, found.start() - _BEFORE) : found.start()]
        if not _SETTING.search(before) and not _RESUMED.search(before):
            return found
    return None


def marks_of(lines: Sequence[str], steps: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """Return (index, mark) of every line that shows training at work: its step, else how far.

    Lines without a step that tell a loss count by their epoch, as Hugging Face's do, else by
    the loss.
    """
    known = dict(steps)
    found = []
    for index, line in enumerate(lines):
        if index in known:
            found.append((index, str(known[index])))
        elif loss := _measured(line):
            part, count = _PART.search(line), _COUNT.search(line)
            far = f"epoch {part[1]}" if part else f"loss {loss}"
            found.append((index, f"{count[1]} {far}" if count else far))
    return found


def bars_of(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (index, count) of every state of a progress bar, whatever it counts."""
    return [(index, bar[1]) for index, line in enumerate(lines) if (bar := _BAR.search(line))]


def norms_lost(lines: Sequence[str]) -> list[int]:
    """Return the last lines whose gradient norm is no number, if the last ``SIDE`` of them are."""
    norms = [(index, norm[1]) for index, line in enumerate(lines) if (norm := _NORM.search(line))]
    lost: list[int] = []
    for index, text in reversed(norms):
        if text[-1].isdigit() or text[-1] == ".":
            break
        lost.insert(0, index)
    return lost if len(lost) >= SIDE else []


def scales_spent(lines: Sequence[str]) -> list[int]:
    """Return the last lines whose loss scale falls to 1 or below, if there are ``SIDE`` of them."""
    scales = [
        (index, scale[1]) for index, line in enumerate(lines) if (scale := _SCALE.search(line))
    ]
    spent: list[int] = []
    for index, text in reversed(scales):
        if float(text) > 1:
            break
        spent.insert(0, index)
    return spent if len(spent) >= SIDE else []


def losses_of(lines: Sequence[str]) -> list[tuple[int, float]]:
    """Return (index, loss) of every line that tells a training loss, of all of it or of a part.

    Of several, one that is no number: the others soon are none. A part that never was one is not
    in use.
    """
    found, known = [], {""}
    for index, line in enumerate(lines):
        told = _told(line)
        finite = [each for each in told if math.isfinite(each.loss)]
        lost = [each for each in told if not math.isfinite(each.loss) and each.part in known]
        known.update(each.part for each in finite)
        found += [(index, each.loss) for each in [*lost, *finite][:1]]
    return found


def tells_loss(line: str) -> bool:
    """Tell whether a line tells a loss of training, a number or not."""
    return bool(_told(line))


def left_trend(lines: Sequence[str]) -> list[int]:
    """Return the last lines whose losses all stay above 1.5 times the median before.

    What is no number counts for nothing, nor does the loss of a part. The newest ``KEPT`` count.
    """
    whole = ((index, _whole(lines[index])) for index in reversed(range(len(lines))))
    told = ((index, loss) for index, loss in whole if loss is not None)
    seen = list(islice(told, KEPT))[::-1]
    values = [loss for _, loss in seen]
    for cut in range(SIDE, len(values) - SIDE + 1):
        before = median(values[:cut])
        if before > 0 and min(values[cut:]) > JUMP * before:
            return [index for index, _ in seen[cut:]]
    return []


def _whole(line: str) -> float | None:
    """Return the first finite loss in a line that is of all of training."""
    told = (each.loss for each in _told(line) if not each.part)
    return next(filter(math.isfinite, told), None)


def _measured(line: str) -> str | None:
    """Return a line's first loss that shows training at work, not what it came to at last."""
    told = [each for each in _told(line) if not _SUMMED_UP.search(each.before)]
    counted = told and any(each.named for each in told) and _COUNTED.search(line) is not None
    return next((each.text for each in told if counted or not each.named), None)


class _Told(NamedTuple):
    """A loss of training and the text before it; ``part`` is the name of what it is a part of.

    ``named``: more than ``loss`` is its name.
    """

    loss: float
    text: str
    before: str
    named: bool
    part: str


def _told(line: str) -> list[_Told]:
    """Return a line's losses of training: no evaluation's, and not the best one.

    Keras tells both in one line: ``loss: 2.1 - val_loss: 2.2``.
    """
    found = []
    for each in _LOSS.finditer(line):
        before = line[max(0, each.start() - _BEFORE) : each.start()]
        named = before.endswith("_") or line[each.end("loss")] == "_"
        loss = _number(each["value"])
        if loss is not None and (each["is"] or not named) and not _is_others(before):
            found.append(_Told(loss, each["value"], before, named, _part(before)))
    return found


def _part(before: str) -> str:
    """Return the name of a part by what stands before its loss; none if it is all of training."""
    if not before.endswith("_") or _WHOLE.search(before):
        return ""
    return before[len(before.rstrip(_OF_NAMES)) :]


def _is_others(before: str) -> bool:
    low = before.lower()
    return any(word in low for word in _OTHER) and _OTHERS.search(before) is not None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
