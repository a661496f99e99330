"""Read training progress from log lines, whatever trainer wrote them (INTERFACE ``progress``).

What a line says is decided on its shape (``cockpit.text.meaning``); here its figures are read.
``cockpit.text.progress_lines`` reads whole logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.base import plain_number, step_of
from cockpit.text.labels import Scope
from cockpit.text.line_shape import Shape, shape_of
from cockpit.text.meaning import Figure, Meaning, meaning_of
from cockpit.text.metric_words import NONE, Figures
from cockpit.text.safe import plain_text


class LineProgress(NamedTuple):
    """What one line (or block) says of the training.

    A rounded step is ``None`` with ``step_exact`` false and its text in ``step_shown``; a
    rounded maximum is ``None`` with its text in ``max_shown`` (SPEC C-20). Only ``scope`` run
    counts steps of the run; the others count steps of an epoch, or epochs.
    """

    format: str
    step: int | None = None
    step_exact: bool = True
    step_shown: str | None = None
    max_step: int | None = None
    max_shown: str | None = None
    scope: Scope = "run"
    loss: float | None = None
    throughput: float | None = None
    unit: str | None = None
    grad_norm: float | None = None
    """Beside the loss; no part of INTERFACE's document."""
    beside: Figures = NONE

    @property
    def is_bar(self) -> bool:
        """True for a progress bar, whose rate is its own average."""
        return self.format not in ("block", "fields", "dict")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON-ready document (INTERFACE ``progress --json``, but for the line)."""
        return {
            "step": self.step,
            "step_exact": self.step_exact,
            "step_shown": self.step_shown,
            "max_step": self.max_step,
            "max_shown": self.max_shown,
            "scope": self.scope,
            "loss": None if self.loss is None else plain_number(self.loss),
            "throughput": self.throughput,
            "unit": self.unit,
            "format": self.format,
        }


_SCALES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_DIGITS: Final = 15
"""With so many digits a count may be more than any run has (``step_of``)."""
_FASTEST: Final = 1e4
"""Steps a second that no training makes: such a bar counts bytes."""


def read_progress(line: str) -> LineProgress | None:
    r"""Return the training progress that ``line`` tells, or ``None``; never raises.

    ``line`` may hold colours, ``\r`` states, and be a block: a head with its step and
    indented lines below it.
    """
    return told_in(shape_of("\n".join(map(plain, line.split("\n")))))


def is_drawn_bar(line: str) -> bool:
    """Tell whether ``line`` is a training bar whose bracket is closed: nothing is to follow."""
    found = told_in(shape_of(plain(line)))
    return found is not None and found.is_bar and line.rstrip().endswith("]")


def plain(line: str) -> str:
    """Return a line as safe text, in which a tab parts as three spaces do, wherever it stands."""
    return plain_text(line.replace("\t", "   "))


def told_in(shape: Shape) -> LineProgress | None:
    """Return what the line of this shape tells."""
    meaning = meaning_of(shape.shape)
    if meaning is None:
        return None
    return told(meaning, [each and shape.cut(each.span) for each in meaning.figures])


def told(meaning: Meaning, texts: Sequence[str | None]) -> LineProgress | None:
    """Return what a line says whose figures (``Meaning.figures``) read so; ``None`` for nothing.

    A bar that is drawn before its first step, or at the step that it resumes from, has no rate
    yet (``?it/s``, ``0.00it/s``): it counts nothing completed.
    """
    step_text, most_text, loss_text, norm_text, *other_texts = texts
    step, step_shown = _count(meaning.step, step_text)
    if step is None and step_shown and not (meaning.is_bar or _is_rounded(step_shown)):
        return None  # a fraction, or more than any run counts to
    most, max_shown = _count(meaning.most, most_text)
    rate, unit = _rate(meaning, other_texts)
    if meaning.is_bar and not _begun(meaning, rate, unit, step, step_shown):
        return None
    loss, norm = _value(meaning.loss, loss_text), _value(meaning.grad_norm, norm_text)
    exact, scope = step_shown is None, meaning.scope
    if meaning.epoch is not None and _counts_epochs(step, most, texts[-2:]):
        scope = "epochs"
    counts = (meaning.format, step, exact, step_shown, most, max_shown, scope)
    return LineProgress(*counts, loss, rate, unit, norm, _beside(meaning, other_texts))


def _counts_epochs(step: int | None, most: int | None, epoch: Sequence[str | None]) -> bool:
    """Tell ``Epoch 8/20: … 7/20``, a bar of epochs, from one of the batches of an epoch."""
    at, of = (int(text) if text and text.isdecimal() else None for text in epoch)
    if at is None or of is None or step is None:
        return False
    return of == most and 0 <= at - step <= 1


class Alike(NamedTuple):
    """What lines of one shape say, each in its place; ``None`` for what none of them says."""

    step: Sequence[int] | None
    most: Sequence[int] | None
    loss: Sequence[float] | None
    rate: Sequence[float] | None
    unit: str | None


def told_alike(meaning: Meaning, columns: Sequence[Sequence[str]]) -> Alike | None:
    """Return what ``told`` says of lines whose figures read so, column by column.

    ``None`` if a line among them may need more than this: a rounded or grouped figure, one that
    is not finite, a rate of nothing, a bar that is not begun.
    """
    counts = [_counts(*each) for each in zip(meaning.figures[:2], columns, strict=False)]
    loss = _values(meaning.loss, columns[2])
    rate = _values(meaning.rates[0], columns[4]) if meaning.rates else None
    if () in counts or () in (loss, rate) or (rate is not None and min(rate) <= 0.0):
        return None
    if meaning.epoch or (meaning.is_bar and (rate is None or max(rate) >= _FASTEST)):
        return None
    return Alike(counts[0], counts[1], loss, rate, meaning.units[0] if meaning.rates else None)


def _counts(figure: Figure | None, texts: Sequence[str]) -> Sequence[int] | None:
    """Return the counts of a column; an empty one unless all are of digits alone."""
    if figure is None:
        return None
    if figure.scale or len(max(texts, key=len)) >= _DIGITS or not "".join(texts).isdecimal():
        return ()
    return list(map(int, texts))


def _values(figure: Figure | None, texts: Sequence[str]) -> Sequence[float] | None:
    """Return the numbers of a column; an empty one unless all are plain and finite."""
    if figure is None:
        return None
    if figure.scale or any("," in text for text in texts):
        return ()
    values = list(map(float, texts))
    return values if all(map(math.isfinite, values)) else ()


def _begun(
    meaning: Meaning, rate: float | None, unit: str | None, step: int | None, shown: str | None
) -> bool:
    if rate is None:
        return not meaning.rates and not (step == 0 or (step is None and shown is None))
    return unit != "it/s" or rate < _FASTEST


def _count(figure: Figure | None, text: str | None) -> tuple[int | None, str | None]:
    """Return a count if it is exact, else how it is shown (``4.60k``, ``3.1e+4``)."""
    if figure is None or text is None:
        return None, None
    if figure.scale:
        return None, text + figure.scale
    if text.isdecimal() and len(text) < _DIGITS:
        return int(text), None
    value = float(text.replace(",", ""))
    step = step_of(value) if value.is_integer() and not _is_rounded(text) else None
    return step, None if step is not None else text


def _is_rounded(text: str) -> bool:
    return text[-1].isalpha() or "e" in text.lower()


def _value(figure: Figure | None, text: str | None) -> float | None:
    if figure is None or text is None:
        return None
    value = float(text.replace(",", "") if "," in text else text)
    return value * _SCALES[figure.scale] if figure.scale else value


def _beside(meaning: Meaning, texts: Sequence[str | None]) -> Figures:
    if not meaning.beside:
        return NONE
    read = zip(meaning.beside, texts[len(meaning.rates) :], strict=True)
    return Figures(**{kind: _value(figure, text) for (kind, figure), text in read})


def _rate(meaning: Meaning, texts: Sequence[str | None]) -> tuple[float | None, str | None]:
    for at, figure in enumerate(meaning.rates):
        value = _value(figure, texts[at])
        if value is not None and 0.0 < value < math.inf:
            return value, meaning.units[at]
    return None, None
