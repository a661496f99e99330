"""One poller per facet for this machine: each run at its own cadence, one bulk in flight."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.run import RunSpec
from cockpit.watch.polling.cadences import DEADLINES, SLOWEST, back_off, cadence_of
from cockpit.watch.polling.preference import LARGE, OTHER
from cockpit.watch.polling.supervise import Supervisor

AnyFacet = Facet[Any]
Ask = Callable[[Sequence[RunSpec]], Coroutine[Any, Any, Mapping[str, AnyFacet]]]
Deliver = Callable[[str, Mapping[str, AnyFacet]], None]

SPACING = 1.0
UNSEEN = 5.0
"""Seconds between two looks at a log that moves all the time, of a run that is on no screen."""
HEAD_START = 20.0
"""Seconds by which a run of one rank is asked before those of the next: none waits for good."""
EARLY = 0.25
"""Share of its cadence by which a run may be asked too early to join a bulk request."""
BATCH = 250
LONGEST_WAIT = 60.0
ALONE_AT_ONCE = 8
FEW = 8
"""Runs of a bulk that missed its deadline which are asked together once more, before each alone."""
REFUSALS = frozenset(
    {
        ErrorKind.UNSUPPORTED,
        ErrorKind.TIMEOUT,
        ErrorKind.REFUSED,
        ErrorKind.RATE_LIMITED,
        ErrorKind.DNS,
        ErrorKind.TLS,
        ErrorKind.UNAUTHORIZED,
        ErrorKind.FORBIDDEN,
    }
)


@dataclass
class Slot:
    """When one run is to be asked about again (monotonic seconds)."""

    run: RunSpec
    due: float
    asked: float = float("-inf")
    failures: int = 0
    alone: bool = False
    """Asked apart from the bulk: with the others of ``few``, or by itself."""
    few: tuple[str, ...] = ()
    busy: bool = False


class Poller:
    """Asks for one facet of the runs that live here.

    A bulk request that misses its deadline is split: its runs are then asked apart, a few
    together and then one by one, so that the one that hangs delays no other, and rejoin the bulk
    when they have answered. On a machine that is merely busy a few together do answer. A run
    whose own source gave it up for lack of an answer is asked alone, too.
    """

    def __init__(
        self,
        facet: str,
        ask: Ask,
        clock: Clock,
        deliver: Deliver,
        supervisor: Supervisor,
        rank: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.facet = facet
        self._rank = rank
        self.swept = True
        self._ask = ask
        self._clock = clock
        self._deliver = deliver
        self._supervisor = supervisor
        self._slots: dict[str, Slot] = {}
        self._bell = asyncio.Event()
        self._apart: set[asyncio.Task[None]] = set()
        self._random = random.Random(facet)

    def assign(self, runs: Sequence[RunSpec]) -> None:
        """Say which runs to ask about; a new or changed one is due at once."""
        now = self._clock.monotonic()
        old, self._slots = self._slots, {}
        for run in runs:
            slot = old.get(run.name)
            same = slot is not None and slot.run == run
            self._slots[run.name] = slot if slot is not None and same else Slot(run, due=now)
        self._bell.set()

    def wake(self, name: str, *, at_once: bool = False) -> None:
        """Ask about a run soon: something of it has changed. Often repeated, it asks once."""
        slot = self._slots.get(name)
        if slot is None:
            return
        now = self._clock.monotonic()
        soon = now if at_once else max(now, slot.asked + self._spacing(slot))
        if soon < slot.due:
            slot.due = soon
            self._bell.set()

    def _spacing(self, slot: Slot) -> float:
        """Return the seconds between two looks at least; well and unseen, a log may wait."""
        if self.facet != "log" or self._rank(slot.run.name) < OTHER:
            return SPACING
        return max(SPACING, min(UNSEEN, slot.run.cadence / 2))

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                due = self._due()
                if not due:
                    await pause(self._clock, self._wait(), self._bell)
                elif due[0].alone:
                    self._ask_apart(due[0])
                else:
                    await self._poll(self._bulk(due))
        finally:
            for task in self._apart:
                task.cancel()

    def _free(self) -> list[Slot]:
        full = len(self._apart) >= ALONE_AT_ONCE
        slots = self._slots.values()
        return [slot for slot in slots if not slot.busy and not (slot.alone and full)]

    def _due(self) -> list[Slot]:
        """Return the slots to ask for now, those to be asked apart first.

        Runs that would be due shortly join a bulk request, so that runs of one cadence end up
        in one request, whatever moments they started from.
        """
        now = self._clock.monotonic()
        free = self._free()
        due = [slot for slot in free if slot.due <= now]
        if due and not due[0].alone:
            soon = (slot for slot in free if slot.due <= now + EARLY * SLOWEST)
            due = [slot for slot in soon if slot.due <= now + self._early(slot)]
        return sorted(due, key=self._turn)

    def _turn(self, slot: Slot) -> tuple[bool, float]:
        """Return what the order of asking goes by; the first look at a run is due at no time."""
        late = self._rank(slot.run.name) * HEAD_START
        return (not slot.alone, slot.due + late)

    def _bulk(self, due: list[Slot]) -> list[Slot]:
        """Return what is asked for together: runs of one rank, who wait for no others."""
        first = self._rank(due[0].run.name)
        together = (slot for slot in due if not slot.alone and self._rank(slot.run.name) == first)
        return list(islice(together, BATCH))

    def _early(self, slot: Slot) -> float:
        if slot.alone:
            return 0.0
        return EARLY * self._cadence(slot)

    def _cadence(self, slot: Slot) -> float:
        seen = len(self._slots) <= LARGE or self._rank(slot.run.name) < OTHER
        return cadence_of(self.facet, slot.run, swept=self.swept, seen=seen)

    def _wait(self) -> float:
        now = self._clock.monotonic()
        return min([slot.due - now for slot in self._free()] + [LONGEST_WAIT])

    def _ask_apart(self, slot: Slot) -> None:
        slots = [self._slots[name] for name in slot.few if name in self._slots] or [slot]
        slots = [each for each in slots if each.few == slot.few and not each.busy]
        for each in slots:
            each.busy = True
        task = asyncio.ensure_future(self._poll(slots))
        self._apart.add(task)
        task.add_done_callback(self._rejoin)

    def _rejoin(self, task: asyncio.Task[None]) -> None:
        self._apart.discard(task)
        self._bell.set()

    async def _poll(self, slots: list[Slot]) -> None:
        asked = self._clock.monotonic()
        for slot in slots:
            slot.asked = asked
            slot.due = float("inf")
        runs = [slot.run for slot in slots]
        seconds = DEADLINES[self.facet].here
        answer = await self._supervisor.run(self.facet, seconds, self._ask(runs))
        for slot in slots:
            slot.busy = False
        if isinstance(answer, Problem):
            self._failed(slots, answer, asked)
        else:
            self._answered(slots, answer, asked)

    def _failed(self, slots: list[Slot], problem: Problem, asked: float) -> None:
        if len(slots) > 1:
            self._split(slots, FEW if len(slots) > FEW else 1, asked)
            return
        now = self._clock.now()
        facet = AnyFacet(source=self.facet, error=problem, since=now)
        self._reschedule(slots[0], facet, asked)
        self._deliver(self.facet, {slots[0].run.name: facet})

    def _split(self, slots: list[Slot], size: int, asked: float) -> None:
        """Have these asked again at once, ``size`` of them together."""
        for start in range(0, len(slots), size):
            group = slots[start : start + size]
            few = tuple(slot.run.name for slot in group) if size > 1 else ()
            for slot in group:
                slot.alone, slot.due, slot.few = True, asked, few

    def _answered(self, slots: list[Slot], answer: Mapping[str, AnyFacet], asked: float) -> None:
        for slot in slots:
            facet = answer.get(slot.run.name)
            error = facet.error if facet is not None else None
            # One whose source gave it up in time kept the others of its bulk waiting until then.
            slot.alone, slot.few = error is not None and error.kind is ErrorKind.TIMEOUT, ()
            self._reschedule(slot, facet, asked)
        self._deliver(self.facet, answer)

    def _reschedule(self, slot: Slot, facet: AnyFacet | None, asked: float) -> None:
        cadence = self._cadence(slot)
        refused = facet is not None and facet.error is not None and facet.error.kind in REFUSALS
        slot.failures = slot.failures + 1 if refused else 0
        if refused:
            cadence = back_off(cadence, slot.failures, self._random.random(), slot.run)
        if facet is not None and facet.retry_after is not None:
            cadence = max(cadence, facet.retry_after)
        planned = asked + cadence
        # A wake that came while the answer was under way asks again, after the spacing.
        slot.due = planned if slot.due == float("inf") else min(planned, slot.due)
        if facet is not None and not facet.configured:
            slot.due = float("inf")


async def pause(clock: Clock, seconds: float, bell: asyncio.Event) -> None:
    """Wait for ``seconds`` or until ``bell`` rings, whichever is first; the bell is silenced."""
    waiters = {
        asyncio.ensure_future(bell.wait()),
        asyncio.ensure_future(clock.sleep(max(0.0, seconds))),
    }
    try:
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    bell.clear()
