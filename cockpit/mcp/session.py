"""One client: its requests side by side, each within its rate, their progress, what it cancels."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import cockpit
from cockpit.actions.core.action import RefuseError
from cockpit.mcp import reading
from cockpit.mcp.acting import Acts, acting
from cockpit.mcp.desk import Desk, Progress, Tool, ToolError, UnknownRun, agent_name
from cockpit.mcp.reading import READING
from cockpit.mcp.views import RULE, Document
from cockpit.mcp.wire import Input, Output
from cockpit.model.clock import Clock
from cockpit.model.run import CockpitFile
from cockpit.store.store import StoreError, run_key
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

MINUTE: Final = 60.0


class RateLimit:
    """Counts the calls of the last minute against ``[agents] calls_per_minute``."""

    def __init__(self, file: Callable[[], CockpitFile], clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._calls: deque[float] = deque()

    def take(self) -> float:
        """Count a call; return 0, or the seconds until one may be made: then it is not counted."""
        now, most = self._clock.monotonic(), self._file().agents.calls_per_minute
        while self._calls and self._calls[0] <= now - MINUTE:
            self._calls.popleft()
        if len(self._calls) >= most:
            return self._calls[len(self._calls) - most] + MINUTE - now
        self._calls.append(now)
        return 0.0


LONGEST_CALL: Final = 128 * 1024
"""Characters of an answer; every tool bounds its own, this is for what none has thought of."""
NOT_FOUND: Final = -32002


class Calling:
    """The tools of one session."""

    def __init__(self, desk: Desk, tools: Mapping[str, Tool]) -> None:
        self.tools = tools
        self._desk = desk
        self._limit = RateLimit(lambda: desk.file, desk.clock)

    async def call(self, name: str, given: Document | None, progress: Progress) -> Document:
        """Return the result of ``tools/call``; what a tool cannot do is an error in it.

        Raises ``ToolError`` for a tool that there is not.
        """
        tool = self.tools.get(name)
        if tool is None:
            raise ToolError(f"no tool {clean(name, 60)!r}")
        run = (given or {}).get("run")
        ended = "cancelled"
        try:
            answer = await self._used(tool, given, progress)
            ended = "error" if answer.get("isError") else "ok"
            run = answer.get("structuredContent", {}).get("run", run)
            return answer
        finally:
            self._record(run, tool.name, ended)

    async def reading(self, read: Callable[[], Awaitable[Document]], run: str) -> Document:
        """Return a resource of a run; raises ``MCPError`` and ``ToolError``."""
        wait, ended = self._limit.take(), "error"
        try:
            if wait:
                raise MCPError(BUSY, _too_many(self._desk, wait))
            content = await read()
            ended = "ok"
            return content
        except LookupError as error:
            raise MCPError(NOT_FOUND, f"no resource {clean(error.args[0], 120)!r}") from error
        except (OSError, TimeoutError, StoreError, RefuseError) as error:
            raise ToolError(shown(error) or "no answer in time") from error
        finally:
            self._record(run, "resource", ended)

    async def _used(self, tool: Tool, given: object, progress: Progress) -> Document:
        wait = self._limit.take()
        if wait:
            return _error(_too_many(self._desk, wait))
        try:
            answer = await tool.use(self._desk, tool.arguments(given), progress)
        except (ToolError, UnknownRun, RefuseError, StoreError) as error:
            return _error(shown(error))
        except TimeoutError as error:
            return _error(f"no answer in time: {shown(error) or 'ask again later'}")
        except (OSError, ValueError) as error:
            return _error(shown(getattr(error, "strerror", None) or error))
        text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        if len(text) > LONGEST_CALL:
            return _error(
                f"the answer has {len(text)} characters, {LONGEST_CALL} are given: ask for less"
            )
        return {"content": [{"type": "text", "text": text}], "structuredContent": answer}

    def _record(self, run: object, tool: str, ended: str) -> None:
        """Write a call down, under its run if it is about one that there is."""
        names = {spec.name for spec in self._desk.file.runs}
        about = run if isinstance(run, str) and run in names else ""
        key = run_key(self._desk.file.path, about)
        self._desk.calls.called(key, self._desk.operator, tool, ended)


def _too_many(desk: Desk, wait: float) -> str:
    most = desk.file.agents.calls_per_minute
    return f"{most} calls a minute are allowed ([agents] calls_per_minute); wait {wait:.0f} s"


def _error(text: str) -> Document:
    return {"content": [{"type": "text", "text": text}], "isError": True}


MOST: Final = 16
"""Requests that are under way at one time."""
BUSY: Final = -32000
LEVELS: Final = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
GUIDE: Final = (
    "A cockpit for expensive ML training runs. Read with fleet, run, log, triage, history. To act:"
    " plan, read its checks, then act with the plan's id and its exact words. A block is never"
    " yours to approve: escalate instead. unknown means unknown: never act as if it had failed, and"
    " never repeat an act whose outcome is unknown. " + RULE
)
Context: TypeAlias = ServerRequestContext[Any]


class Session:
    """Answers one client until it leaves; what it speaks is the SDK's."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._acts = Acts(desk)
        tools = {tool.name: tool for tool in (*READING, *acting(self._acts))}
        self._calling = Calling(desk, tools)
        self._under_way = 0
        self._level = LEVELS.index("warning")
        self._told: set[str] = set()
        self._server = Server[Any](
            "cockpit", title="Run cockpit", version=cockpit.__version__, instructions=GUIDE,
        )  # fmt: skip
        self._server.middleware.append(self._answer)
        page = types.PaginatedRequestParams
        answers: tuple[tuple[str, type[types.RequestParams], Any], ...] = (
            ("tools/list", page, self._tools),
            ("tools/call", types.CallToolRequestParams, self._call),
            ("resources/list", page, self._resources),
            ("resources/templates/list", page, _templates),
            ("resources/read", types.ReadResourceRequestParams, self._read),
            ("logging/setLevel", types.SetLevelRequestParams, self._set_level),
        )
        for method, takes, answer in answers:
            self._server.add_request_handler(method, takes, answer)

    async def serve(self, source: Input, sink: Output, leaving: asyncio.Event) -> None:
        """Answer until the client has gone, or ``leaving`` is set; what has begun ends first."""
        serving = asyncio.ensure_future(self._speak(source, sink))
        left = asyncio.ensure_future(leaving.wait())
        await asyncio.wait((serving, left), return_when=asyncio.FIRST_COMPLETED)
        await self._acts.leave()
        for task in (serving, left):
            task.cancel()
        fault, _ = await asyncio.gather(serving, left, return_exceptions=True)
        if isinstance(fault, Exception) and not (leaving.is_set() or sink.broken):
            raise fault

    async def _speak(self, source: Input, sink: Output) -> None:
        async with stdio_server(cast("Any", source), cast("Any", sink)) as (read, write):
            await self._server.run(read, write, self._server.create_initialization_options())

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Take one message in its client's name; a fault here must not end the others."""
        client = ctx.session.client_params
        told = (ctx.params or {}).get("clientInfo") if client is None else client.client_info.name
        self._desk.introduce(agent_name(told))
        if ctx.request_id is None:
            return await call_next(ctx)
        if self._under_way >= MOST:
            raise MCPError(BUSY, f"{MOST} requests are under way: wait for one of them")
        self._under_way += 1
        try:
            return await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except (ToolError, UnknownRun) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except Exception as error:
            text = f"a fault in the cockpit itself: {type(error).__name__}"
            raise MCPError(types.INTERNAL_ERROR, text) from error
        finally:
            self._under_way -= 1

    async def _tools(
        self, context: Context, given: types.PaginatedRequestParams
    ) -> types.ListToolsResult:
        tools = [tool.document() for tool in self._calling.tools.values()]
        return types.ListToolsResult.model_validate({"tools": tools})

    async def _call(
        self, context: Context, given: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def progress(done: float, said: str) -> None:
            await context.session.report_progress(done, None, said)

        answer = await apart(self._calling.call(given.name, given.arguments, progress))
        for data in self.new_notices(context):
            params = types.LoggingMessageNotificationParams(
                level="warning", logger="cockpit", data=data
            )
            message = types.LoggingMessageNotification(params=params)
            await context.session.send_notification(message, context.request_id)
        return types.CallToolResult.model_validate(answer)

    async def _resources(
        self, context: Context, given: types.PaginatedRequestParams
    ) -> types.ListResourcesResult:
        found = reading.listed(self._desk, given.cursor)
        return types.ListResourcesResult.model_validate(found)

    async def _read(
        self, context: Context, given: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(given.uri)
        read = partial(reading.contents, self._desk, uri)
        found = await apart(self._calling.reading(read, reading.run_at(uri)))
        return types.ReadResourceResult.model_validate(found)

    async def _set_level(
        self, context: Context, given: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._level = LEVELS.index(given.level)
        return types.EmptyResult()

    def new_notices(self, context: Context) -> Iterator[Document]:
        """Yield what the cockpit says of itself, each once, to a client that hears logs."""
        meta = (context.params or {}).get("_meta") or {}
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        level = meta.get(types.LOG_LEVEL_META_KEY) if modern else LEVELS[self._level]
        if level not in LEVELS or LEVELS.index(level) > LEVELS.index("warning"):
            return
        for notice in self._desk.notices:
            if notice not in self._told:
                self._told.add(notice)
                yield {"foreign_notice": shown(notice, 300)}


async def apart(work: Coroutine[Any, Any, Document]) -> Document:
    """Do work in a task of its own: cancelled once, it can still put away what it holds.

    In a scope of the SDK's that is cancelled, each further ``await`` would be cancelled again.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,))
        raise
    return task.result()


async def _templates(
    context: Context, given: types.PaginatedRequestParams
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult.model_validate(reading.templates())
