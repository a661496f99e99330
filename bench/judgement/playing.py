"""A scenario played: what opened when, held against what it says of itself."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench.judgement.clock import START
from bench.judgement.scenario import Scenario
from bench.judgement.stage import Stage
from bench.judgement.watching import Seen, Watch
from cockpit.model.alert import Severity
from cockpit.store.store import Store

Marks = dict[float, int]
"""Steps trained until some moments (s since the start)."""
FOUND, LATE, MISSED, QUIET, NOISY, BROKEN = "found", "late", "missed", "quiet", "noisy", "broken"


@dataclass(frozen=True)
class Played:
    """How one scenario went. ``opened`` holds (condition, key, title, seconds since the start).

    ``delay`` is from the fault to the look that saw it, of which ``allowed`` is what SPEC's
    window and the looks' distance take; ``steps`` are the training steps in it.
    """

    name: str
    wants: str | None
    like: str
    outcome: str
    opened: tuple[tuple[str, str, str, float], ...]
    false: tuple[tuple[str, str, str, float], ...]
    """What opened though nothing was wrong, and beside a fault what is no consequence of it."""
    delay: float | None = None
    allowed: float = 0.0
    steps: int | None = None
    closed: str = ""
    rows: int = 0
    lasted: float = 0.0
    beside: int = 0
    """How many of the false ones opened after a fault."""
    quiet_for: float = 0.0
    """Seconds of it in which nothing was wrong."""
    took: float = 0.0
    faults: tuple[str, ...] = ()


def play(scenario: Scenario, seed: int) -> Played:
    """Play it and return how it went; a fault of the program itself is one of its outcomes."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="judge-") as name:
        stage = Stage(Path(name) / "run", seed)
        seen, watch, marks = asyncio.run(_watched(scenario, stage))
        found = _judged(scenario, seen, marks, watch.faults)
    return replace(found, took=time.perf_counter() - began)


async def _watched(scenario: Scenario, stage: Stage) -> tuple[list[Seen], Watch, Marks]:
    marks: Marks = {}
    scenario.build(stage)
    stage.at(scenario.fault, lambda: marks.setdefault(scenario.fault, stage.trainer.steps))
    store = Store(stage.folder / "store.sqlite")
    try:
        watch = Watch(stage, store)
        await watch.begin()
        for look in range(1, math.floor(scenario.lasts / scenario.every) + 1):
            stage.advance(START + look * scenario.every)
            await watch.look()
            marks[look * scenario.every] = stage.trainer.steps
    finally:
        store.close()
    return list(watch.seen.values()), watch, marks


def _judged(scenario: Scenario, seen: list[Seen], marks: Marks, faults: tuple[str, ...]) -> Played:
    told = [each for each in seen if _counts(scenario, each)]
    opened = sorted(
        (each.alert.id, each.alert.key, each.alert.title, begin)
        for each in told
        for begin, _ in each.spans
    )
    mine = sorted(
        (each for each in told if each.alert.id == scenario.wants),
        key=lambda each: each.opened,
    )
    true = [each for each in mine if each.last >= scenario.fault]
    hit = true[0] if true else None
    moment = None if hit is None else _first(hit, scenario.fault)
    delay = None if moment is None else max(0.0, moment - scenario.fault)
    allowed = scenario.within + scenario.every
    known = scenario.also | {scenario.wants or ""}
    false = tuple(
        each
        for each in opened
        if each[0] not in known
        or (each[0] == scenario.wants and each[0] not in scenario.also and each[3] < scenario.fault)
    )
    outcome = _outcome(scenario, delay, allowed, bool(false))
    return Played(
        name=scenario.name,
        wants=scenario.wants,
        like=scenario.like,
        outcome=BROKEN if faults else outcome,
        opened=tuple(opened),
        false=false,
        delay=delay,
        allowed=allowed,
        steps=None if moment is None else max(0, marks[moment] - marks.get(scenario.fault, 0)),
        closed=_closing(scenario, hit),
        rows=max(marks.values()),
        lasted=scenario.lasts,
        beside=0 if scenario.healthy else sum(each[3] >= scenario.fault for each in false),
        quiet_for=scenario.lasts if scenario.healthy else min(scenario.fault, scenario.lasts),
        faults=faults,
    )


def _counts(scenario: Scenario, seen: Seen) -> bool:
    """Tell whether it is an alarm, or an information that the scenario is about."""
    alert = seen.alert
    return alert.severity is not Severity.INFO or alert.id in (scenario.wants, scenario.like)


def _first(seen: Seen, fault: float) -> float:
    return next((begin for begin, end in seen.spans if end >= fault), seen.opened)


def _outcome(scenario: Scenario, delay: float | None, allowed: float, noisy: bool) -> str:
    if scenario.healthy:
        return NOISY if noisy else QUIET
    if delay is None:
        return MISSED
    return FOUND if delay <= allowed else LATE


def _closing(scenario: Scenario, seen: Seen | None) -> str:
    """Return whether the alert closed by itself once its cause was over, where that is asked."""
    if scenario.over is None or seen is None:
        return ""
    until = scenario.over + scenario.closes + scenario.every
    return "closed" if seen.last <= until else "still open"
