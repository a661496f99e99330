"""Pollers: one per facet and place, each run at its own cadence, with back-off."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.watch.asking import Answers, Asker, Key, fate_of
from cockpit.watch.sweep import LARGE, OTHER, Supervisor


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
"""The longest wait (s) after refusals: a place that recovers is seen within five minutes."""


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
"""Seconds between two looks at one run, however often it changes."""
UNSEEN = 5.0
"""Seconds between two looks at a log that moves all the time, of a run that is on no screen."""
HEAD_START = 20.0
"""Seconds by which a run of one rank is asked before those of the next: none waits for good."""
EARLY = 0.25
"""Share of its cadence by which a run may be asked too early to join a bulk request."""
BATCH = 250
"""Runs that one request asks for."""
LONGEST_WAIT = 60.0
ALONE_AT_ONCE = 8
"""Runs that are asked apart at a time."""
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
    unasked: bool = False
    """The run file does not ask for this facet of it."""


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
        self.place = HERE
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
        seconds = DEADLINES[self.facet].at(self.place)
        what = self.facet if self.place == HERE else f"{self.facet} at {self.place}"
        answer = await self._supervisor.run(what, seconds, self._ask(runs))
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
        facet = AnyFacet(source=self.facet, error=problem, since=self._clock.now())
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
class Backoff:
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


class AwayPoller(Poller):
    """Asks for one facet of all runs of one place away from here, in one request.

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
        backoff: Backoff,
    ) -> None:
        super().__init__(key[0], ask, clock, deliver, supervisor)
        self._random = random.Random()  # many machines may ask the same place
        self.place = key[1]
        self._cadence_of = cadence
        self._backoff = backoff
        self._failures = 0

    def wake(self, name: str, *, at_once: bool = False) -> None:
        """Ask for all soon if a person wants it (``at_once``); no other news hurries a place."""
        slot = self._slots.get(name)
        if at_once and slot is not None:
            slot.due = min(slot.due, max(self._clock.monotonic(), slot.asked + SPACING))
            self._backoff.refused_until = float("-inf")
            self._bell.set()

    def _free(self) -> list[Slot]:
        return [slot for slot in self._slots.values() if not slot.unasked]

    def _due(self) -> list[Slot]:
        return self._free() if self._wait() <= 0.0 else []

    def _bulk(self, due: list[Slot]) -> list[Slot]:
        if self._backoff.began is None:
            self._backoff.began = self._clock.monotonic()
        return due

    def _wait(self) -> float:
        soonest = min((slot.due for slot in self._free()), default=float("inf"))
        rested = max(self._backoff.until, self._backoff.refused_until)
        return min(max(soonest, rested) - self._clock.monotonic(), LONGEST_WAIT)

    def _failed(self, slots: list[Slot], problem: Problem, asked: float) -> None:
        failed = AnyFacet(source=self.place, error=problem, since=self._clock.now())
        self._answered(slots, {slot.run.name: failed for slot in slots}, asked)

    def _answered(self, slots: list[Slot], answer: Mapping[str, AnyFacet], asked: float) -> None:
        facets = answer.values()
        refused = _refused([facet for facet in facets if facet.configured])
        self._failures = self._failures + 1 if refused else 0
        hurried = min((slot.run for slot in slots), key=self._cadence_of)
        cadence, backoff, now = self._cadence_of(hurried), self._backoff, self._clock.monotonic()
        planned = backoff.beat(asked + cadence, cadence)
        if refused:
            planned = now + back_off(cadence, self._failures, self._random.random(), hurried)
            # Where nothing at all was answered, whatever shares its fate waits too.
            if any(facet.error is not None and facet.error.kind in UNREACHED for facet in facets):
                backoff.refused_until = max(backoff.refused_until, planned)
        for slot in slots:
            facet = answer.get(slot.run.name)
            slot.unasked = facet is not None and not facet.configured
            slot.due = min(slot.due, planned)
        asked_for = max((facet.retry_after or 0.0 for facet in facets), default=0.0)
        if asked_for > 0.0:
            left_alone = asked_for * (1.0 + LATER * self._random.random())
            backoff.until = max(backoff.until, now + left_alone)
        self._deliver(self.facet, answer)


def _refused(answers: Sequence[AnyFacet]) -> bool:
    """Tell whether the place refused: all its runs, or one because there are too many requests."""
    kinds = [facet.error.kind if facet.error is not None else None for facet in answers]
    return ErrorKind.RATE_LIMITED in kinds or (
        bool(kinds) and all(kind in REFUSALS for kind in kinds)
    )


class Pollers:
    """Starts pollers as places appear, and finds those that answer for a run's facet."""

    def __init__(
        self,
        asker: Asker,
        clock: Clock,
        supervisor: Supervisor,
        deliver: Deliver,
        rank: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.rank = rank
        self._asker = asker
        self._clock = clock
        self._supervisor = supervisor
        self._deliver = deliver
        self._pollers: dict[Key, Poller] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._keys: dict[tuple[str, str], tuple[Key, ...]] = {}
        """The pollers of each facet and run."""
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup, runs: Sequence[RunSpec]) -> None:
        """Poll inside ``tasks`` from now on."""
        self._tasks = tasks
        self._pollers.clear()
        self.assign(runs)

    def assign(self, runs: Sequence[RunSpec]) -> None:
        """Say which runs there are now."""
        groups = self._asker.by_place(runs)
        for key in groups.keys() | self._pollers.keys():
            poller = self._pollers.get(key) or self._open(key)
            poller.assign(groups.get(key, []))
        self._keys = {}
        for key, group in groups.items():
            for run in group:
                at = key[0], run.name
                self._keys[at] = (*self._keys.get(at, ()), key)

    def wake(self, facet: str, name: str, *, at_once: bool = False) -> None:
        """Ask for one facet of one run soon; places away from here only if ``at_once``."""
        for key in self._keys.get((facet, name), ()):
            self._pollers[key].wake(name, at_once=at_once)

    def swept(self, works: bool) -> None:
        """Say whether changes of local files are announced; if not, logs are polled faster."""
        for poller in self._pollers.values():
            poller.swept = works

    def _open(self, key: Key) -> Poller:
        facet, place = key
        ask = functools.partial(self._asker.ask, facet, place)
        deliver = functools.partial(self._answered, place)
        if place == HERE:
            poller = Poller(facet, ask, self._clock, deliver, self._supervisor, self.rank)
        else:
            backoff = self._backoffs.setdefault(fate_of(place), Backoff())
            cadence = functools.partial(self._cadence, facet)
            poller = AwayPoller(key, ask, cadence, self._clock, deliver, self._supervisor, backoff)
        self._pollers[key] = poller
        if self._tasks is not None:
            self._tasks.create_task(poller.run())
        return poller

    def _cadence(self, facet: str, run: RunSpec) -> float:
        platform = self._asker.platform_of(run)
        return cadence_away(facet, run, platform.log_every if platform is not None else None)

    def _answered(self, place: str, facet: str, answers: Answers) -> None:
        self._deliver(facet, self._asker.join(facet, place, answers))
