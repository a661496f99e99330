"""Notifications beside a watch: messages, the heartbeat, a stand-in for a hung watch.

What a watch does once a period: the compact entry in a hero run's logbook, and the heartbeat.

One entry is written per period, whoever watches. The heartbeat tells somebody outside that we still
watch: they call when it stops (a dead man's switch).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from cockpit.config.file import state_dir
from cockpit.model.clock import Clock, next_beat
from cockpit.model.facet import Problem
from cockpit.model.notify import NotifySpec
from cockpit.model.records import EventEntry
from cockpit.model.report import RunReport
from cockpit.model.run import NEVER, CockpitFile, RunSpec
from cockpit.notify.message import answered
from cockpit.notify.notifier import Notifications
from cockpit.records.logbook.entry_text import prefill
from cockpit.records.logbook.writing import has_entry, written_since
from cockpit.records.recorder import RecordWriter
from cockpit.rules.lineage.success import entry_every, newest_event
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.moment import Jumps, moment
from cockpit.runtime.offload import offload
from cockpit.services.service import EVERY, STORE_WITHIN, Service
from cockpit.store.launches import AUTOLOG, Consents
from cockpit.store.ownership import NotOursError, Turn, Turns
from cockpit.store.store import Store, StoreError, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.sweep import Supervisor

ENTRY: Final = "logbook entry"
EVENTS_APART: Final = 120.0
"""Seconds between two entries that each follow an event."""
MINUTE: Final = 60.0
"""What the time of an entry in a logbook is exact to (s)."""
T = TypeVar("T")


class PeriodicEntries:
    """Writes the entries; without a store (``turns``) this process alone decides."""

    def __init__(self, recorder: RecordWriter, turns: Turns | None, clock: Clock) -> None:
        self._recorder = recorder
        self._turns = turns
        self._clock = clock
        self._jumps = Jumps(clock)
        self._logged_at: dict[str, float] = {}

    async def write(self, key: str, report: RunReport) -> None:
        """Append the entry if it is due: a hero run's, others' where they ask for it.

        ``key`` is the ``run_key``. Raises ``StoreError`` and ``TimeoutError`` if nobody can tell
        whose turn it is.
        """
        if not self.due(report):
            return
        turn, every = None, entry_every(report.spec) or EVENTS_APART
        if self._turns is not None:
            take = partial(self._turns.take, key, ENTRY, every)
            turn = await offload(lambda: take(moment(self._clock)), deadline=STORE_WITHIN)
            if turn is None:
                return
        at = self._clock.now() if turn is None else turn.at.wall
        self._logged_at[report.name] = at
        entry = prefill(report, "check", at)
        entry = entry.model_copy(update={"evidence": "", "decision": ""})
        commit = f"{report.name}: log check"
        if turn is None or self._turns is None:
            await self._recorder.event(report.spec, entry, commit)
            return
        await self._recorder.event_if(
            report.spec, entry, commit, _guard(self._turns, turn, entry, every)
        )
        await offload(partial(self._turns.done, turn), deadline=STORE_WITHIN)

    def due(self, report: RunReport) -> bool:
        """Return whether an entry is due, as far as it is known without the store."""
        spec, last = report.spec, report.facets.records.value
        asked = spec.tier == "hero" or spec.records.log_every is not None
        if spec.records.logbook is None or not asked or not report.facets.job.known:
            return False
        if last is None:
            return False
        newest = max(last.last_entry_at or 0.0, self._logged_at.get(spec.name, 0.0))
        if spec.records.log_every == NEVER:
            return False
        every, event = entry_every(spec), newest_event(report)
        if every is None:
            return event is not None and event >= newest + MINUTE
        return self._jumps.since(newest) >= every


def _guard(turns: Turns, turn: Turn, entry: EventEntry, every: float) -> Callable[[bytes], bool]:
    """Return what is asked under the logbook's lock: whether the entry is to be written.

    A cockpit with another store (another account, another home) may have written this period's.
    """
    decided: list[bool] = []

    def wanted(data: bytes) -> bool:
        if not decided:
            turns.begin(turn)
            ours = turn.again and has_entry(data, entry.title, entry.at)
            since = entry.at - every + MINUTE
            decided.append(not (ours or written_since(data, entry.title, since, entry.at)))
        return decided[0]

    return wanted


KNOWN_FOR: Final = 5.0
"""Seconds for which the store is not asked again."""


class AutologConsent:
    """The consent of one run file; without a store, or an answer of it, there is none."""

    def __init__(self, store: Store | None, run_file: str, clock: Clock) -> None:
        self._consents = None if store is None else Consents(store)
        self._run_file = run_file
        self._clock = clock
        self._asked_at = float("-inf")
        self._given = False
        self._waiting: str | None = None
        """A run whose entry is due, and which nobody has allowed."""

    @property
    def notice(self) -> str | None:
        """What a person has to be asked, if something waits for the answer."""
        run = self._waiting
        if run is None:
            return None
        return f"automatic logbook entries wait for your consent: cockpit autolog {run}"

    async def given(self, run: RunSpec) -> bool:
        """Return whether an entry that is due now may be written."""
        if run.records.log_every == NEVER:
            return False
        if self._clock.monotonic() - self._asked_at >= KNOWN_FOR:
            self._given = await self._ask()
            self._asked_at = self._clock.monotonic()
        self._waiting = None if self._given else run.name
        return self._given

    async def _ask(self) -> bool:
        consents = self._consents
        if consents is None:
            return False
        try:
            found = await offload(consents.of, self._run_file, AUTOLOG, deadline=STORE_WITHIN)
        except (StoreError, TimeoutError):
            return False
        return found is not None


WITHIN: Final = 10.0
EARLY: Final = 0.5
"""Share of a cadence after which a ping is due: rounds of many runs come one after another."""


class Heartbeat:
    """Pings the address in ``heartbeat_url_env`` once per cadence. Never raises."""

    def __init__(
        self, spec: NotifySpec, clock: Clock, environ: Mapping[str, str] | None = None
    ) -> None:
        self._variable = spec.heartbeat_url_env
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._http = Http(clock, deadline=WITHIN)
        self._last: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether the run file names a switch."""
        return self._variable is not None

    def trouble(self) -> str | None:
        """Return why it cannot be pinged from here, or ``None``; asks nobody."""
        if self._variable is None or self._address():
            return None
        return f"the dead man's switch is not pinged: {self._variable} is not set here"

    async def beat(self, cadence: float) -> str | None:
        """Ping if it is due; return a line if that did not work."""
        now = self._clock.monotonic()
        due = self._last is None or now - self._last >= EARLY * cadence
        if self._variable is None or not due:
            return None
        self._last = now
        return await self.ping()

    async def ping(self) -> str | None:
        """Ping now; return a line that names the variable if that did not work."""
        where = self._address()
        if where is None:
            return self.trouble()
        why = await self._get(where)
        if why is None:
            return None
        return f"the dead man's switch ({self._variable}) was not reached: {why}"

    async def _get(self, where: str) -> str | None:
        """Return why the address did not answer well, in words that do not repeat it."""
        if not where.startswith(("https://", "http://")):
            return "its value is not an https:// address"
        try:
            answer = await self._http.get(where)
        except HttpError as error:
            return error.kind.value if error.status is None else answered(error.status).words
        good = 200 <= answer.status < 300
        return None if good else answered(answer.status).words

    def _address(self) -> str | None:
        return (self._environ.get(self._variable or "") or "").strip() or None


