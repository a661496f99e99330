"""From history records to rows: only the keys that matter, found without decoding the rest.

A row of a big model can hold thousands of metrics. The bytes of a key stand before its value
(``key, 0x82 0x01, length, JSON text``), so one ``bytes.find`` a key does; what is around the
hit is checked, so that no other key's end or text can pass for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from cockpit.model.base import step_of
from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.model.trend import timed_steps
from cockpit.sources.protobuf import BadMessageError
from cockpit.sources.wandb.clocks import true_time
from cockpit.sources.wandb.decode import history, items, number
from cockpit.sources.wandb.file import Span
from cockpit.sources.wandb.metrics import WANDB_TIME, MetricKeys, choose, evaluates, interesting

VALUE = b"\x82\x01"
"""What stands between an item's key and the length of its value."""
_OF_EACH_SHAPE, _SHAPES = 3, 60

Needles = tuple[bytes, ...]


class KeyLayout:
    """How one file spells its keys, learned from some of its rows; its size is bounded.

    ``rows`` holds the interesting names of learned rows. ``keys`` maps a name to the bytes
    of its key; a name that only exists inside a JSON object has none. ``style`` is the field
    number of keys in this file (1 before wandb 0.18, then 2), 0 while unknown.
    """

    def __init__(self, configured: MetricNames) -> None:
        self.rows: list[frozenset[str]] = []
        self.keys: dict[str, bytes | None] = {}
        self.style = 0
        self._configured = configured
        self._seen: Counter[int] = Counter()

    def notice(self, message: Span) -> None:
        """Learn from a history row, unless rows of as many items were learned before.

        It costs next to nothing on a row that looks like the others, so that it can be done
        for every row: a metric that is only logged now and then is found as well.
        """
        buffer, start, end = message
        items_in_row = buffer.count(VALUE, start, end)
        if self._knows(items_in_row):
            return
        self._seen[items_in_row] += 1
        try:
            self._learn(message)
        except BadMessageError:
            return

    def knows(self, message: Span) -> bool:
        """Tell whether there is nothing to learn from a history row."""
        buffer, start, end = message
        return self._knows(buffer.count(VALUE, start, end))

    def _knows(self, items_in_row: int) -> bool:
        return self._seen[items_in_row] >= _OF_EACH_SHAPE or len(self._seen) > _SHAPES

    @property
    def has_loss(self) -> bool:
        """True when a key was seen that can be the training loss."""
        rows = self.rows
        return bool(rows) and choose(rows, self._configured).loss in frozenset().union(*rows)

    def _learn(self, message: Span) -> None:
        names: set[str] = set()
        for item in items(message):
            self.style = item.key[0] >> 3 if item.key else self.style
            if item.value[:1] == b"{":
                self._learn_nested(message, item.name, names)
            elif self._matters(item.name) and number(item.value) is not None:
                self.keys[item.name] = item.key
                names.add(item.name)
        self.rows.append(frozenset(names))

    def _learn_nested(self, message: Span, prefix: str, names: set[str]) -> None:
        for name, value in history(message).items():
            inside = name.startswith(prefix + ".") and isinstance(value, int | float)
            if inside and self._matters(name):
                self.keys.setdefault(name, None)
                names.add(name)

    def _matters(self, name: str) -> bool:
        return interesting(name, self._configured)


class RowReader:
    """Reads the rows of one file, given its layout and the keys that are wanted."""

    def __init__(self, keys: MetricKeys, layout: KeyLayout) -> None:
        self._keys = keys
        first = (keys.step, WANDB_TIME, keys.loss, keys.throughput, keys.grad_norm)
        wanted = (*first, *keys.beside)
        self._names = wanted
        inside = any(name in layout.keys and layout.keys[name] is None for name in wanted if name)
        self.needles: Sequence[Needles] | None = None
        """What may stand before each value that is wanted; ``None``: a row is decoded whole."""
        if layout.style != 0 and not inside:
            self.needles = [_needles(name, layout) for name in wanted]

    def read(self, message: Span) -> Row:
        """Return the row of a history record's message.

        Raises ``BadMessageError`` (not always) when the message is damaged.
        """
        if self.needles is None:
            return self._read_slowly(message)
        step, at, loss, throughput, grad_norm, *beside = [
            _find(message, needles) for needles in self.needles
        ]
        return Row(
            None if step is None else whole(step),
            None if at is None else true_time(number(at)),
            None if loss is None else number(loss),
            None if throughput is None else number(throughput),
            None if grad_norm is None else number(grad_norm),
            False,
            *[None if text is None else number(text) for text in beside],
        )

    def evaluates(self, row: Row, message: Span) -> bool:
        """Tell whether a row is an evaluation's, whose step may be none of training's."""
        if row.trains or not self._keys.trains:
            return False
        if self.needles is None:
            return evaluates(history(message), self._keys)
        return evaluates((item.name for item in items(message)), self._keys)

    def missing(self, known: Row) -> tuple[bool, bool]:
        """Tell whether ``known`` lacks the step or the loss, and whether any other metric."""
        values = (known.step, known.at, known.loss, known.throughput, known.grad_norm)
        pairs = zip(self._names[: len(values)], values, strict=True)
        lacks = [name is not None and value is None for name, value in pairs]
        return lacks[0] or lacks[2], lacks[3] or lacks[4]

    def _read_slowly(self, message: Span) -> Row:
        row = history(message)
        step, at, loss, throughput, grad_norm, *beside = [
            None if name is None else _as_number(row.get(name)) for name in self._names
        ]
        return Row(step_of(step), true_time(at), loss, throughput, grad_norm, False, *beside)


