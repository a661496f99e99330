"""What a scenario is: a stage made, when the fault comes, and what must and may be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.judgement.clock import HOUR
from bench.judgement.stage import CADENCE, Stage

Build = Callable[[Stage], None]


@dataclass(frozen=True)
class Scenario:
    """One generated run. Times are seconds since its start.

    ``wants`` is the condition that must open after ``fault`` and not later than ``within`` after
    it (what SPEC's window implies) and one look; ``None`` for a look-alike, of which nothing
    may be said. ``like`` is what that one looks like. ``also`` may open besides: one fault has
    several true consequences. ``over`` is when the cause ends: a window and a look later the
    alert must be closed.
    """

    name: str
    wants: str | None
    like: str
    build: Build
    lasts: float
    fault: float = 0.0
    within: float = 0.0
    also: frozenset[str] = frozenset()
    over: float | None = None
    closes: float = 0.0
    every: float = CADENCE

    @property
    def healthy(self) -> bool:
        """Tell whether nothing of it is a fault."""
        return self.wants is None


ALL: list[Scenario] = []


def fault(
    condition: str,
    at: float,
    within: float,
    *,
    lasts: float | None = None,
    also: str = "",
    over: float | None = None,
    closes: float = 0.0,
) -> Callable[[Build], Build]:
    """Add a run whose fault comes ``at`` hours; ``within`` is in hours, too, as all times here.

    ``lasts`` is until two hours after the fault must be seen where it is not given.
    """

    def add(build: Build) -> Build:
        until = at + within + 2 if lasts is None else lasts
        if over is not None and lasts is None:
            until = max(until, over + closes + 1)
        ALL.append(
            Scenario(
                name=_name(build), wants=condition, like=condition, build=build,
                lasts=until * HOUR, fault=at * HOUR, within=within * HOUR,
                also=frozenset(also.split()), over=None if over is None else over * HOUR,
                closes=closes * HOUR,
            )
        )  # fmt: skip
        return build

    return add


def alike(like: str, lasts: float, *, also: str = "") -> Callable[[Build], Build]:
    """Add a run that only looks like a condition; ``lasts`` is in hours."""

    def add(build: Build) -> Build:
        ALL.append(
            Scenario(
                name=_name(build), wants=None, like=like, build=build, lasts=lasts * HOUR,
                also=frozenset(also.split()),
            )
        )  # fmt: skip
        return build

    return add


def _name(build: Build) -> str:
    words: str = getattr(build, "__name__", "scenario")
    return words.strip("_").replace("_", " ")