STOOD_STILL: Final = 4.0
"""Seconds by which a pause must be too long for this process to have stood still."""
AFTER_STANDING: Final = 5.0
LOOK_WITHIN: Final = 120.0
LAST_WITHIN: Final = 45.0
"""Seconds that the last messages of a watch that is done may take."""


class Notifying(Service):
    """Looks every few seconds at what ``notifications`` are due, and has them sent."""

    def __init__(self, engine: Engine, notifications: Notifications, clock: Clock) -> None:
        self._engine = engine
        self._notifications = notifications
        self._clock = clock
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._task: asyncio.Task[None] | None = None
        self._leave: list[Callable[[], None]] = []
        self._trouble: str | None = None
        self._looking = False
        self._ending = False

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about how they are told."""
        trouble = () if self._trouble is None else (self._trouble,)
        return (*self._notifications.notices, *trouble, *self._supervisor.faults)

    def start(self) -> None:
        """Begin to listen and to tell; needs a running event loop."""
        self._leave = [
            self._engine.subscribe(self._notifications.hear),
            self._engine.on_reload(self._notifications.adopt),
        ]
        for report in self._engine.report().runs:  # seen before this began to listen
            self._notifications.hear(report)
        self._task = asyncio.ensure_future(self._run())

    async def finish(self) -> None:
        """Tell what is still due, after the engine has written its last state down."""
        await self.stop(LAST_WITHIN)
        await self._send_due(LAST_WITHIN)

    async def stop(self, within: float) -> None:
        """Stop listening; a message that is being sent has ``within`` seconds to go out."""
        for leave in self._leave:
            leave()
        self._leave = []
        self._ending = True
        if self._task is None:
            return
        if not self._looking:
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=within)

    async def _run(self) -> None:
        while not self._ending:
            self._looking = True
            await self._send_due(LOOK_WITHIN)
            self._looking = False
            if not self._ending:
                # Who stood still lets others write down what they told.
                begun = self._clock.monotonic()
                await next_beat(self._clock, EVERY)
                if self._clock.monotonic() - begun > EVERY + STOOD_STILL:
                    await self._clock.sleep(AFTER_STANDING)

    async def _send_due(self, within: float) -> None:
        if self._notifications.silent:  # every two seconds: no task nor timer for nothing
            self._trouble = None
            return
        work = self._notifications.look()
        found = await self._supervisor.run("the notifications", within, work)
        self._trouble = found.message if isinstance(found, Problem) else None


SAID_FOR: Final = 86400.0
"""Seconds since its last beat for which a hung watch is named: what hangs for days is known."""


class StandingIn(Service):
    """Looks which owners the engine has found hung; ``operator`` sits at this cockpit."""

    def __init__(self, engine: Engine, operator: str, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._who = f"{operator} (cockpit on {socket.gethostname()}, pid {os.getpid()})"
        self._task: asyncio.Task[None] | None = None
        self._left_word: set[tuple[str, float]] = set()

    @property
    def notices(self) -> tuple[str, ...]:
        """Which watch hangs, since when, and that people are told all the same."""
        now = self._clock.now()
        lately = (each for each in self._engine.hung if now - each.since < SAID_FOR)
        return tuple(f"{each.line}: this cockpit tells people now" for each in lately)

    def start(self) -> None:
        """Begin to look; needs a running event loop."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self, within: float) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    async def _run(self) -> None:
        while True:
            # Once for each time that it hangs: who tells people in its place.
            own = self._engine.ownership
            for hung in self._engine.hung if own is not None else ():
                known = (hung.owner.process, hung.since)
                if own is None or known in self._left_word:
                    continue
                work = partial(own.stand_in, hung, self._who, moment(self._clock))
                with contextlib.suppress(StoreError, TimeoutError):
                    await offload(work, deadline=STORE_WITHIN)
                    self._left_word.add(known)
            await next_beat(self._clock, EVERY)


