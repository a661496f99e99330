"""Read training progress from log lines, whatever trainer wrote them (INTERFACE ``progress``).

``meaning_of`` decides on the shape of a line which of its figures is the step, the loss or a rate;
``progress_of`` reads the figures. ``cockpit.text.progress_lines`` reads whole logs.

A line of progress is a progress bar, or labelled numbers of which one is the step. A bar or a line
about evaluation, downloads, tokenising, checkpoints or a resume is no progress. In doubt the answer
is ``None``: a missed line costs little, a wrong step costs an alert.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from cockpit.model.base import plain_number, step_of
from cockpit.model.late_regex import late_regex
from cockpit.text.fields import (
    Bar,
    LabelledNumber,
    Part,
    Rate,
    Shape,
    Span,
    bar_unit,
    fields,
    read_bars,
    shape_of,
    throughput,
)
from cockpit.text.labels import (
    NONE,
    Beside,
    Figures,
    Scope,
    evaluates,
    find_grad_norm,
    find_loss,
    find_step,
    head_step,
    hints,
    is_bare_count,
    is_epoch,
    not_trained,
    other_metrics_in,
    other_work,
    strong_hints,
    training_work,
)
from cockpit.text.safe import plain_text


class Figure(NamedTuple):
    """Where a figure stands in a shape, and the letter behind it that scales it (``k``)."""

    span: Span
    scale: str = ""


class Meaning(NamedTuple):
    """What the figures of a line that is training progress are."""

    format: str
    scope: Scope
    step: Figure | None
    most: Figure | None
    loss: Figure | None
    grad_norm: Figure | None
    rates: tuple[Figure, ...]
    """The best first: of them the first that is above 0 is the line's."""
    units: tuple[str, ...]
    """The unit of each of ``rates``."""
    is_bar: bool = False
    beside: tuple[tuple[Beside, Figure], ...] = ()
    epoch: tuple[Figure, Figure] | None = None
    """The epoch and how many there are, where a bar's description tells both."""

    @property
    def figures(self) -> tuple[Figure | None, ...]:
        """All in one order: step, maximum, loss, gradient norm, rates, what is beside, epochs."""
        beside = (figure for _, figure in self.beside)
        epoch = self.epoch or ()
        return (self.step, self.most, self.loss, self.grad_norm, *self.rates, *beside, *epoch)


_BLOCK_HEAD = late_regex(
    r"\[(?:\w+=0\]\[)?(?:batch|step)=0/0[^\]]*\]:?\s*$|^(?i:iter(?:ation)?|step) ?[:=] ?0$"
)
"""The head of a block whose figures stand below it: ``[step=0/0]:``."""
_DICT_HEAD = late_regex(r"\s*\{[\"'][^{}]*,\s*$")
_COUNTED_BY_BARS = frozenset(
    ("", "it", "iter", "step", "steps", "batch", "batches", "ba", "update")
)
_EPOCH_STEP_LOSS = late_regex(r"^0\|0\|")
_TABLE_ROW = late_regex(r"^\s*0/0\s+[0.]+[A-Z]")
"""A row of YOLO's table: ``  0/0   0.0G``."""
_EPOCHS = late_regex(r"(?i:\bepochs?\b)")
"""Such as ``Epoch``."""
_ONLY_METRICS = late_regex(r"\s*(?:[A-Za-z][\w/ ]{0,20}[:=] ?[-+]?0\.0[;,:| ]{0,4}){2,8}$")
"""A description that is nothing but metrics, which are fractions: ``d: -0.0;gen: -0.0:``."""
_STEP_RATES = frozenset({"it/s", "s/it", "ms/it"})
_WORD = late_regex(r"[A-Za-z]{3}")
_LOSS_AT = late_regex(
    r"(?i:(?:(?:train(?:ing)?|(?:mini-?)?batch|average|avg|mean|running)[ _])?(?:loss|score)"
    r"(?: \([a-z ]{1,30}\))? (?:at|after|for|in) "
    r"(?P<word>(?:(?:global[ _])?(?:step|iter|iteration|batch|update)|(?P<epoch>epoch)) {1,3}#?)?"
    r"(?P<step>0)(?:/(?P<most>0))?(?P<counted> (?:steps|iterations|iters|batches|updates))?"
    r" {0,3}(?::|=|is|was) {0,3}(?P<loss>[-+]?(?:0(?:\.0)?(?:e[-+]?0)?|nan|inf))(?![\w.]))"
)
_PLACES: Final = (" at ", " after ", " for ", " in ")
_GLOG = late_regex(r"^[IWE]0 [0:.]+ +0 [\w.]+:0\] \[(?=0\])")
"""The prefix of Google's log, which counts no steps: ``I0 0:0:0.0 0 train.py:0] [0]``."""


