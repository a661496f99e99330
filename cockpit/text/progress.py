"""Read training progress from log lines, whatever trainer wrote them (INTERFACE ``progress``).

By mechanism: a progress bar, or labelled numbers of which one is the step. A bar or a line
about evaluation, downloads, tokenising, checkpoints or a resume is no progress, and in doubt
the answer is ``None``: a missed line costs little, a wrong step costs an alert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from pydantic import Field

from cockpit.model.base import Frozen, Number, step_of
from cockpit.text.fields import LabelledNumber, fields
from cockpit.text.labels import (
    Rate,
    Scope,
    bar_unit,
    evaluates,
    find_beside,
    find_grad_norm,
    find_loss,
    find_step,
    hints,
    is_epoch,
    other_work,
    throughput,
    training_work,
)
from cockpit.text.metric_words import NONE, Figures
from cockpit.text.safe import LINE_LIMIT, plain_text, safe_line


class LineProgress(Frozen):
    """What one line (or block) says of the training.

    A rounded step is ``None`` with ``step_exact`` false and its text in ``step_shown``; a
    rounded maximum is ``None`` with its text in ``max_shown`` (SPEC C-20). Only ``scope`` run
    counts steps of the run; the others count steps of an epoch, or epochs.
    """

    step: int | None = None
    step_exact: bool = True
    step_shown: str | None = None
    max_step: int | None = None
    max_shown: str | None = None
    scope: Scope = "run"
    loss: Number | None = None
    throughput: float | None = None
    unit: str | None = None
    format: str
    grad_norm: float | None = Field(default=None, exclude=True)
    """Beside the loss; no part of INTERFACE's document."""
    beside: Figures = Field(default=NONE, exclude=True)

    @property
    def is_bar(self) -> bool:
        """True for a progress bar, whose rate is its own average."""
        return self.format not in ("block", "fields", "dict")


_BLOCK_HEAD = re.compile(r"\[(?:\w+=\d+\]\[)?(?:batch|step)=\d+/\d+[^\]]*\]:?\s*$")
_LONGEST_BLOCK = 100
_COUNTED = frozenset(("", "it", "iter", "step", "steps", "batch", "batches", "ba", "update"))
_EPOCH_STEP_LOSS = re.compile(r"^\d+\|\d+\|")
_EPOCHS = re.compile(r"(?i:\bepochs?\b)")
_STEP_RATES = frozenset({"it/s", "s/it", "ms/it"})


def read_progress(line: str) -> LineProgress | None:
    r"""Return the training progress that ``line`` tells, or ``None``; never raises.

    ``line`` may hold colours, ``\r`` states, and be a block: a head with its step and
    indented lines below it.
    """
    return understood(line) if may_tell(line) else None


def understood(line: str) -> LineProgress | None:
    """Return the same at the full price, whatever the line may be."""
    text = "\n".join(map(plain_text, line.split("\n")))
    bar = read_bar(text)
    return _from_fields(text) if bar is None else _from_bar(bar)


_DIGIT = re.compile("[0-9]")
_NEEDED = re.compile(
    r"(?i:loss|step|iter|batch|epoch|update|train)|(?<![a-z])it(?![a-z])|I[tT](?![a-z])"
    r"|(?<![a-z])[eu]p(?![a-z])|[EU][pP](?![a-z])|%\|| • |it \[|Progress on:"
)
_HIDDEN = re.compile(r"[^ -~\n•█▏▎▍▌▋▊▉]")
"""What the boundary may take out of the middle of a word, or put there: escapes, marks."""


def may_tell(line: str) -> bool:
    """Tell whether ``line`` has what every line that is understood must have; a search or two.

    That is a digit, and a bar's own signs or a word for a step, an epoch or the loss. Of a line
    that will be cut only so much can be told that it is long.
    """
    if len(line) > LINE_LIMIT:
        return True
    if _DIGIT.search(line) is None:
        return False
    return _NEEDED.search(line) is not None or _HIDDEN.search(line) is not None


def read_lines(lines: Iterable[str]) -> Iterator[tuple[int, LineProgress]]:
    """Yield the number (from 1) and progress of each line, or block of lines, that tells any."""
    block: list[str] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        if block and line[:1].isspace() and len(block) < _LONGEST_BLOCK:
            block.append(line)
            continue
        yield from _numbered(first, block)
        first, block = number, []
        if "[" in line and _BLOCK_HEAD.search(line):
            block = [line]
        elif (found := read_progress(line)) is not None:
            yield number, found
    yield from _numbered(first, block)