PING_WITHIN: Final = 45.0
PING: Final = "heartbeat"


class HeartbeatService(Service):
    """Tells the switch that a headless watch lives; the UI has none."""

    def __init__(self, engine: Engine, clock: Clock, turns: Turns | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._turns = turns
        self._heartbeat = Heartbeat(engine.file.notify, clock)
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._ping: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] | None = None
        self._trouble: str | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Why the switch cannot be reached, and what went wrong here."""
        trouble = () if self._trouble is None else (self._trouble,)
        return (*trouble, *self._supervisor.faults)

    def start(self) -> None:
        """Follow the run file; the pings come with ``pulse``."""
        self._leave = self._engine.on_reload(self._adopt)
        self._trouble = self._heartbeat.trouble()

    def pulse(self, cadence: float) -> None:
        """Say that a round has gone by: the switch is pinged, unless a ping is under way."""
        idle = self._ping is None or self._ping.done()
        if self._heartbeat.wanted and idle:
            self._ping = asyncio.ensure_future(self._beat(self._heartbeat, cadence))

    async def finish(self) -> None:
        """Wait for the last ping."""
        await self._wait(PING_WITHIN)

    async def stop(self, within: float) -> None:
        """Ping no more; one that is under way has ``within`` seconds to end."""
        if self._leave is not None:
            self._leave()
        await self._wait(within)

    async def _wait(self, seconds: float) -> None:
        if self._ping is not None:
            await asyncio.wait({self._ping}, timeout=seconds)

    async def _beat(self, heartbeat: Heartbeat, cadence: float) -> None:
        if not await self._our_turn(cadence):
            return
        work = heartbeat.beat(cadence)
        found = await self._supervisor.run("the dead man's switch", PING_WITHIN, work)
        self._trouble = found.message if isinstance(found, Problem) else found

    async def _our_turn(self, cadence: float) -> bool:
        """Return whether no other watch of this run file has pinged in this period."""
        turns, key = self._turns, run_key(self._engine.file.path, "")
        if turns is None:
            return True

        def taken() -> bool:
            turn = turns.take(key, PING, EARLY * cadence, moment(self._clock))
            if turn is not None:
                turns.begin(turn)
            return turn is not None

        try:
            return await offload(taken, deadline=STORE_WITHIN)
        except (StoreError, TimeoutError, NotOursError):
            return True  # rather twice than never

    def _adopt(self, file: CockpitFile) -> None:
        self._heartbeat = Heartbeat(file.notify, self._clock)
        self._trouble = self._heartbeat.trouble()