def begins_block(shape: str) -> bool:
    """Tell whether a line of this shape is the head of indented lines that belong to it."""
    counted = shape.rstrip().endswith(("]", "]:", "0"))
    return (counted and _BLOCK_HEAD.search(shape) is not None) or (
        _DICT_HEAD.match(shape) is not None
    )


@lru_cache(maxsize=2048)
def meaning_of(shape: str) -> Meaning | None:
    """Return what a line of this shape tells of the training, ``None`` for nothing."""
    bars = list(read_bars(shape))
    found = [meaning for bar in bars if (meaning := _from_bar(bar)) is not None]
    if found:
        return found[-1]
    drawn = bars[-1].after.at if bars else 0
    begun = _NOT_BEGUN.search(shape, drawn) if "<?" in shape else None
    drawn = begun.end() if begun else drawn
    return _behind_bars(shape, drawn) if drawn else _from_fields(shape)


_NOT_BEGUN = late_regex(r"0/\? \[0[0:]{0,9}<\?, \?[a-z]{1,10}/s\]")
"""A bar of an unknown total before its first step: ``0/? [00:00<?, ?it/s]``."""
_LOGGED = late_regex(r"\s*\W?0?(?:[-/]0[-/]0|[0:]*:0\b)|\s*\W?(?:INFO|DEBUG)\b")
"""How a logger begins its line: with a time, or a level."""


def _behind_bars(shape: str, drawn: int) -> Meaning | None:
    """Return what a logger's line tells that stands behind a bar: both went to one terminal.

    The bar ends at ``drawn``.
    """
    if not _LOGGED.match(shape, drawn):
        return None
    return _from_fields(" " * drawn + shape[drawn:])


def _from_bar(bar: Bar) -> Meaning | None:
    """Return a bar's figures if what stands before it speaks of training, or says nothing."""
    before, inside = _fields_in(bar.before), _fields_in(bar.inside)
    behind = _fields_in(bar.after) if bar.after.text.lstrip().startswith("{") else []
    loss = find_loss([*inside, *before, *behind])
    unit = bar_unit(bar.rate_unit) if bar.rate_unit else None
    if bar.counted.lower() not in _COUNTED_BY_BARS or (bar.rate_unit and unit not in _STEP_RATES):
        return None
    said = bar.before.text
    if bar.unrated or other_work(said):
        return None
    told = training_work(said, silent=bar.total is not None) or _ONLY_METRICS.match(said)
    if loss is None and not told:
        return None
    rates = _bar_rates(bar, inside)
    return Meaning(
        format=bar.form,
        scope="epoch" if bar.form == "keras" else _bar_scope(said, before),
        step=None if bar.done is None else Figure(*bar.done),
        most=None if bar.total is None else Figure(*bar.total),
        loss=_figure(loss),
        grad_norm=None,
        rates=tuple(figure for figure, _ in rates),
        units=tuple(each for _, each in rates),
        is_bar=True,
        epoch=_described_epoch(before),
    )


def _described_epoch(before: Sequence[LabelledNumber]) -> tuple[Figure, Figure] | None:
    for field in before:
        if is_epoch(field) and field.maximum is not None:
            return Figure(field.span, field.scale), Figure(field.maximum, field.max_scale)
    return None


def _bar_rates(bar: Bar, inside: Sequence[LabelledNumber]) -> list[tuple[Figure, str]]:
    """Return a bar's rate; before it one of tokens, instead of none what its figures tell."""
    said = [(Figure(field.span, field.scale), unit) for field, unit in throughput(inside)]
    if bar.rate is None:
        return said
    tokens = [rate for rate in said if rate[1].startswith("tok/")]
    return [*tokens, (Figure(*bar.rate), bar_unit(bar.rate_unit) or "")]


def _fields_in(part: Part) -> list[LabelledNumber]:
    """Return the numbers of a part of a shape, placed in the whole."""
    return [field.moved(part.at) for field in fields(part.text)]


def _bar_scope(text: str, before: Sequence[LabelledNumber]) -> Scope:
    """Tell ``Epoch 3:``, a count of its batches, from ``Epochs:``, a count of epochs."""
    if any(is_epoch(field) or (field.bracketed and field.maximum) for field in before):
        return "epoch"
    if _EPOCH_STEP_LOSS.match(text.strip()) or _TABLE_ROW.match(text):
        return "epoch"
    return "epochs" if _EPOCHS.search(text) else "run"