def telling(raw: bytes) -> str:
    """Return a log line's text for ``read_lines``, empty where it can tell nothing.

    Lines that differ in their digits alone are looked at once: most of a fast log is left out
    for the price of a look into a table.
    """
    if len(raw) > LINE_LIMIT:
        return safe_line(raw).plain
    if not raw.isascii():
        return plain_text(raw.decode("utf-8", "replace"))
    return plain_text(raw.decode("ascii")) if _shape_may_tell(raw.translate(_ALIKE)) else ""


_ALIKE = bytes.maketrans(b"123456789", b"000000000")


@lru_cache(maxsize=1024)
def _shape_may_tell(shape: bytes) -> bool:
    """Tell it of a line whose digits are all 0; what is indented may belong to a block."""
    text = shape.decode("ascii")
    return text[:1].isspace() or not text.isprintable() or may_tell(text)


def _numbered(number: int, block: list[str]) -> Iterator[tuple[int, LineProgress]]:
    found = read_progress("\n".join(block)) if block else None
    if found is not None:
        yield number, found


def _from_bar(bar: Bar) -> LineProgress | None:
    """Return a bar's progress if what stands before it speaks of training, or says nothing."""
    if not bar.begun:
        return None
    before, inside = list(fields(bar.before)), list(fields(bar.inside))
    loss = find_loss([*inside, *before])
    unit = bar_unit(bar.rate_unit) if bar.rate_unit else None
    if bar.counted.lower() not in _COUNTED or (bar.rate_unit and unit not in _STEP_RATES):
        return None
    if other_work(bar.before) or not (loss is not None or training_work(bar.before)):
        return None
    step, step_shown = _count(bar.done)
    max_step, max_shown = _count(bar.total)
    return LineProgress(
        step=step,
        step_exact=step_shown is None,
        step_shown=step_shown,
        max_step=max_step,
        max_shown=max_shown,
        scope=_bar_scope(bar.before, before),
        loss=loss,
        throughput=bar.rate,
        unit=unit,
        format=bar.form,
    )


def _bar_scope(text: str, before: list[LabelledNumber]) -> Scope:
    """Tell ``Epoch 3:``, a count of its batches, from ``Epochs:``, a count of epochs."""
    if any(is_epoch(field) for field in before) or _EPOCH_STEP_LOSS.match(text.strip()):
        return "epoch"
    return "epochs" if _EPOCHS.search(text) else "run"


def _count(shown: str | None) -> tuple[int | None, str | None]:
    """Return a bar's count if it is exact, else how it is shown (``4.60k``)."""
    if shown is None:
        return None, None
    if not shown[-1].isdigit() or not float(shown).is_integer():
        return None, shown
    step = step_of(float(shown))
    return step, None if step is not None else shown


def _from_fields(text: str) -> LineProgress | None:
    found = list(fields(text))
    counted = find_step(found)
    if counted is None:
        return _from_dict(text, found)
    step, scope = counted
    loss, rate = find_loss(found), throughput(found, in_epochs=scope == "epochs")
    if other_work(text[: step.at]) or not _is_training(found, scope, loss, rate):
        return None
    return LineProgress(
        step=step.whole,
        step_exact=not step.rounded,
        step_shown=step.text if step.rounded else None,
        max_step=step.maximum,
        max_shown=step.max_text,
        scope=scope,
        loss=loss,
        throughput=None if rate is None else rate[0],
        unit=None if rate is None else rate[1],
        format="block" if "\n" in text else "fields",
        grad_norm=find_grad_norm(found),
        beside=find_beside(found),
    )


def _is_training(
    found: list[LabelledNumber], scope: Scope, loss: float | None, rate: Rate | None
) -> bool:
    """Return whether the figures beside a step are those of training, not of an evaluation."""
    if scope == "epochs":
        return loss is not None
    if evaluates(found) and (loss is None or (rate is None and not hints(found))):
        return False
    return loss is not None or rate is not None or hints(found) >= 2


def _from_dict(text: str, found: list[LabelledNumber]) -> LineProgress | None:
    """Read ``{'loss': 0.69, 'learning_rate': 5e-05, 'epoch': 0.26}``: progress without a step."""
    plain = next((field for field in found if field.words == ("loss",)), None)
    if plain is None or "{" not in text or not hints(found) or evaluates(found):
        return None
    rate = throughput(found)
    return LineProgress(
        loss=plain.value,
        throughput=None if rate is None else rate[0],
        unit=None if rate is None else rate[1],
        format="dict",
        grad_norm=find_grad_norm(found),
        beside=find_beside(found),
    )


