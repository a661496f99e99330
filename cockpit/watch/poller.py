"""Pollers: one per facet and place, each run at its own cadence, with back-off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.watch.tasks import LARGE, OTHER, Supervisor


class Seconds(NamedTuple):
    """A figure for this machine and one for every other place."""

    here: float
    away: float

    def at(self, place: str) -> float:
        """Return the figure for a place."""
        return self.here if place == HERE else self.away


USUAL: Final = {
    "log": Seconds(here=1.0, away=15.0),
    "job": Seconds(here=30.0, away=30.0),
    "tracker": Seconds(here=30.0, away=30.0),
    "checkpoints": Seconds(here=60.0, away=60.0),
    "monitor": Seconds(here=30.0, away=30.0),
    "host": Seconds(here=60.0, away=60.0),
    "code": Seconds(here=60.0, away=60.0),
    "records": Seconds(here=60.0, away=60.0),
}
SLOWEST: Final = max(usual.here for usual in USUAL.values())
SWEPT_LOG: Final = 15.0
"""A log whose changes the sweep announces is asked for on change, and this often besides."""
UNSEEN_LOG: Final = 30.0
"""The same in a large fleet, for well runs on no screen: their files are looked at by turns."""

DEADLINES: Final = {
    "log": Seconds(here=5.0, away=15.0),
    "job": Seconds(here=10.0, away=20.0),
    "tracker": Seconds(here=10.0, away=20.0),
    "checkpoints": Seconds(here=15.0, away=30.0),
    "monitor": Seconds(here=5.0, away=15.0),
    "host": Seconds(here=10.0, away=20.0),
    "code": Seconds(here=10.0, away=20.0),
    "records": Seconds(here=10.0, away=20.0),
}
"""A source gives up before: its facet then says what did not answer, these only that nothing did.

An answer from another machine takes longer: a hung Slurm controller is given up by ``squeue``
after 10 s, a dead ssh connection is noticed after 9 to 14 s.
"""
FASTEST: Final = Seconds(here=1.0, away=5.0)
BACK_OFF_LIMIT: Final = 300.0


def cadence_of(facet: str, run: RunSpec, *, swept: bool = True, seen: bool = True) -> float:
    """Return seconds between two looks here: never slower than half the run's cadence."""
    usual = USUAL[facet].here
    if facet == "log" and swept:
        usual = SWEPT_LOG if seen else UNSEEN_LOG
    if facet == "monitor":
        usual = min(usual, run.monitor_cadence / 2)
    return max(FASTEST.here, min(usual, run.cadence / 2))


def cadence_away(facet: str, run: RunSpec, log_every: float | None = None) -> float:
    """Return seconds between two looks at another place; ``log_every`` is its platform's own."""
    usual = USUAL[facet].away
    if facet == "log" and log_every is not None:
        usual = log_every
    return max(FASTEST.away, min(usual, run.cadence / 2))


def back_off(cadence: float, failures: int, jitter: float, run: RunSpec) -> float:
    """Return the wait after ``failures`` refusals in a row; ``jitter`` is in [0, 1).

    It doubles, is spread by ± 20 %, and ends at five minutes or the run's cadence.
    """
    limit = max(cadence, min(BACK_OFF_LIMIT, run.cadence))
    wait = min(limit, cadence * 2.0 ** min(failures, 12))
    return wait * (0.8 + 0.4 * jitter)


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
