"""One poller per facet and place away from this machine: one request for all its runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.run import RunSpec
from cockpit.watch.polling.cadences import DEADLINES, FASTEST, back_off
from cockpit.watch.polling.poller import (
    EARLY,
    LONGEST_WAIT,
    REFUSALS,
    SPACING,
    AnyFacet,
    Ask,
    Deliver,
    pause,
)
from cockpit.watch.polling.supervise import Supervisor

UNREACHED = frozenset({ErrorKind.REFUSED, ErrorKind.DNS, ErrorKind.TLS, ErrorKind.UNAUTHORIZED})
BEAT = FASTEST.away
"""Seconds between the moments at which a place is asked: what is due then goes in one trip."""
LATER = 0.1
"""Share by which the wait that a place asked for is stretched: not all may come back at once."""


@dataclass
class Rest:
    """Until when a place wants to be left alone, whatever facet it was asked for (monotonic)."""

    until: float = float("-inf")
    refused_until: float = float("-inf")
    """Until when nobody asks by himself: it could not be reached at all."""
    began: float | None = None
    """When it was first asked: from then on its moments count."""

    def beat(self, planned: float, cadence: float) -> float:
        """Return the moment nearest to when a request is planned, if that is near enough."""
        if self.began is None:
            return planned
        since = planned - self.began
        off = since - round(since / BEAT) * BEAT
        return planned - off if abs(off) <= EARLY * cadence else planned


class AwayPoller:
    """Asks for one facet of all runs of one place, in one request.

    What the place refuses, or does not answer in time, it has refused to all: the request is
    never split, and there is one back-off. Nothing wakes it but a person: what changes there
    is not seen from here.
    """

    def __init__(
        self,
        key: tuple[str, str],
        ask: Ask,
        cadence: Callable[[RunSpec], float],
        clock: Clock,
        deliver: Deliver,
        supervisor: Supervisor,
        rest: Rest,
    ) -> None:
        self._facet, self._place = key
        self._ask = ask
        self._cadence = cadence
        self._clock = clock
        self._deliver = deliver
        self._supervisor = supervisor
        self._rest = rest
        self._runs: dict[str, RunSpec] = {}
        self._unasked: set[str] = set()
        """Runs whose run file does not ask for this facet."""
        self._due = float("inf")
        self._asked = float("-inf")
        self._failures = 0
        self._bell = asyncio.Event()
        self._random = random.Random()

    def assign(self, runs: Sequence[RunSpec]) -> None:
        """Say which runs live there; a new or changed one is due at once, with all others."""
        old, self._runs = self._runs, {run.name: run for run in runs}
        new = {name for name, run in self._runs.items() if old.get(name) != run}
        self._unasked = (self._unasked - new) & self._runs.keys()
        if new:
            self._due = self._clock.monotonic()
        self._bell.set()

    def wake(self, name: str, *, at_once: bool = False) -> None:
        """Ask for all soon if a person wants it (``at_once``); no other news hurries a place."""
        if at_once and name in self._runs:
            self._due = min(self._due, max(self._clock.monotonic(), self._asked + SPACING))
            self._rest.refused_until = float("-inf")
            self._bell.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            runs = [run for name, run in self._runs.items() if name not in self._unasked]
            rested = max(self._rest.until, self._rest.refused_until)
            due = max(self._due, rested) if runs else float("inf")
            wait = due - self._clock.monotonic()
            if wait <= 0.0:
                await self._poll(runs)
            else:
                await pause(self._clock, min(wait, LONGEST_WAIT), self._bell)

    async def _poll(self, runs: Sequence[RunSpec]) -> None:
        self._asked, self._due = self._clock.monotonic(), float("inf")
        self._rest.began = self._asked if self._rest.began is None else self._rest.began
        seconds = DEADLINES[self._facet].at(self._place)
        what = f"{self._facet} at {self._place}"
        answers = await self._supervisor.run(what, seconds, self._ask(runs))
        if isinstance(answers, Problem):
            failed = AnyFacet(source=self._place, error=answers, since=self._clock.now())
            answers = {run.name: failed for run in runs}
        self._reschedule(runs, answers)
        self._deliver(self._facet, answers)

    def _reschedule(self, runs: Sequence[RunSpec], answers: Mapping[str, AnyFacet]) -> None:
        self._unasked |= {name for name, facet in answers.items() if not facet.configured}
        refused = _refused([facet for facet in answers.values() if facet.configured])
        self._failures = self._failures + 1 if refused else 0
        hurried = min(runs, key=self._cadence)
        cadence = self._cadence(hurried)
        planned = self._rest.beat(self._asked + cadence, cadence)
        if refused:
            wait = back_off(cadence, self._failures, self._random.random(), hurried)
            planned = self._clock.monotonic() + wait
        if refused and _out_of_reach(answers.values()):
            self._rest.refused_until = max(self._rest.refused_until, planned)
        self._due = min(self._due, planned)
        asked_for = max((facet.retry_after or 0.0 for facet in answers.values()), default=0.0)
        if asked_for > 0.0:
            left_alone = asked_for * (1.0 + LATER * self._random.random())
            self._rest.until = max(self._rest.until, self._clock.monotonic() + left_alone)


def _out_of_reach(answers: Iterable[AnyFacet]) -> bool:
    """Tell whether nothing at all was answered: that holds for whatever shares its fate."""
    return any(facet.error is not None and facet.error.kind in UNREACHED for facet in answers)


def _refused(answers: Sequence[AnyFacet]) -> bool:
    """Tell whether the place refused: all its runs, or one because there are too many requests."""
    kinds = [facet.error.kind if facet.error is not None else None for facet in answers]
    return ErrorKind.RATE_LIMITED in kinds or (
        bool(kinds) and all(kind in REFUSALS for kind in kinds)
    )
