"""C-25 of the rows: who writes them, one training after another or two by turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.observed import LogValue, Row
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.model.trend import Writer, Writers
from cockpit.rules import present
from cockpit.rules.metrics.usual import frozen

LEAP: Final = 2
"""Strides beyond which a step forward is no next step of the same writer's."""
EXACT: Final = 4
"""Part of a stride within which a writer must go on that may as well have ended."""
MOST: Final = 4
"""Writers beside the present one that are distinguished."""
SILENT: Final = 32
"""Rows of others, at least, after which the present writer has ended."""
PATIENT: Final = 4
"""Times its longest silence so far after which a writer has ended."""
SEEN_ONCE: Final = 8
UNPROVEN: Final = 256
PROVEN: Final = 4096
"""Rows for which a writer that was left is remembered: after one row, some, or having gone on."""
FADES: Final = 8
"""Part of the difference by which a writer's stride follows one that is shorter."""


class _Head:
    """A writer while its rows are followed; the fields are those of a ``Writer``."""

    __slots__ = ("at", "gap", "mixed", "passed", "proven", "row", "step", "stride")

    def __init__(self, of: Writer) -> None:
        self.step, self.stride, self.at = of.step, of.stride, of.at
        self.row, self.gap, self.proven = of.row, of.gap, of.proven
        self.passed, self.mixed = of.passed, of.mixed

    @property
    def patience(self) -> int:
        """For how many rows it is remembered."""
        if self.proven:
            return max(PROVEN, PATIENT * self.gap)
        return UNPROVEN if self.stride else SEEN_ONCE

    def misfit(self, step: int) -> int | None:
        """Return by how much a step misses its next one; ``None`` if it is not this writer's."""
        gap = step - self.step
        if gap <= 0 or gap > LEAP * self.stride > 0:
            return None
        return abs(gap - self.stride)

    def goes_on(self, step: int, present: _Head) -> int | None:
        """Return the same of a writer that was left, if it is likely not to have ended."""
        off = self.misfit(step)
        if off is None or self.proven:
            return off
        if not self.stride:  # of one row: only where the present one's steps make less sense
            return off if not present.stride or 2 * off <= present.stride else None
        return off if EXACT * off <= self.stride else None

    def move(self, step: int, at: float | None, row: int) -> None:
        """Take its next step, in the row of that number."""
        gap = step - self.step
        if gap > self.stride:
            self.stride = gap
        elif gap > 0:
            self.stride -= -(-(self.stride - gap) // FADES)
        self.gap = max(self.gap, row - self.row - 1)
        self.step, self.row = step, row
        self.at = self.at if at is None else at

    def freeze(self) -> Writer:
        """Return the value."""
        return frozen(Writer, self)


class WriterFold:
    """Accumulates ``Writers``; the folds follow one writer, the rows of others are set aside.

    That is the one whose row came before a second one showed, until it is silent for long. After
    ``take``, ``switched`` tells that the row before was another writer's, ``turned`` that the folds
    start again: with another writer, or without the rows in which two were taken for one.
    """

    def __init__(self, value: Writers) -> None:
        self.rows, self.aside = value.rows, value.aside
        self.turns, self.since, self.again = value.turns, value.since, value.again
        self._left = [_Head(each) for each in value.left]
        self._present = None if value.present is None else _Head(value.present)
        self._newest = self._present if value.newest is None else self._left[value.newest]
        self.switched = self.turned = False
        self.expected: int | None = None
        """The next step of the present writer while there is no other; else ``None``."""
        self._expect()

    def _expect(self) -> None:
        present = self._present
        alone = present is not None and present.stride > 0 and not self._left
        self.expected = present.step + present.stride if present is not None and alone else None

    def next_to(self, step: int) -> bool:
        """Tell whether a step can be the present writer's next one; no, while that is unknown."""
        present = self._present
        return present is not None and present.stride > 0 and present.misfit(step) is not None

    def go_on(self, step: int, at: float | None) -> None:
        """Take the step that is ``expected``, as ``take`` does: most rows have it."""
        present = self._present
        assert present is not None
        self.rows += 1
        present.step, present.row = step, self.rows
        if at is not None:
            present.at = at
        self.expected = step + present.stride

    def ahead(self, steps: Sequence[int]) -> int:
        """Return how many of the next steps are the expected ones, one after the other."""
        if self.expected is None or self._present is None:
            return 0
        stride = self._present.stride
        expected = range(self.expected, self.expected + stride * len(steps), stride)
        if tuple(expected) == tuple(steps):
            return len(steps)
        pairs = zip(steps, expected, strict=True)
        return next(at for at, (step, due) in enumerate(pairs) if step != due)

    def go_far(self, step: int, at: float, rows: int) -> None:
        """Take so many rows of ``expected`` steps, the last of which is given."""
        self.rows += rows - 1
        self.go_on(step, at)

    def take(self, step: int, at: float | None) -> bool:
        """Take a row's step and return whether it is set aside."""
        self.rows += 1
        self.switched = self.turned = aside = False
        if self._present is None:
            self._begin(step, at)
        else:
            self._forget(self._present)
            aside = self._follow(self._present, step, at)
        self._expect()
        return aside

    def _follow(self, present: _Head, step: int, at: float | None) -> bool:
        if step == present.step:
            return self._take_present(present, step, at)
        least = present.misfit(step)
        found = None if least is None else present
        for head in self._left:
            off = head.goes_on(step, present)
            if off is not None and (least is None or off < least):
                found, least = head, off
        if found is None:
            self.again = 0
            self._left_for(step, at, present)
            return False
        if found is present:
            return self._take_present(present, step, at)
        if found.passed and not found.proven and not self.again:
            self.again += 1
            self._left = [head for head in self._left if head is not found]
            self._left_for(step, at, present)
            return False
        return self._take_former(found, step, at)

    def _left_for(self, step: int, at: float | None, present: _Head) -> None:
        """Leave the present writer for another instance, or for one that is seen first."""
        self._left = [*self._left, present][-MOST:]
        self._begin(step, at)

    def _begin(self, step: int, at: float | None) -> None:
        self._present = self._newest = _Head(Writer(step=step, at=at, row=self.rows))

    def _take_present(self, present: _Head, step: int, at: float | None) -> bool:
        before, self.switched = present.step, self._newest is not present
        self._newest, self.turned, present.mixed = present, present.mixed, False
        self.turns += self.switched
        for head in self._left:
            head.passed = head.passed or before < head.step <= step
        if not present.stride:  # the row may be another writer's: this one would go on soon
            seen = Writer(step=before, at=present.at, row=present.row)
            self._left = [*self._left, _Head(seen)][-MOST:]
        present.move(step, at, self.rows)
        return False

    def _take_former(self, head: _Head, step: int, at: float | None) -> bool:
        """Take a row of a writer that was left, which is the present one if that has ended."""
        present = self._present
        assert present is not None
        if self._newest is not head:
            self.switched = True
            self.turns += 1
            self.since = at if self.since is None else self.since
            present.mixed = present.mixed or not present.proven
            head.proven = present.proven = True
        self._newest = head
        head.move(step, at, self.rows)
        if self.rows - present.row <= max(SILENT, PATIENT * present.gap):
            self.aside += 1
            return True
        self._left = [each for each in self._left if each is not head] + [present]
        self._present, self.turned, head.mixed = head, True, False
        return False

    def _forget(self, present: _Head) -> None:
        """Forget who was left for too long: no second one writes where none has gone on."""
        if not self._left:
            return
        kept = [head for head in self._left if self.rows - head.row <= head.patience]
        if len(kept) == len(self._left):
            return
        self._left = kept
        if self._newest not in kept:
            self._newest = present
        if not any(head.proven for head in kept):
            self.turns, self.since = 0, None

    def freeze(self) -> Writers:
        """Return the value."""
        other = None if self._newest is self._present else self._newest
        return frozen(
            Writers,
            self,
            present=None if self._present is None else self._present.freeze(),
            left=tuple(head.freeze() for head in self._left),
            newest=None if other is None else self._left.index(other),
        )


TURNS = 8
"""How often two must have taken turns."""
APART = 0.02
"""Share by which their losses differ at least."""


class Mixed(NamedTuple):
    """Two that write one log: the ``own`` one where that is known, and both by their steps."""

    low: Writer
    high: Writer
    own: Writer | None


def mixed(run: RunSpec, history: History) -> Mixed | None:
    """Return the two runs of a log; ``None`` where it is one's, or a tracker tells the steps."""
    if history.trend is not history.log_trend and history.trend.rows:
        return None
    writers, log = history.log_trend.writers, history.facets.log.value
    first = writers.present
    going_on = [each for each in writers.left if each.proven]
    other = max(going_on, key=lambda each: each.row, default=None)
    if log is None or first is None or other is None or writers.turns < TURNS:
        return None
    silent = writers.rows - min(first.row, other.row) > PATIENT * max(first.gap, other.gap, 1)
    near = abs(first.step - other.step) <= LEAP * max(first.stride, other.stride, SEEN_ONCE)
    losses = [_loss_near(each, log.rows) for each in (first, other)]
    if silent or near or None in losses:
        return None
    one, two = (each or 0.0 for each in losses)
    if abs(one - two) <= APART * max(abs(one), abs(two)):
        return None
    low, high = sorted((first, other), key=lambda each: each.step)
    final = run.final_step
    return Mixed(low, high, low if final is not None and low.step <= final < high.step else None)


def _loss_near(writer: Writer, rows: tuple[Row, ...]) -> float | None:
    return next((row.loss for row in reversed(rows) if _is_of(row, writer) and row.loss), None)


def _is_of(row: Row, writer: Writer) -> bool:
    reach = PATIENT * max(writer.stride, 1)
    return row.step is not None and abs(row.step - writer.step) <= reach


def log_mixed(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-25: a warning; it is no second job that could be stopped."""
    found = mixed(run, history)
    if found is None:
        return
    low, high = (wording.step(each.step) for each in (found.low, found.high))
    whose = "whose is whose is not known: step and loss are unknown"
    if found.own is not None:
        whose = f"the one beyond the final step of {wording.step(run.final_step)} is another run's"
    yield Alert(
        key=f"C-25:{run.name}:log",
        severity=Severity.WARNING,
        title="The log holds the steps of two runs",
        since=present.first(history.log_trend.writers.since, history.now),
        evidence=present.evidence(
            history.facets.log.source, f"by turns at step {low} and at step {high}; {whose}"
        ),
        confidence="likely",
        next_action="let each run write a log of its own",
    )


def without_the_other(run: RunSpec, history: History) -> Facets:
    """Return the facets without the loss of rows that may be another run's."""
    found, log = mixed(run, history), history.facets.log
    if found is None or log.value is None:
        return history.facets
    own = found.own
    rows = (
        row if own is not None and _is_of(row, own) else row._replace(loss=None)
        for row in log.value.rows
    )
    value = log.value.model_copy(update={"rows": tuple(rows)})
    facet: Facet[LogValue] = log.model_copy(update={"value": value})
    return history.facets.model_copy(update={"log": facet})
