"""A metric over a run as it is drawn: parts of bounded number, whatever the length of the run.

Steps are whole numbers of the trainer, times are seconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.observed import Column
from cockpit.model.wording import share as share_of

LOSS: Final = "loss"
THROUGHPUT: Final = "throughput"
GRAD_NORM: Final = "grad norm"
LEARNING_RATE: Final = "learning rate"
USUAL: Final = (LOSS, THROUGHPUT, GRAD_NORM, LEARNING_RATE)
"""Metrics that are asked for by what they are, whatever a trainer calls them."""
WHOLE: Final = 1.0


class Part(NamedTuple):
    """What was logged over steps ``[first, last]`` and times ``[begin, end]``.

    ``low``, ``high`` and ``mean`` are of its ``finite`` numbers, ``None`` where it has none;
    ``nonfinite`` counts the others (NaN, ±inf).
    """

    first: int
    last: int
    begin: float | None
    end: float | None
    low: float | None
    high: float | None
    mean: float | None
    finite: int
    nonfinite: int

    @property
    def column(self) -> Column:
        """The part as a chart's column over steps."""
        return Column(self.first, self.last, self.low, self.high, self.mean, self.nonfinite)

    @property
    def timed(self) -> Column | None:
        """The part as a chart's column over times; ``None`` where it tells none."""
        if self.begin is None or self.end is None:
            return None
        at = int(self.begin), int(self.end)
        return Column(*at, self.low, self.high, self.mean, self.nonfinite)


class Point(NamedTuple):
    """One logged value: its step, its time where the row tells it."""

    step: int
    at: float | None
    value: float


class Restart(NamedTuple):
    """Where steps fell back: the first step that was logged again, and when."""

    step: int
    at: float | None


class Span(NamedTuple):
    """What is asked for: an extent (of steps, or of times) in at most ``most`` parts."""

    by_time: bool = False
    low: float | None = None
    high: float | None = None
    most: int = 400


class Curve(NamedTuple):
    """One metric, in order of its steps.

    ``former`` is what was logged before a restart at steps that were trained again. ``extent`` and
    ``times`` are those of the whole run. ``broken`` is the first of the non-finite values that go
    on to the newest (``broken_rows`` of them). ``why`` tells why nothing is known; ``note`` how
    what is known was come by, where it is not every row.
    """

    metric: str
    unit: str | None = None
    parts: tuple[Part, ...] = ()
    former: tuple[Part, ...] = ()
    restarts: tuple[Restart, ...] = ()
    extent: tuple[int, int] | None = None
    times: tuple[float, float] | None = None
    newest: Point | None = None
    broken: Point | None = None
    broken_rows: int = 0
    rows: int = 0
    share: float = WHOLE
    note: str = ""
    why: str = ""


class Curves(NamedTuple):
    """What was asked for, in its order; ``names`` are the metrics that there are."""

    names: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()


def of_columns(metric: str, columns: Sequence[Column], share: float) -> Curve:
    """Return a curve of which only the columns over its steps are known."""
    parts = tuple(
        Part(each.first, each.last, None, None, each.low, each.high, each.mean,
             int(each.low is not None), each.nonfinite)
        for each in columns
    )  # fmt: skip
    extent = (min(p.first for p in parts), max(p.last for p in parts)) if parts else None
    return Curve(metric, parts=parts, extent=extent, share=share)


def step_at(parts: Iterable[Part], at: float) -> int | None:
    """Return the last step that was logged by a time; ``None`` where none was, or none is timed."""
    return max((each.last for each in parts if each.end is not None and each.end <= at),
               default=None)  # fmt: skip


def step_then(curve: Curve, at: float) -> int | None:
    """Return the last step that was logged by a time; ``None`` where its parts do not tell."""
    if curve.times is not None and curve.newest is not None and at >= curve.times[1]:
        return curve.newest.step
    later = any(each.end is not None and each.end > at for each in curve.parts)
    return step_at(curve.parts, at) if later else None


def why_empty(curve: Curve, by_time: bool) -> str:
    """Return why there is nothing to draw of a curve."""
    if curve.why:
        return curve.why
    if not curve.rows and not curve.parts:
        read = f"none of it in the {share_of(curve.share)} that is read"
        return "nothing was logged yet" if curve.share >= WHOLE else read
    if by_time and curve.times is None:
        return "its rows have no time"
    if curve.parts and not any(each.finite for each in curve.parts):
        return "all is NaN or infinite"
    return "nothing was logged in this part of the run"


def curves_in(content: Sequence[Any]) -> Curves:
    """Return curves that crossed as JSON; raises ``TypeError``, ``ValueError``, ``LookupError``."""
    names, curves = content
    return Curves(tuple(str(name) for name in names), tuple(_curve_in(each) for each in curves))


def _curve_in(content: Sequence[Any]) -> Curve:
    curve = Curve(*content)
    return curve._replace(
        parts=tuple(Part(*each) for each in curve.parts),
        former=tuple(Part(*each) for each in curve.former),
        restarts=tuple(Restart(*each) for each in curve.restarts),
        extent=None if curve.extent is None else (curve.extent[0], curve.extent[1]),
        times=None if curve.times is None else (curve.times[0], curve.times[1]),
        newest=None if curve.newest is None else Point(*curve.newest),
        broken=None if curve.broken is None else Point(*curve.broken),
    )