def _may_tell_loss_at(shape: str) -> bool:
    low = shape.lower()
    return ("loss" in low or "score" in low) and any(map(low.__contains__, _PLACES))


def _loss_at(shape: str) -> Meaning | None:
    """Read ``Loss at step 310 : 0.41``, where the loss has its name before the step."""
    found = _LOSS_AT.search(shape)
    if found is None or other_work(shape[: found.start()]):
        return None
    behind = [field.moved(found.end()) for field in fields(shape[found.end() :])]
    named = found["word"] or found["counted"]
    if not named or not training_work(shape[: found.start()]) or evaluates(behind):
        return None
    rates = throughput(behind, in_epochs=found["epoch"] is not None)
    return Meaning(
        format="fields",
        scope="epochs" if found["epoch"] else "run",
        step=Figure(found.span("step")),
        most=Figure(found.span("most")) if found["most"] else None,
        loss=Figure(found.span("loss")),
        grad_norm=_figure(find_grad_norm(behind)),
        rates=_rates(rates),
        units=tuple(unit for _, unit in rates),
        beside=_other_figure_spans(behind),
    )


class Row(NamedTuple):
    """A row of ``progress_rows.toml``: lines of a trainer that no label explains."""

    id: str
    pattern: re.Pattern[str]
    scope: Scope
    examples: Sequence[Mapping[str, Any]]


@cache
def progress_rows() -> tuple[Row, ...]:
    """Return the rows, read when the first line is met that labels do not explain."""
    text = files("cockpit.text").joinpath("progress_rows.toml").read_text(encoding="utf-8")
    return tuple(
        Row(row["id"], re.compile(row["pattern"]), row["scope"], row["examples"])
        for row in tomllib.loads(text)["row"]
    )


def _from_rows(shape: str) -> Meaning | None:
    """Return the figures of a line that a row reads."""
    found = ((row, match) for row in progress_rows() if (match := row.pattern.search(shape)))
    row, match = next(found, (None, None))
    if row is None or match is None or other_work(shape[: match.start()]):
        return None
    spans = {name: match.span(name) for name, text in match.groupdict().items() if text}
    step, most, loss = (
        Figure(spans[name]) if name in spans else None for name in ("step", "most", "loss")
    )
    return Meaning("fields", row.scope, step, most, loss, None, (), ())


def _from_fields(shape: str) -> Meaning | None:
    return _from_labels(shape) or _from_rows(shape)


def _from_labels(shape: str) -> Meaning | None:
    if _may_tell_loss_at(shape) and (said := _loss_at(shape)) is not None:
        return said
    found = fields(shape)
    counted = head_step(found, shape.find("\n")) or find_step(found) or _bare_step(shape, found)
    if counted is None:
        return _from_dict(shape, found)
    step, scope = counted
    loss, rates = find_loss(found), throughput(found, in_epochs=scope == "epochs")
    known = _is_training(found, scope, loss, rates) or _is_counted_to_its_end(step, found)
    if not known or other_work(shape[: step.at]):
        return None
    begin = (step.maximum or step.span)[1]
    after = next((each for each in found if each.at > begin), None)
    text = shape[begin : len(shape) if after is None else after.at]
    more = text if after is None else text.replace(after.label, "").replace(after.note, "")
    behind = _Behind(text, _WORD.search(more) is not None)
    if not_trained(behind.text) or (loss is None and behind.is_prose):
        return None
    return Meaning(
        format="block" if "\n" in shape else "fields",
        scope=scope,
        step=Figure(step.span, step.scale),
        most=None if step.maximum is None else Figure(step.maximum, step.max_scale),
        loss=_figure(loss),
        grad_norm=_figure(find_grad_norm(found)),
        rates=_rates(rates),
        units=tuple(unit for _, unit in rates),
        beside=_other_figure_spans(found),
    )


class _Behind(NamedTuple):
    """What stands between the step and the number after it."""

    text: str
    is_prose: bool
    """True where it is more than that number's label: ``batch 310 ready, 12.1 samples/s``."""


def _bare_step(shape: str, found: Sequence[LabelledNumber]) -> tuple[LabelledNumber, Scope] | None:
    """Return what stands alone in brackets that begin a message.

    ``[1200] loss=2.4, …`` behind the head of a logger, ``[120/5000] loss: 2.4 lr: …`` anywhere.
    """
    head = _GLOG.match(shape)
    step = next((each for each in found if head and each.at == head.end()), None)
    alone = found and is_bare_count(found[0]) and not any(map(is_bare_count, found[1:2]))
    if step is None and alone and (throughput(found) or hints(found)):
        step = found[0]
    if step is None or find_loss(found) is None or evaluates(found):
        return None
    return step, "run"


