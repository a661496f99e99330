"""What the tools work with, what a tool is, and the record of each call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError

from cockpit.actions.core.action import asked
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.wiring import build_service
from cockpit.attach.acting import ActingLooks
from cockpit.attach.client import AttachedEngine
from cockpit.mcp.views import Document
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.history import Backtested
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.store.launches import AgentRecords, Call
from cockpit.store.store import Store, StoreError
from cockpit.text.safe import clean

WRITE_EVERY: Final = 30.0
"""Seconds for which calls gather."""
MOST: Final = 2_000
"""Calls that are kept while the store cannot be written; older ones are lost, and that is said."""


class CallBook:
    """The calls that are not written down yet."""

    def __init__(self, store: Store | None, clock: Clock) -> None:
        self.trouble = "" if store is not None else "there is no store: calls are not recorded"
        self._records = None if store is None else AgentRecords(store)
        self._clock = clock
        self._calls: list[Call] = []

    def called(self, run: str, agent: str, tool: str, ended: str) -> None:
        """Take down a call; ``run`` is a ``run_key``."""
        if self._records is not None:
            self._calls.append(Call(run, agent, tool, ended, self._clock.now()))
            del self._calls[:-MOST]

    async def keep(self) -> None:
        """Write what has gathered, every while, until cancelled."""
        while True:
            await self._clock.sleep(WRITE_EVERY)
            await self.write()

    async def write(self) -> None:
        """Write what has gathered; what cannot be written waits."""
        calls, self._calls = self._calls, []
        if self._records is None or not calls:
            return
        try:
            await asked(self._records.called, calls)
        except StoreError as error:
            self._calls = [*calls, *self._calls][-MOST:]
            self.trouble = f"calls are not recorded: {error}"
        else:
            self.trouble = ""


ATTACHES_WITHIN: Final = 12.0
"""Seconds that the first call may wait for an engine to come up and tell of all runs."""
LOOK_EVERY: Final = 0.05
LOOK_WITHIN: Final = 20.0
NO_NAME: Final = "unnamed"
NAMED: Final = 10
"""Runs that an answer names where there is none of the name that was asked for."""


LONGEST_NAME: Final = 40
_OTHER: Final = re.compile(r"[^a-z0-9._-]+")


def agent_name(told: object) -> str:
    """Return the name in a ``clientInfo``, or in a text, as a slug; empty if there is none."""
    name = told.get("name") if isinstance(told, dict) else told
    if not isinstance(name, str):
        return ""
    return _OTHER.sub("-", name[: 4 * LONGEST_NAME].lower()).strip("-._")[:LONGEST_NAME]


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


Progress = Callable[[float, str], Awaitable[None]]
"""Tells the client how far a call is: a figure that only rises, and one line."""
RUN: Final = "the run's name, as the tool fleet gives it"
CURSOR: Final = "where a former answer said that it goes on; without it the newest"


class ToolError(Exception):
    """Why a tool could not do what was asked, in one line that says what to do."""


class OfRun(Frozen):
    """A tool that is about one run."""

    run: str = Field(max_length=128, description=RUN)


class Paged(OfRun):
    """A tool that answers in pages about one run."""

    cursor: str | None = Field(None, max_length=100, description=CURSOR)


class Tool(NamedTuple):
    """One row of the table of tools. ``gives`` names what its answers always have, and their types.

    ``reads``: it changes nothing. ``destroys``: what it does may not be undone.
    """

    name: str
    about: str
    takes: type[Frozen]
    gives: dict[str, str]
    use: Callable[[Desk, Any, Progress], Awaitable[Document]]
    reads: bool = True
    destroys: bool = False

    def document(self) -> Document:
        """Return the tool as ``tools/list`` tells of it."""
        types = {name: {"type": kind} for name, kind in self.gives.items()}
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": _plain(self.takes.model_json_schema()),
            "outputSchema": {"type": "object", "properties": types, "required": [*self.gives]},
            "annotations": {
                "readOnlyHint": self.reads,
                "destructiveHint": self.destroys,
                "idempotentHint": self.reads,
                "openWorldHint": False,
            },
        }

    def arguments(self, given: object) -> Frozen:
        """Return the arguments; raises ``ToolError`` that says what is wrong with them."""
        try:
            return self.takes.model_validate({} if given is None else given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(clean(part, 60) for part in first["loc"]) or "arguments"
            known = ", ".join(self.takes.model_fields) or "none"
            raise ToolError(
                f"{where}: {clean(first['msg'], 200)}; {self.name} takes: {known}"
            ) from error


def _plain(schema: Document) -> Document:
    """Return a schema of arguments without what only its Python class has to say."""
    found = {key: value for key, value in schema.items() if key not in ("title", "description")}
    found["properties"] = {
        name: {key: value for key, value in shape.items() if key != "title"}
        for name, shape in schema.get("properties", {}).items()
    }
    return found
