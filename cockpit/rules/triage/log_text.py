"""Log lines read coarsely: steps, losses and other proof of progress; reports of the end."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import LogLine
from cockpit.rules.triage.literals import in_small_letters

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")

_STAMP: Final = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[:,]?",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?",
    r"\[?(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?\]?:?",
    r"\d{10}(?:\.\d+)?",
    r"\[ *\d+\.\d+\]",
)
"""ISO 8601, a time of day, syslog's and ``ts``'s, seconds since the epoch, the kernel's."""
_PARTS: Final = (
    *(rf"{stamp}(?:\s|$)" for stamp in _STAMP),
    r"\x1b\[[\d;]*m",
    r"\[?(?:rank|default|worker|proc|node|task|host)[ _-]?\d+\]?:\s?",  # torchrun, pdsh
    r"\([A-Za-z][^()]{0,80}\)\s",  # (TrainWorker pid=81, ip=10.0.0.1): Ray, SkyPilot
    r"\d+: ",  # srun --label
    r"[IWEFDC]\d{4,8} [\d:.]+\s+\d+ \S+?\]?\s",  # glog: E0603 11:06:43.94 140213 train.py:88]
    r"std(?:out|err) [FP]\s",  # the container runtime interface
    r"(?:[\w.-]+ )?[\w./@-]+\[\d+\]:\s",  # journald: gpu-7 python[4411]:
    r"[a-z][\w.-]*-\d+\s+\|\s",  # docker compose
    r"(?![\w.]*(?:Error|Exception|Interrupt|Exit)\b)[a-z][\w.]*[\d-][\w.-]*:\s",  # a host's name
    r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b\]?[ :"
    r"|]*(?:[\w.<>]+:[\w.<>]+:\d+ )?(?:- )?",
    r"\[[^\]\n]{1,80}\]:?\s",  # [pod/x/y], [task 3], [default0]
    r"[-|+] ",
    r"[A-Za-z][\w.-]{0,80}(?<!Error)(?<!Exception): "  # a program's name
    r"(?=(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b)",
    r"\{(?:[^{}]{0,400}[\s,{])?[\"'](?:message|msg|log|error|event|text\w*|exc_info|exception)[\"']"
    r"\s*:\s*[\"']",  # a record as JSON
    r"(?:[\w.]+=\S+ )*msg=\"",  # logfmt
    r"ErrorMessage ['\"]",  # a container's toolkit that quotes its program
)
_PREFIX: Final = late_regex(f"^(?:{'|'.join(_PARTS)})+")
RANK: Final = late_regex(
    r"(?:rank|worker|proc|default|task|node|host|pid=|ip=)[ _-]?\d[\d.]*|^\d+(?=: )"
)
"""Such as ``rank 3``."""


def bare(line: str) -> str:
    """Return ``line`` without what a launcher or a logger puts before it (``[rank0]: ``)."""
    return _PREFIX.sub("", line.rstrip())


