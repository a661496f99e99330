"""C-12, the fold: a restarted training's loss beside that of the instance before it.

While it catches up, each step that both have logged is compared. The former's steps are kept as a
sample that both instances choose alike: by a hash of the step (coordinated sampling: Cohen, 1997),
so many of each order of rarity, the newest of each, so that a short way back is known step by
step and a long one here and there. Beyond it the loss is held against the former's trend, a line
through medians by the median of all slopes (Theil, 1950; Sen, 1968). A loss falls ever more slowly,
so what may be expected lies between that line and the level that it starts from.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations
from math import isfinite
from statistics import median
from typing import Any, Final

from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Line, Resumption, Seam
from cockpit.rules.metrics.usual import NORMAL, SoundColumns, frozen, has_value

RANKS: Final = 14
EACH: Final = 14
"""Ranks of rarity (a step is of the next one half as often); the steps that are kept of each."""
HASH: Final = 2654435761
"""Knuth's multiplicative hash: both instances of a run choose the same steps by it."""
MASK: Final = 0xFFFFFFFF
BLOCK: Final = 25
"""Rows whose median is one point of the trend."""
POINTS: Final = 8
"""Points of the trend at most: it is that of the newest 200 rows."""
FEWEST: Final = 4
"""Points without which there is no trend."""
LEVEL: Final = 50
"""Rows after a restart whose median is held against the trend (SPEC C-12)."""
EVERY: Final = 10
"""Rows between two such looks."""
LASTING: Final = 1 + LEVEL // EVERY
"""Looks in a row that must disagree: then no row of the first of them is in the last one, and a
loss that swings (an order of the data, an unlucky stretch) has had the time to come back."""
CLEARLY: Final = 2.0
"""Times the least difference that counts from which on one look is enough."""
SWING: Final = 1.5
"""How much farther it must be off than any of the trend's points is: the loss swings so far."""
ERRORS: Final = 4.0
"""Standard errors by which the two must differ besides: noise is no mismatch."""
DIFFERING: Final = 3
"""Steps that must differ (SPEC C-12)."""
SHIFTS: Final = 4
ALIKE: Final = 0.5
"""Share of a shift from which on a stair that training made by itself explains it."""
EFFICIENCY: Final = 1.2533
"""Standard error of a median in those of a mean, of normal noise: the square root of pi / 2."""