_COUNT = r"(?P<n>\d+(?:\.\d+)?)(?P<n_scale>[kMGT]?)(?P<n_unit>[A-Za-z]*)"
_TOTAL = r"(?P<m>\d+(?:\.\d+)?)(?P<m_scale>[kMGT]?)(?P<unit>[A-Za-z]*)"
_TQDM = re.compile(
    rf"(?P<pct>\d+)%\|[^|]{{0,400}}\|\s*{_COUNT}/{_TOTAL}\s*(?:\w+\s)?\[(?P<inside>[^\]]*)"
)
_OPEN_ENDED = re.compile(rf"(?<![\w/.]){_COUNT} \[(?P<inside>\d[\d:]*,[^\]]*)")
_LOGGABLE = re.compile(
    rf"Progress on:(?P<desc>.*?) (?:-|{_COUNT})/(?:\?|-|{_TOTAL})"
    r" rate:(?P<rate>\S+) remaining:\S+ elapsed:\S+(?: postfix:(?P<post>.*))?"
)
_RICH = re.compile(
    rf"(?:[━╸╺]+|[-#=>]{{8,}}) +{_COUNT}/(?:--|{_TOTAL}) +(?P<inside>\d+:\d\d:\d\d • .*)"
)
_KERAS = re.compile(
    r"^\s*(?P<n>\d+)/(?P<m>\d+) (?=\[[=>. ]*\]|[━╸╺]|- \d+m?s )(?P<inside>.*\bloss: .*)",
    re.MULTILINE,
)
_NO_RATE = re.compile(r"(?<![\w.])[?-] ?[A-Za-z]+/s\b|<\?(?=[,\]\s]|$)")
_RATE = re.compile(
    r"(?<![\w.])(?P<value>\d+(?:\.\d+)?)(?P<scale>[kMG]?)\s?(?P<unit>[A-Za-z]+/[A-Za-z]+)"
)
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


class Bar(NamedTuple):
    """A bar: what stands before it, its counts as written, and what stands in its brackets."""

    before: str
    inside: str
    done: str | None
    total: str | None
    counted: str
    rate: float | None
    rate_unit: str | None
    form: str
    rates: str
    """What the rate was read in."""

    @property
    def begun(self) -> bool:
        """True when it counts something completed since it was drawn.

        A bar is drawn before its first step, at 0 or at the step that it resumes from: then it
        has no rate yet (``?it/s``, ``0.00it/s``, a remaining time of ``?``).
        """
        if self.rate is None:
            nothing = self.done is None or float(self.done.rstrip("kMGT")) == 0.0
            return not nothing and _NO_RATE.search(self.rates) is None
        return self.rate > 0.0


def read_bar(line: str) -> Bar | None:
    """Return the first progress bar of ``line``, or ``None``."""
    if "Progress on:" in line and (found := _LOGGABLE.search(line)):
        return _bar(found, found["desc"], found["rate"], found["post"] or "", "tqdm_loggable")
    if "%|" in line and (found := _TQDM.search(line)):
        return _bar(found, line[: found.start()], found["inside"], found["inside"], "tqdm")
    if "it [" in line and (found := _OPEN_ENDED.search(line)):
        return _bar(found, line[: found.start()], found["inside"], found["inside"], "tqdm")
    if " • " in line and (found := _RICH.search(line)):
        return _bar(found, line[: found.start()], found["inside"], found["inside"], "rich")
    if "/" in line and (found := _KERAS.search(line)):
        return _bar(found, "Epoch 0", found["inside"], found["inside"], "keras")
    return None


def _bar(found: re.Match[str], before: str, rates: str, inside: str, form: str) -> Bar:
    parts = found.groupdict()
    rate = _RATE.search(rates)
    return Bar(
        before=before,
        inside=inside,
        done=_joined(parts, "n"),
        total=_joined(parts, "m"),
        counted=parts.get("unit") or parts.get("n_unit") or "",
        rate=None if rate is None else float(rate["value"]) * _SCALES[rate["scale"]],
        rate_unit=None if rate is None else rate["unit"],
        form=form,
        rates=rates,
    )


def _joined(parts: dict[str, str | None], name: str) -> str | None:
    number = parts.get(name)
    return None if number is None else number + (parts.get(f"{name}_scale") or "")