def _is_training(
    found: Sequence[LabelledNumber],
    scope: Scope,
    loss: LabelledNumber | None,
    rates: Sequence[Rate],
) -> bool:
    """Return whether the figures beside a step are those of training, not of an evaluation."""
    if scope == "epochs":
        return loss is not None
    if evaluates(found) and (loss is None or not (rates or hints(found) >= 2)):
        return False
    return loss is not None or bool(rates) or hints(found) >= 2


def _is_counted_to_its_end(step: LabelledNumber, found: Sequence[LabelledNumber]) -> bool:
    """Tell whether a step that has its maximum stands beside what only a training has.

    ``Batch 40/165 | Energy: 1.45 | Perplexity: 1115.5``: the loss has a name of its own. One
    figure alone is what a set-up (``Step 3/10: learning rate 0.1``) or an evaluation tells, too.
    """
    return step.maximum is not None and len(found) > _STEP_AND_ONE and strong_hints(found) > 0


_STEP_AND_ONE: Final = 2
"""Numbers of a line that tells a step and one figure."""


def _from_dict(shape: str, found: Sequence[LabelledNumber]) -> Meaning | None:
    """Read ``{'loss': 0.69, 'learning_rate': 5e-05, 'epoch': 0.26}``: progress without a step."""
    if "{" not in shape or not hints(found):
        return None
    told = {each.words for each in found}
    of_parts = ("loss",) not in told and {("lr",), ("epoch",)} <= told  # TRL: 'loss/policy_avg'
    own = [each for each in found if each.words[:1] == ("loss",) and not evaluates([each])]
    plain = next((each for each in own if of_parts or each.words == ("loss",)), None)
    if plain is None or (evaluates(found) and not of_parts):
        return None
    rates = throughput(found)
    return Meaning(
        format="dict",
        scope="run",
        step=None,
        most=None,
        loss=_figure(plain),
        grad_norm=_figure(find_grad_norm(found)),
        rates=_rates(rates),
        units=tuple(unit for _, unit in rates),
        beside=_other_figure_spans(found),
    )


def _other_figure_spans(found: Sequence[LabelledNumber]) -> tuple[tuple[Beside, Figure], ...]:
    told = other_metrics_in(found).items()
    return tuple((kind, Figure(field.span, field.scale)) for kind, field in told)


def _figure(field: LabelledNumber | None) -> Figure | None:
    return None if field is None else Figure(field.span, field.scale)


def _rates(rates: Sequence[Rate]) -> tuple[Figure, ...]:
    return tuple(Figure(field.span, field.scale) for field, _ in rates)


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
    return progress_in(shape_of("\n".join(map(plain, line.split("\n")))))


def is_drawn_bar(line: str) -> bool:
    """Tell whether ``line`` is a training bar whose bracket is closed: nothing is to follow."""
    found = progress_in(shape_of(plain(line)))
    return found is not None and found.is_bar and line.rstrip().endswith("]")


def plain(line: str) -> str:
    """Return a line as safe text, in which a tab parts as three spaces do, wherever it stands."""
    return plain_text(line.replace("\t", "   "))


def progress_in(shape: Shape) -> LineProgress | None:
    """Return what the line of this shape tells."""
    meaning = meaning_of(shape.shape)
    if meaning is None:
        return None
    return progress_of(meaning, [each and shape.cut(each.span) for each in meaning.figures])


def progress_of(meaning: Meaning, texts: Sequence[str | None]) -> LineProgress | None:
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
    if meaning.is_bar and not _has_counted(meaning, rate, unit, step, step_shown):
        return None
    loss, norm = _value(meaning.loss, loss_text), _value(meaning.grad_norm, norm_text)
    exact, scope = step_shown is None, meaning.scope
    if meaning.epoch is not None and _counts_epochs(step, most, texts[-2:]):
        scope = "epochs"
    counts = (meaning.format, step, exact, step_shown, most, max_shown, scope)
    return LineProgress(*counts, loss, rate, unit, norm, _other_figures(meaning, other_texts))


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


def progress_columns(meaning: Meaning, columns: Sequence[Sequence[str]]) -> Alike | None:
    """Return what ``progress_of`` says of lines whose figures read so, column by column.

    ``None`` if a line among them may need more than this: a rounded or grouped figure, one that
    is not finite, a rate of nothing, a bar that has not started.
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


def _has_counted(
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


def _other_figures(meaning: Meaning, texts: Sequence[str | None]) -> Figures:
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