class SeamFold:
    """Accumulates a ``Resumption``.

    Steps in an excursion of the loss are not kept: who goes back to before one does not want it
    again. A start from the lowest steps of all is no resume: it loads nothing (whether it should
    have, its first step tells), or the step counts within an epoch. A pause is a seam too, for
    some restarts replay nothing. While two write by turns (``WriterFold``) what a start's losses
    say is unknown. So is what a shift beyond the replayed steps says where training has made such
    stairs by itself before, of a schedule or of epochs.
    """

    def __init__(self, value: Resumption, run: RunSpec) -> None:
        limits = run.thresholds
        self._catchup, self._share = limits.resume_catchup, limits.resume_after
        self._window = limits.resume_window
        self._kept: list[dict[int, float]] = [{} for _ in range(RANKS)]
        for step, loss in value.kept:
            self._kept[rank(step)][step] = loss
        self.origin, self.stride = value.origin, value.stride
        self.step, self.at = value.step, value.at
        self.levels = deque(value.levels, POINTS)
        self.block = list(value.block)
        self.newest = deque(value.newest, LEVEL)
        self.seam, self.found, self.shifts = value.seam, value.found, value.shifts
        self.rose, self.fell = value.rose, value.fell
        self.lr = value.lr

    def add(self, row: Row, back: bool, paused: bool, loss: float | None, astray: bool) -> None:
        """Take one row and its loss.

        ``back`` tells that its step went back, ``paused`` that no step was logged for a while
        before it, ``astray`` that the loss is in an excursion.
        """
        step, former = row.step, self.step
        if step is None:
            return
        if (back or paused) and former is not None and step != former:
            self._begin(step, former, row.at, back)
        if row.lr is not None:
            self._rated(row.lr)
        if loss is not None and step != former and isfinite(loss):
            self._take(step, loss, astray)
        if loss is not None or back:
            if former is not None and step > former:
                self.stride = step - former
            self.step, self.at = step, row.at
        if self.origin is None or step < self.origin:
            self.origin = step

    def _rated(self, lr: float) -> None:
        """Take a row's learning rate: the first one after a restart is noted beside the former."""
        seam = self.seam
        if seam is not None and seam.lr_now is None:
            self.seam = seam.model_copy(update={"lr_now": lr})
        self.lr = lr

    def sure(self, rows: SoundColumns) -> bool:
        """Tell whether no start is looked at in such rows."""
        seam = self.seam
        if self.step is None or seam is None:
            return self.step is not None
        rated = seam.lr_now is not None or not has_value(rows.lrs)
        return rated and rows.steps[0] > seam.last + self._window

    def take(self, rows: SoundColumns, astray: bool) -> None:
        """Take such rows; ``astray`` tells that the last one's loss is in an excursion."""
        pairs = list(zip(rows.steps, rows.losses, strict=True))
        last = pairs.pop() if astray else None
        self.lr = next((lr for lr in reversed(rows.lrs) if lr is not None), self.lr)
        for step, loss in pairs:
            rare = 32 - (step * HASH & MASK).bit_length()
            kept = self._kept[rare if rare < RANKS else RANKS - 1]
            kept[step] = loss
            if len(kept) > EACH:
                del kept[next(iter(kept))]
        while pairs:
            room = BLOCK - len(self.block)
            self.block += pairs[:room]
            self._end_block(pairs[:room][-1][0])
            pairs = pairs[room:]
        if last is not None:
            self._take(*last, astray)
        former = rows.steps[-2] if len(rows.steps) > 1 else self.step
        self.stride = rows.steps[-1] - (former or 0)
        self.step, self.at = rows.steps[-1], rows.ats[-1]

    def _end_block(self, step: int) -> None:
        """Make a point of the block if it is full; ``step`` is its last one."""
        if len(self.block) < BLOCK:
            return
        self.levels.append(_point(self.block))
        self.block = []
        if self.seam is None or step > self.seam.last + self._window:
            self._stairs()

    def forget(self) -> None:
        """Forget the newest start: another writer writes beside it, and what it loaded is unknown.

        Its rows were taken for the other writer's; the trend so far may mix both.
        """
        self.seam = None
        self.newest.clear()
        self.levels.clear()
        self.block = []

    def _begin(self, step: int, former: int, at: float | None, back: bool) -> None:
        # The trend of what was logged so far, None where that is too little
        points = [*self.levels]
        if len(self.block) >= BLOCK // 2:
            points = [*points, _point(self.block)][-POINTS:]
        seam, line = self.seam, (None if len(points) < FEWEST else line_through(points))
        if not back and seam is not None and former <= seam.last + self._window:
            return  # the one before is still looked at
        if back:
            self.found = None
        last = former
        if back and seam is not None and seam.back and step <= seam.last:
            last = max(former, seam.last)  # still within what the instance before has logged
            line = line or seam.line
        if back:
            self.levels.clear()
        self.block = []
        self.newest.clear()
        fresh = back and (self.origin is None or step <= self.origin + self.stride)
        self.seam = None if fresh else Seam(
            last=last, first=step, ended=self.at, at=at, back=back, line=line, lr=self.lr
        )  # fmt: skip

    def _take(self, step: int, loss: float, astray: bool) -> None:
        rare = 32 - (step * HASH & MASK).bit_length()  # as ``rank``: every row comes here
        kept, seam = self._kept[rare if rare < RANKS else RANKS - 1], self.seam
        catching_up = seam is not None and seam.back and step <= seam.last
        if catching_up and seam is not None and step in kept:
            self._compare(seam, step, loss, kept[step])
        if astray:
            kept.pop(step, None)
            return
        kept[step] = loss
        if len(kept) > EACH:
            del kept[next(iter(kept))]
        if catching_up:
            return
        self.block.append((step, loss))
        self._end_block(step)
        if seam is not None and step <= seam.last + self._window:
            self._beyond(seam, step, loss)

    def _compare(self, seam: Seam, step: int, loss: float, former: float) -> None:
        change: dict[str, Any] = {"compared": seam.compared + 1}
        delta = loss - former
        if abs(delta) > self._catchup and abs(delta) > 1.5 * max(unit(loss), unit(former)):
            change["differ"] = seam.differ + 1
            if abs(delta) > abs(seam.worst):
                change |= {"worst": delta, "worst_step": step}
        self.seam = seam.model_copy(update=change)
        self._note()

    def _beyond(self, seam: Seam, step: int, loss: float) -> None:
        self.newest.append((step, loss))
        after = seam.after + 1
        self.seam = seam = seam.model_copy(update={"after": after})
        if after >= LEVEL and after % EVERY == 0 and seam.line is not None:
            found, clearly = self._held_against(seam.line, seam.off)
            looks = max(seam.looks_off + 1, LASTING if clearly else 0) if found["off"] else 0
            self.seam = seam.model_copy(update={**found, "looks_off": looks})
            self._note()

    def _stairs(self) -> None:
        """Note how far the newest two points are off the line of those before: no restart did it.

        Most are between those before, or about there: then nothing is to be seen.
        """
        if len(self.levels) < FEWEST + 2:
            return
        *points, left, right = self.levels
        level, edge = (left[1] + right[1]) / 2, points[-1][1]
        if abs(level - edge) <= self._share * abs(edge):
            return
        line, middle = line_through(points), (left[0] + right[0]) / 2
        there = line.level + line.slope * (middle - line.step)
        expected = min(max(level, min(there, line.level)), max(there, line.level))
        far = level - expected
        if not expected or abs(far) <= ERRORS * doubt(line, middle, 0.0):
            return
        share = far / abs(expected)
        self.rose, self.fell = max(self.rose, share), max(self.fell, -share)

    def _held_against(self, line: Line, was_off: bool) -> tuple[dict[str, Any], bool]:
        """Return the median of the newest rows, what is expected there, and whether it is off.

        And whether it is off so clearly that no later look need say so too.

        Far from its beginning the line says little: what was off comes back to between the two.
        """
        losses = sorted(loss for _, loss in self.newest)
        level = median(losses)
        middle = sum(step for step, _ in self.newest) / len(losses)
        there = line.level + line.slope * (middle - line.step)
        low, high = min(there, line.level), max(there, line.level)
        expected = (low + high) / 2 if was_off else min(max(level, low), high)
        spread = (losses[(3 * LEVEL) // 4] - losses[LEVEL // 4]) / 1.349
        error = math.hypot(
            EFFICIENCY * spread / math.sqrt(LEVEL), doubt(line, middle, EFFICIENCY * spread)
        )
        far = abs(level - expected)
        least = max(self._share * abs(expected), ERRORS * error, SWING * line.most)
        off = far > least
        stair = self.rose if level > expected else self.fell
        off = off and stair < ALIKE * far / (abs(expected) or math.inf)
        return {"level": level, "expected": expected, "off": off}, far > CLEARLY * least

    def _note(self) -> None:
        """Keep a seam that does not fit for as long as it is the last of its kind."""
        seam = self.seam
        if seam is None:
            return
        wrong = seam.looks_off >= LASTING or seam.differ >= DIFFERING
        if seam.back:
            self.found = seam if wrong else None
            return
        others = tuple(each for each in self.shifts if each.at != seam.at)
        self.shifts = (*others, seam)[-SHIFTS:] if wrong else others

    def freeze(self) -> Resumption:
        """Return the value."""
        kept = tuple(pair for kept in self._kept for pair in kept.items())
        return frozen(Resumption, self, kept=kept)


def rank(step: int) -> int:
    """Return how rare a step is: one in two is of rank 0, one in four of rank 1 (Knuth's hash)."""
    return min(RANKS - 1, 32 - (step * HASH & MASK).bit_length())


def unit(value: float) -> float:
    """Return the unit of the last digit in which a figure was logged: 0.01 of ``2.31``."""
    exponent = Decimal(repr(value)).as_tuple().exponent
    return 10.0**exponent if isinstance(exponent, int) else 0.0


def line_through(points: Sequence[tuple[float, float]]) -> Line:
    """Return the Theil-Sen line of (step, level) points, given at the last of them."""
    slopes = [
        (right[1] - left[1]) / (right[0] - left[0])
        for left, right in combinations(points, 2)
        if right[0] != left[0]
    ]
    slope = median(slopes) if slopes else 0.0
    last = points[-1][0]
    level = median(each + slope * (last - step) for step, each in points)
    off = [abs(each + slope * (last - step) - level) for step, each in points]
    center = sum(step for step, _ in points) / len(points)
    return Line(
        step=last,
        level=level,
        slope=slope,
        scatter=NORMAL * median(off),
        most=max(off),
        points=len(points),
        center=center,
        width=math.sqrt(sum((step - center) ** 2 for step, _ in points)),
    )


def doubt(line: Line, step: float, noise: float) -> float:
    """Return the standard error of what a line gives at ``step``: that of a prediction.

    It is as for a line by least squares (Draper and Smith, Applied Regression Analysis, 1.4). The
    scatter of a few points may be small by chance: never below what the rows' ``noise`` makes.
    """
    scatter = max(line.scatter, noise / math.sqrt(BLOCK))
    far = (step - line.center) / line.width if line.width else 0.0
    return scatter * math.sqrt(1 + 1 / line.points + far * far)


def _point(block: Sequence[tuple[int, float]]) -> tuple[float, float]:
    return sum(step for step, _ in block) / len(block), median(loss for _, loss in block)