_QUOTED = late_regex(r'^\s*File "[^"]+", line \d+')
"""Such as ``  File "train.py", line 12``."""
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
"""Such as ``global_step=4600``."""
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
    r"(?:\b|(?<=\w_))(?P<loss>loss)(?:_step|_epoch|(?P<path>/[\w/]{1,40}))?\b['\"]?"
    r"\s*(?P<is>[:=])?\s*(?:(?:tensor|array)\()?"
    r"\[?['\"]?(?P<value>[-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?!\.?[\w%])",
    re.I,
)
"""Such as ``train_loss: 2.31``; a share (``packet loss 1.5%``) is none."""
_WHOLE = late_regex(
    r"(?:\b|[_/])(?:train(?:ing)?|total|lm|clm|mlm|nll|ce|cross_entropy|av[gr]|average|mean)_$",
    re.I,
)
"""By such a name it is the loss of all of training; that of a part tells only that it moves."""
_COUNTED = late_regex(r"\d\s?/\s?\d|\b(?:updates?|episodes?|epochs?|batch|rollouts?)\b", re.I)
"""What stands beside it where it was measured: ``z_loss: 0.001`` alone is a setting."""
_NORM = late_regex(
    r"\bgrad\w*[ _]?norm\b['\"]?\s*[:=]?\s*['\"]?([-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d+)?|nan"
    r"|inf(?:inity)?))(?![\w%])",
    re.I,
)
"""Such as ``grad_norm=0.87``."""
_SCALE = late_regex(
    r"\bloss.?scale\b.{0,40}\breducing (?:it )?to (\d[\d.]{0,20}(?:e[-+]?\d{1,3})?)(?!\w)", re.I
)
"""A loss scaler at an overflow: ``loss scale: reducing to 32768.0``."""
_PART = late_regex(r"['\"]?\bepochs?\b['\"]?\s{0,3}[:=\[]?\s{0,3}(\d+(?:\.\d+)?)", re.I)
"""Such as ``Epoch: 3.5``."""
_COUNT = late_regex(r"\bprogress on:\s?\w{1,40} (\d[\d.,]{0,20}[kM]?)it/", re.I)
"""How far Levanter's line says that it is, rounded."""
_BAR = late_regex(
    r"\b(\d[\d.,]{0,20}[kMGT]?)(?:B?/\d[\d.,]{0,20}[kMGT]?B?\s*\[[\d:]+<|it \[[\d:]{2,12}, *\d)"
)
"""The count of a progress bar, also of one that knows no total: ``4600/5155 [12:03<``."""
_EVALUATED = late_regex(r"\bstep\W{0,3}(\d{1,12})/\d{1,12}\b[^|]{0,3}\bval_loss\b", re.I)
"""An evaluation on the way: ``step:2250/3175 val_loss:3.4``."""
_EVALUATES = late_regex(r"/(?:val|valid|eval|test|dev)", re.I)
"""A part of a loss's path: ``loss/eval/total``."""
_ALL = late_regex(r"/(?:train|training|total|avg|mean|/){1,5}", re.I)
"""A path to the loss of all of training: ``loss/train/total``."""
_EVAL = late_regex(r"\b(val|valid|validation|eval|evaluation|test)\w*[ _/-]*loss\b", re.I)
"""An evaluation's loss, which is not training's: ``val_loss: 2.4``."""
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
_FIGURES: Final = str.maketrans("123456789", "000000000")
"""Lines that differ in these alone say the same at the same places, and are looked at once."""
ALIKE: Final = 4096
"""Lines that are remembered so."""
REMEMBERED: Final = 1000
"""Characters of a line from which on it is not remembered: few of these are alike."""

SIDE = 3
"""Lines that must stand on either side of a jump."""

JUMP = 1.5
"""How much higher the loss must be after it (SPEC C-11)."""

NO_WORK: Final[Mapping[int, str]] = MappingProxyType({})

KEPT = 500
"""Losses that are remembered of a log."""


