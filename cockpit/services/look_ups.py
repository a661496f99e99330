"""Looks up launches and stops whose outcome nobody knows, at once and then every cadence (SPEC A).

What an action does not know when it ends, or a cockpit that was killed has left, is settled here
without anybody asking: by its launch id, at the system itself. Nothing is started or repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.recovery import looked_up
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.wiring import build_service
from cockpit.config.file import state_dir
from cockpit.model.clock import Clock, next_beat
from cockpit.model.report import RunReport
from cockpit.runtime.offload import offload
from cockpit.services.service import Service
from cockpit.store.journal import Journal
from cockpit.store.store import Store, StoreError, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.tasks import Supervisor

EVERY: Final = 2.0
STORE_WITHIN: Final = 10.0
WITHIN: Final = 180.0
"""Seconds for one run: a look-up, and the records that a settled launch still wants."""


class LaunchLookUps(Service):
    """Settles lost launches and stops of one engine's runs; ``mine`` says for which of them."""

    def __init__(
        self,
        engine: Engine,
        store: Store | None,
        clock: Clock,
        operator: str,
        mine: Callable[[RunReport], bool],
    ) -> None:
        self._engine = engine
        self._store = store
        self._journal = None if store is None else Journal(store)
        self._clock = clock
        self._operator = operator
        self._mine = mine
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._heard: dict[str, RunReport] = {}
        self._due: dict[str, float] = {}
        self._known: dict[str, frozenset[str]] = {}
        """The launches that were unknown at the last look, by run."""
        self._looking = asyncio.Lock()
        self._actions: ActionService | None = None
        self._leave: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with it, one line each."""
        return tuple(self._supervisor.faults)

    def start(self) -> None:
        """Begin to listen; needs a running event loop."""
        self._leave = [self._engine.subscribe(self._hear), self._engine.on_round(self._hear)]
        self._task = asyncio.ensure_future(self._run())

    async def finish(self) -> None:
        """Look once more at what is due: the only round may have come before the services did."""
        self._heard |= {report.name: report for report in self._engine.report().runs}
        await self.look()

    async def stop(self, within: float) -> None:
        """Look no more; a look that is under way has ``within`` seconds to end."""
        for leave in self._leave:
            leave()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    async def look(self) -> None:
        """Look up what is due now, once a look that is under way has ended."""
        async with self._looking:
            heard, self._heard = self._heard, {}
            for report in heard.values():
                if self._mine(report) and self._is_due(report):
                    await self._look(report.name)

    async def _look(self, run: str) -> None:
        if await self._anything(run):
            what = f"looking up launches of {run}"
            await self._supervisor.run(what, WITHIN, self._settle(run))

    def _hear(self, report: RunReport) -> None:
        self._heard[report.name] = report

    async def _run(self) -> None:
        while True:
            await next_beat(self._clock, EVERY)
            await self.look()

    def _is_due(self, report: RunReport) -> bool:
        """Tell whether a run's turn has come: each cadence, and when a launch becomes unknown."""
        now, name = self._clock.monotonic(), report.name
        unknown = frozenset(a.key for a in report.alerts if f"C-02:{name}:launch:" in a.key)
        new = not unknown <= self._known.get(name, frozenset())
        self._known[name] = unknown
        if not new and now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + report.spec.cadence
        return True

    async def _anything(self, run: str) -> bool:
        """Tell whether the journal has anything to look up; most runs never have."""
        if self._journal is None:
            return False
        key = run_key(self._engine.file.path, run)
        try:
            left = await offload(self._journal.unfinished, key, deadline=STORE_WITHIN)
        except (StoreError, TimeoutError):
            return False  # at the next cadence
        return any(map(looked_up, left))

    async def _settle(self, run: str) -> None:
        if self._actions is None:
            self._actions = build_service(
                lambda: self._engine.file, self._engine, self._store, self._clock,
                operator=self._operator,
            )  # fmt: skip
        try:
            await self._actions.look_up(run)
        except (RefuseError, StoreError, TimeoutError):
            return  # at the next cadence
        await self._engine.poke(run, "job")
