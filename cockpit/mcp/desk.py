"""What the tools work with: the engine of the run file, its store, and the one road of actions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cockpit.actions.core.action import asked
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.wiring import build_service
from cockpit.attach.acting import ActingLooks
from cockpit.attach.client import AttachedEngine
from cockpit.mcp.calls import CallBook
from cockpit.model.clock import Clock
from cockpit.model.history import Backtested
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.store.agents import AgentRecords
from cockpit.store.store import Store, StoreError
from cockpit.text.safe import clean

ATTACHES_WITHIN: Final = 12.0
"""Seconds that the first call may wait for an engine to come up and tell of all runs."""
LOOK_EVERY: Final = 0.05
LOOK_WITHIN: Final = 20.0
NO_NAME: Final = "unnamed"
NAMED: Final = 10
"""Runs that an answer names where there is none of the name that was asked for."""


class Verbs(NamedTuple):
    """What verbs do for the tools: they stand above this room, so it is handed down."""

    history: Callable[[CockpitFile, RunSpec, float | None], Awaitable[dict[str, Any]]]
    """Return ``history --json`` of a run, up to a moment if one is given; raises ``OSError``."""
    backtest: Callable[[str, str], Awaitable[Backtested]]
    """Replay the rules over a run of a run file; raises ``OSError``."""


class UnknownRun(Exception):  # noqa: N818 - it is an answer, not an error
    """There is no such run; the text names those that are there."""


class Desk:
    """One agent at a cockpit. ``name`` is what it goes by; it is fixed with its first call."""

    def __init__(
        self, file: CockpitFile, store: Store | None, clock: Clock, verbs: Verbs, name: str | None
    ) -> None:
        self.clock = clock
        self.store = store
        self.verbs = verbs
        self.engine = AttachedEngine(file, store, clock, attends=True)
        self._name = name
        self.calls = CallBook(store, clock)
        self._looks = ActingLooks(self.engine, store, clock)
        self._service: ActionService | None = None
        self._attached: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def file(self) -> CockpitFile:
        """The run file in use; an edit of it is taken over by the engine."""
        return self.engine.file

    @property
    def operator(self) -> str:
        """Who acts: ``agent:<name>``, and never anybody else."""
        return f"agent:{self._name or NO_NAME}"

    def introduce(self, name: str) -> None:
        """Learn what the agent goes by; a name that is known stays."""
        if self._name is None and name:
            self._name = name

    @property
    def service(self) -> ActionService:
        """The one road of all actions, as this agent."""
        if self._service is None:
            self._name = self._name or NO_NAME
            self._service = build_service(
                lambda: self.engine.file, self._looks, self.store, self.clock,
                operator=self.operator,
            )  # fmt: skip
        return self._service

    def spec(self, run: str) -> RunSpec:
        """Return a run of the run file; raises ``UnknownRun``."""
        found = next((each for each in self.file.runs if each.name == run), None)
        if found is None:
            names = [each.name for each in self.file.runs]
            more = f" and {len(names) - NAMED} more: see fleet" if len(names) > NAMED else ""
            told = f"{', '.join(names[:NAMED])}{more}"
            raise UnknownRun(f"no run {clean(run, 60)!r}; there are: {told}")
        return found

    async def reports(self) -> tuple[RunReport, ...]:
        """Return every run as the engine told of it last."""
        await self.ready()
        return self.engine.report().runs

    async def report(self, run: str, *, fresh: bool = False) -> RunReport:
        """Return a run; ``fresh``: every source of it is asked now. Raises ``UnknownRun``."""
        self.spec(run)
        if fresh:
            await self.ready()
            return await self._looks.look(run, LOOK_WITHIN)
        found = {each.name: each for each in await self.reports()}
        return found[run] if run in found else await self._looks.look(run, LOOK_WITHIN)

    @property
    def notices(self) -> list[str]:
        """What should be known of the cockpit itself, one line each."""
        return [*self.engine.notices, *filter(None, (self.engine.silent, self.calls.trouble))]

    async def ready(self) -> None:
        """Attach, the first time: wait until an engine has told of all runs, or for a while."""
        if self._attached is None:
            self._watching = asyncio.create_task(self.engine.run())
            self._attached = asyncio.create_task(self._wait_for_engine())
        await asyncio.wait((self._attached,))

    async def gone(self, plan_ids: Sequence[str]) -> None:
        """Have it known that this agent goes on with none of these plans."""
        if self.store is None or not plan_ids:
            return
        with suppress(StoreError):  # each cockpit tells with a plan when it was made
            records, now = AgentRecords(self.store), self.clock.now()
            await asked(records.left, self.operator, plan_ids, now)

    async def leave(self) -> None:
        """Let go of the engine, and write down what calls have gathered."""
        for task in filter(None, (self._attached, self._watching)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.calls.write()

    async def _wait_for_engine(self) -> None:
        until = self.clock.monotonic() + ATTACHES_WITHIN
        while self.clock.monotonic() < until:
            runs = self.engine.report().runs
            if self.engine.attached and all(run.not_read_yet is None for run in runs):
                return
            await self.clock.sleep(LOOK_EVERY)