def steps_of(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return (index, step) of every training line; source quoted in a traceback does not count."""
    found = []
    for index, line in enumerate(lines):
        at = _alike(_step_at, line)
        if at is not None and not _is_quoted(lines[max(0, index - 1)]):
            found.append((index, int(line[slice(*at)].replace(",", "")[:18])))
    return found


def _alike(look: _lru_cache_wrapper[T], line: str) -> T:
    """Look at a line, once for all that differ from it in their figures alone."""
    once = look if len(line) < REMEMBERED else look.__wrapped__
    return once(line.translate(_FIGURES))


@lru_cache(ALIKE)
def _step_at(line: str) -> tuple[int, int] | None:
    """Return where a line tells the step that was taken."""
    for found in _STEP.finditer(line):
        before = line[max(0, found.start() - _BEFORE) : found.start()]
        if not _SETTING.search(before) and not _RESUMED.search(before):
            return None if _EVAL.search(line) else found.span(1 if found[1] else 2)
    return None


def _is_quoted(before: str) -> bool:
    """Tell by the line before it whether a line is source in a traceback."""
    return 'File "' in before and _QUOTED.match(bare(before)) is not None


def marks_of(
    lines: Sequence[str], steps: Sequence[tuple[int, int]], work: Mapping[int, str] = NO_WORK
) -> list[tuple[int, str]]:
    """Return (index, mark) of every line that shows training at work: its step, else how far.

    Lines without a step that tell a loss count by their epoch, as Hugging Face's do, else by
    the loss. ``work`` has the lines that the reader of progress understands, and how far.
    """
    known = dict(steps)
    found = []
    for index, line in enumerate(lines):
        if index in known:
            found.append((index, str(known[index])))
        elif index in work:
            found.append((index, work[index]))
        elif loss := _measured(line):
            part, count = _PART.search(line), _COUNT.search(line)
            far = f"epoch {part[1]}" if part else f"loss {loss}"
            found.append((index, f"{count[1]} {far}" if count else far))
    return found


def bars_of(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (index, count) of every state of a progress bar, whatever it counts.

    And of every evaluation that tells at which step it is: a trainer may log nothing else.
    """
    return [
        (index, bar[1])
        for index, line in enumerate(lines)
        if (("<" in line or "it [" in line) and (bar := _BAR.search(line)))
        or ("loss" in line and (bar := _EVALUATED.search(line)))
    ]


def norms_lost(lines: Sequence[str]) -> list[int]:
    """Return the last lines whose gradient norm is no number, if the last ``SIDE`` of them are."""
    lost: list[int] = []
    for index, text in _from_the_end(_NORM, "norm", lines):
        if text[-1].isdigit() or text[-1] == ".":
            break
        lost.insert(0, index)
    return lost if len(lost) >= SIDE else []


def scales_spent(lines: Sequence[str]) -> list[int]:
    """Return the last lines whose loss scale falls to 1 or below, if there are ``SIDE`` of them."""
    spent: list[int] = []
    for index, text in _from_the_end(_SCALE, "loss", lines):
        if float(text) > 1:
            break
        spent.insert(0, index)
    return spent if len(spent) >= SIDE else []


def _from_the_end(
    pattern: re.Pattern[str], word: str, lines: Sequence[str]
) -> Iterator[tuple[int, str]]:
    """Yield the index and the figure of each line that matches, the last one first."""
    for index in range(len(lines) - 1, -1, -1):
        if word in in_small_letters(lines[index]) and (found := pattern.search(lines[index])):
            yield index, found[1]


def losses_of(lines: Sequence[str]) -> list[tuple[int, float]]:
    """Return (index, loss) of every line that tells a training loss, of all of it or of a part.

    Of several, one that is no number: the others soon are none. A part that never was one is not
    in use.
    """
    found, known = [], {""}
    for index, line in enumerate(lines):
        told = _losses_in(line)
        finite = [each for each in told if math.isfinite(each.loss)]
        lost = [each for each in told if not math.isfinite(each.loss) and each.part in known]
        known.update(each.part for each in finite)
        found += [(index, each.loss) for each in [*lost, *finite][:1]]
    return found


def losses_read(lines: Sequence[str], work: Mapping[int, str]) -> Iterator[tuple[int, float]]:
    """Yield (index, loss) of lines of progress whose loss has another name: ``xent: 9.13``."""
    for index, far in work.items():
        loss = far.rpartition(" ")[2]
        if loss != "None" and "loss" not in in_small_letters(lines[index]):
            yield index, float(loss)


def tells_loss(line: str) -> bool:
    """Tell whether a line tells a loss of training, a number or not."""
    return bool(_losses_in(line))


def left_trend(lines: Sequence[str], steps: Sequence[tuple[int, int]]) -> list[int]:
    """Return the last lines whose losses all stay above 1.5 times the median before.

    What is no number counts for nothing, nor does the loss of a part. The newest ``KEPT`` count.
    ``steps`` are the (index, step) of the lines that have one.
    """
    whole = ((index, _finite_loss(lines[index])) for index in reversed(range(len(lines))))
    told = ((index, loss) for index, loss in whole if loss is not None)
    seen = list(islice(told, KEPT))[::-1]
    seen = seen[_begun(lines, [index for index, _ in seen], dict(steps)) :]
    values = [loss for _, loss in seen]
    for cut in range(SIDE, len(values) - SIDE + 1):
        before = median(values[:cut])
        if before > 0 and min(values[cut:]) > JUMP * before:
            return [index for index, _ in seen[cut:]]
    return []


def _begun(lines: Sequence[str], told: Sequence[int], steps: Mapping[int, int]) -> int:
    """Return from which of the lines ``told`` on another training counts its first epoch.

    Where the step goes on, an inner count has begun again: of the epochs over one rollout.
    """
    parts = [_PART.search(lines[index]) for index in told]
    epochs = [float(part[1]) if part else math.inf for part in parts]
    reached = [steps.get(index) for index in told]
    anew = 0
    for at, (one, other) in enumerate(pairwise(epochs), 1):
        before, now = reached[at - 1], reached[at]
        goes_on = before is not None and now is not None and now > before
        if other <= _FIRST < one < math.inf and not goes_on:
            anew = at
    return anew


_FIRST: Final = 1.0
"""The last number that the first epoch has, whether counted from 0 or from 1."""


def _finite_loss(line: str) -> float | None:
    """Return the first finite loss in a line that is of all of training."""
    told = (each.loss for each in _losses_in(line) if not each.part)
    return next(filter(math.isfinite, told), None)


def _measured(line: str) -> str | None:
    """Return a line's first loss that shows training at work, not what it came to at last."""
    told = [each for each in _losses_in(line) if not each.is_last]
    counted = told and any(each.named for each in told) and _COUNTED.search(line) is not None
    return next((each.text for each in told if counted or not each.named), None)


class _Loss(NamedTuple):
    """A loss of training; ``part`` is the name of what it is a part of.

    ``named``: more than ``loss`` is its name. ``is_last``: it is what all training came to.
    """

    loss: float
    text: str
    named: bool
    part: str
    is_last: bool


class _LossAt(NamedTuple):
    """Where a loss and the name of its part stand in a line."""

    value: slice
    part: slice
    named: bool
    is_last: bool


def _losses_in(line: str) -> list[_Loss]:
    """Return a line's losses of training: no evaluation's, and not the best one.

    Keras tells both in one line: ``loss: 2.1 - val_loss: 2.2``.
    """
    if "loss" not in in_small_letters(line):
        return []
    found = []
    for at in _alike(_losses_at, line):
        loss = _number(line[at.value])
        if loss is not None:
            found.append(_Loss(loss, line[at.value], at.named, line[at.part], at.is_last))
    return found


@lru_cache(ALIKE)
def _losses_at(line: str) -> Sequence[_LossAt]:
    found = []
    for each in _LOSS.finditer(line):
        begin = each.start()
        before = line[max(0, begin - _BEFORE) : begin]
        path = each["path"] or ""
        named = before.endswith("_") or line[each.end("loss")] in "_/"
        if (each["is"] or not named) and not _is_others(before) and not _EVALUATES.search(path):
            part = slice(begin - len(_part(before)), begin)
            part = slice(*each.span("path")) if path and not _ALL.fullmatch(path) else part
            is_last = _SUMMED_UP.search(before) is not None
            found.append(_LossAt(slice(*each.span("value")), part, named, is_last))
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


LONGEST: Final = 100
"""Lines of a report: the script that was submitted is quoted in it."""
WIDEST: Final = 160
"""Characters of a heading."""
_ENDS: Final = "The output (if any) follows:"
_BEGINS: Final = "Sender: LSF System"
_TELLS: Final = late_regex(r"^(?:Sender: LSF System|Resource usage summary:)")
"""A report that the scheduler appends to a log: ``Sender: LSF System``."""
_LOG: Final = r"(?:logs?|tail|stdout|stderr|output|[\w.-]{1,60}\.(?:log|out|err))"
_WORDS: Final = r"[\w./ :()+,-]{0,60}?"
_HEADING: Final = late_regex(
    rf"^\s{{0,8}}[-=#*~>]{{2,80}} ?{_WORDS}\b{_LOG}\b{_WORDS}[-=#*~<]{{0,80}}\s*$"
    rf"|^\W{{0,4}}(?:[\w./-]{{1,40}} ){{0,5}}{_LOG}(?: (?:lines?|tail|output))?"
    r"(?: ?\([^()]{0,40}\))?:\s*$"
    r"|^\s{0,8}(?:\S{0,60}[$#%>]|\+{1,3}) (?:sudo )?(?:kubectl|docker|podman|crictl|ray|sky|iris"
    r"|gcloud|tail|cat|less|journalctl)\b.{0,100}\b(?:logs?|tail\b.{0,80}\.(?:log|out|err))\b",
    re.I,
)
"""A line below which a log stands: ``--- logs ---``, ``last log lines:``, ``$ kubectl logs x``."""
_NO_HEADING: Final = late_regex(r"^\s*--?\w|\b(?:logging|writing|redirect\w*|saving)\b", re.I)
"""Not a heading of what follows: ``Writing errors to err.log``."""
_EARLIER: Final = late_regex(
    r"\b(?:previous|prior|earlier|former|last (?:state|run|job)|continuing|resum\w+|placed on"
    r"|re-?scheduled|moved to|instead|replac\w+|starting (?:again|attempt)|attempt [2-9])\b"
    r"|, using \S{1,60}\s*$|restart count:\s{0,20}[1-9]"
    r"|^\s{0,8}(?:(?:Warning|Normal)\s{1,12})?[A-Z]\w{2,40}\s{1,20}(?:\d+[hd]|[1-9]\d+m)\w{0,6}"
    r"(?:\s|$)",
    re.I,
)
"""What is told of a start before this one, or of an event of Kubernetes that is minutes old."""
_OVER: Final = late_regex(
    r"\bOOM_?Killed\b|\bEvicted\b|\bDeadlineExceeded\b|(?-i:\b(?:NODE_FAIL|OUT_OF_MEMORY|PREEMPTED"
    r"|TIMEOUT)\b|_(?:FAILED|PREEMPTED)\b)|\bexit(?:ed)?[ _]?(?:code|status)\W{0,3}[1-9-]\d*\b"
    r"|\b(?:state|status|phase|reason|conclusion)\W{1,12}(?:failed|error|terminated|cancell?ed"
    r"|killed|preempted)\b"
    r"|\b(?:jobs?|pods?|tasks?|nodes?|workers?|containers?|hosts?|instances?)\b.{0,60}\b(?:failed"
    r"|died|dead|lost|reaped|not responding|unreachable|terminated|killed|preempted|evicted"
    r"|exited)\b",
    re.I,
)
"""What is told of a job that has ended."""


def report_last(places: Sequence[LogLine], *, over: bool) -> tuple[Sequence[LogLine], int]:
    """Return the lines as they were written: the last report behind its output, and its length.

    One whose first lines were cut away begins where the lines do. Only of a job that is ``over``
    a heading within the log tells that what stands above it tells its end.
    """
    ends = _last(places, _ENDS, len(places))
    if ends < 0:
        return _gathered_last(places) if over else (places, 0)
    begins = max(0, _last(places, _BEGINS, ends))
    report = places[begins : ends + 1]
    if len(report) > LONGEST or not any(_TELLS.match(line.text) for line in report):
        return places, 0
    return (*places[:begins], *places[ends + 1 :], *report), len(report)


def _last(places: Sequence[LogLine], text: str, end: int) -> int:
    return next((i for i in range(end - 1, -1, -1) if places[i].text.startswith(text)), -1)


def _gathered_last(places: Sequence[LogLine]) -> tuple[Sequence[LogLine], int]:
    """Return the lines with what stands above the first heading of a log behind that log.

    It is no report where training is logged in it, where it tells of no end, or of that of an
    earlier start. What a program prints when it starts stays where it is.
    """
    first = islice(enumerate(places), LONGEST + 1)
    heading = next((at for at, line in first if _is_heading(line.text)), 0)
    above = [line.text for line in places[:heading]]
    told = [at for at, text in enumerate(above) if _OVER.search(text)]
    if not told or steps_of(above) or any(_EARLIER.search(text) for text in above):
        return places, 0
    begins = _paragraph(above, told[0])
    report = places[begins : heading + 1]
    return (*places[:begins], *places[heading + 1 :], *report), len(report)


def _is_heading(line: str) -> bool:
    if len(line) > WIDEST or _NO_HEADING.search(line):
        return False
    return _HEADING.search(line) is not None


def _paragraph(lines: Sequence[str], at: int) -> int:
    """Return where the lines begin that belong to one: inset ones to that above them."""
    while at and lines[at][:1].isspace():
        at -= 1
    return at