def whole(text: bytes) -> int | None:
    """Return the whole number in JSON text (``7``, ``7.0``, ``1e+06``), or ``None``."""
    try:
        return step_of(int(text))
    except ValueError:
        return step_of(number(text))


def _as_number(value: object) -> float | None:
    if isinstance(value, str):
        return number(value.encode())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _needles(name: str | None, layout: KeyLayout) -> Needles:
    """Return the bytes that may stand before the value of ``name`` in this file."""
    if name is None:
        return ()
    known = layout.keys.get(name)
    spelled = (
        {known}
        if known is not None
        else {_key_bytes([name], layout.style), _key_bytes(name.split("."), layout.style)}
    )
    return tuple(key + VALUE for key in sorted(spelled))


def _key_bytes(parts: Sequence[str], style: int) -> bytes:
    tag = bytes([style << 3 | 2])
    encoded = (part.encode() for part in parts)
    return b"".join(tag + _length(len(part)) + part for part in encoded)


def _length(size: int) -> bytes:
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out)


def _find(message: Span, needles: Needles) -> bytes | None:
    """Return the JSON text of the first item that has one of these keys."""
    buffer, start, end = message
    for needle in needles:
        at = buffer.find(needle, start, end)
        while at >= 0:
            text = at + len(needle) + 1
            size = buffer[text - 1] if text <= end else 128
            if size < 128 and text + size <= end and _is_item(buffer, at, text + size):
                return buffer[text : text + size]
            at = buffer.find(needle, at + 1, end)
    return None


def _is_item(buffer: bytes, at: int, end: int) -> bool:
    """Tell whether ``[at, end)`` is the whole content of one item."""
    size = end - at
    if size < 128:
        return buffer[at - 1] == size and buffer[at - 2] == 10
    header = b"\x0a" + _length(size)
    return buffer[at - len(header) : at] == header


STEPS_UNIT = "it/s"
_ENOUGH = 3
"""Rows that tell how long a step takes."""


class StepRate:
    """Fills in ``throughput`` (steps per second) row by row, for a run that logs none.

    A row at the step or the time of the one before says nothing; one at a lower step or an
    earlier time (a resumed run) starts anew. Where a metric of training is logged, a row without
    one (an evaluation) says nothing either: its step may be any.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._at = 0.0

    def fill(self, rows: Iterable[Row], keys: MetricKeys) -> Iterator[Row]:
        """Yield each row, with its rate where the rows before it give one."""
        trains = keys.trains
        for row in rows:
            seconds = None if trains and not row.trains else self._seconds(row)
            yield row if seconds is None else row._replace(throughput=1.0 / seconds)

    def _seconds(self, row: Row) -> float | None:
        if row.step is None or row.at is None:
            return None
        steps = row.step - self._step if self._step is not None else -1
        passed = row.at - self._at
        if steps == 0 or (steps > 0 and passed == 0):
            return None
        self._step, self._at = row.step, row.at
        return passed / steps if steps > 0 and passed > 0 else None


def rated(rows: Iterable[Row], keys: MetricKeys, rate: StepRate) -> list[Row]:
    """Return rows with a throughput: the logged one, else ``rate``'s.

    Rows that tell their batch keep none: the fold counts its samples over time (C-05).
    """
    return list(rows if keys.throughput or keys.batch else rate.fill(rows, keys))


def usual_step_seconds(rows: Sequence[Row]) -> float | None:
    """Return the median of seconds per step between one logged row and the next.

    Where enough rows tell a metric of training, by these alone: an evaluation's step may be any.
    """
    trained = [row for row in rows if row.trains]
    told = trained if len(trained) >= _ENOUGH else rows
    timed = [(row.step, row.at) for row in told if row.step is not None and row.at is not None]
    paces = [gap / steps for gap, steps in timed_steps(timed)]
    return median(paces) if paces else None
