"""One client: its requests side by side, each within its rate, their progress, what it cancels."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import cockpit
from cockpit.actions.core.action import RefuseError
from cockpit.mcp import reading, wire
from cockpit.mcp.acting import Acts, acting
from cockpit.mcp.desk import Desk, Progress, Tool, ToolError, UnknownRun
from cockpit.mcp.reading import READING
from cockpit.mcp.views import RULE
from cockpit.mcp.wire import Bad, Document, Id, Input, Message, Output, RpcError
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

    async def call(self, params: Document, progress: Progress) -> Document:
        """Return the result of ``tools/call``; what a tool cannot do is an error in it.

        Raises ``RpcError`` for a tool that there is not.
        """
        name, given = params.get("name"), params.get("arguments")
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RpcError(wire.INVALID_PARAMS, f"no tool {clean(name, 60)!r}")
        run = given.get("run") if isinstance(given, dict) else None
        ended = "cancelled"
        try:
            answer = await self._used(tool, given, progress)
            ended = "error" if answer.get("isError") else "ok"
            run = answer.get("structuredContent", {}).get("run", run)
            return answer
        finally:
            self._record(run, tool.name, ended)

    async def reading(self, read: Callable[[], Awaitable[Document]], run: str) -> Document:
        """Return a resource of a run; raises ``RpcError`` and ``ToolError``."""
        wait, ended = self._limit.take(), "error"
        try:
            if wait:
                raise RpcError(wire.BUSY, _too_many(self._desk, wait))
            content = await read()
            ended = "ok"
            return content
        except LookupError as error:
            raise RpcError(NOT_FOUND, f"no resource {clean(error.args[0], 120)!r}") from error
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


LONGEST: Final = 40
_OTHER: Final = re.compile(r"[^a-z0-9._-]+")


def agent_name(told: object) -> str:
    """Return the name in a ``clientInfo``, or in a text, as a slug; empty if there is none."""
    name = told.get("name") if isinstance(told, dict) else told
    if not isinstance(name, str):
        return ""
    return _OTHER.sub("-", name[: 4 * LONGEST].lower()).strip("-._")[:LONGEST]


HANDSHAKE: Final = ("2024-11-05", "2025-06-18", "2025-11-25")
"""Versions with a handshake, oldest first; one that allowed batches is left out."""
MODERN: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
MOST: Final = 16
"""Requests that are under way at one time."""
LEVELS: Final = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
LISTS: Final = frozenset(
    (
        *("tools/list", "resources/list", "resources/templates/list", "resources/read"),
        *("prompts/list", "server/discover"),
    )
)
"""Methods whose later form says for how long an answer may be kept."""
GUIDE: Final = (
    "A cockpit for expensive ML training runs. Read with fleet, run, log, triage, history. To act:"
    " plan, read its checks, then act with the plan's id and its exact words. A block is never"
    " yours to approve: escalate instead. unknown means unknown: never act as if it had failed, and"
    " never repeat an act whose outcome is unknown. " + RULE
)
Answering = Callable[[Document], Awaitable[Document]]


class Session:
    """Answers one client until it leaves."""

    def __init__(self, desk: Desk, output: Output) -> None:
        self._desk = desk
        self._output = output
        self._acts = Acts(desk)
        tools = {tool.name: tool for tool in (*READING, *acting(self._acts))}
        self._calling = Calling(desk, tools)
        self._under_way: dict[Id, asyncio.Task[None]] = {}
        self._level = LEVELS.index("warning")
        self._told: set[str] = set()
        self._answers: Mapping[str, Answering] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": _nothing,
            "logging/setLevel": self._set_level,
            "tools/list": self._tools,
            "resources/list": self._resources,
            "resources/templates/list": _templates,
            "resources/read": self._read,
            "prompts/list": _no_prompts,
        }

    async def serve(self, lines: Input, leaving: asyncio.Event) -> None:
        """Answer until the client has gone, or ``leaving`` is set; what has begun ends first."""
        left = asyncio.ensure_future(leaving.wait())
        try:
            while not self._output.broken:
                line = asyncio.ensure_future(lines.line())
                await asyncio.wait((line, left), return_when=asyncio.FIRST_COMPLETED)
                if left.done() or line.result() is None:
                    line.cancel()
                    break
                self._take(line.result() or b"")
        finally:
            left.cancel()
            await self._acts.leave()
            for task in (*self._under_way.values(),):
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _take(self, line: bytes) -> None:
        found = wire.read(line)
        if isinstance(found, Bad):
            self._output.send(found.answer)
        elif found is not None and found.id is None:
            self._notified(found)
        elif found is not None and found.id is not None:
            self._begin(found, found.id)

    def _notified(self, message: Message) -> None:
        """Take a notification: only a cancelled request concerns us."""
        if message.method == "notifications/cancelled":
            number = message.params.get("requestId")
            task = self._under_way.get(number) if isinstance(number, str | int | float) else None
            if task is not None:
                task.cancel()

    def _begin(self, message: Message, number: Id) -> None:
        if number in self._under_way:
            self._output.send(
                wire.error(number, wire.INVALID_REQUEST, "a request with this id is under way")
            )
            return
        if len(self._under_way) >= MOST:
            text = f"{MOST} requests are under way: wait for one of them"
            self._output.send(wire.error(number, wire.BUSY, text))
            return
        task = asyncio.ensure_future(self._answer(message, number))
        self._under_way[number] = task
        task.add_done_callback(lambda _: self._under_way.pop(number, None))

    async def _answer(self, message: Message, number: Id) -> None:
        """Answer one request; one that was cancelled gets no answer."""
        try:
            content = await self._content(message)
            self._output.send(wire.result(number, content))
        except RpcError as error:
            self._output.send(wire.error(number, error.code, str(error), error.data))
        except (ToolError, UnknownRun) as error:
            self._output.send(wire.error(number, wire.INVALID_PARAMS, str(error)))
        except Exception as error:  # noqa: BLE001 - a fault here must not end the others
            text = f"a fault in the cockpit itself: {type(error).__name__}"
            self._output.send(wire.error(number, wire.INTERNAL_ERROR, text))

    async def _content(self, message: Message) -> Document:
        """Return what a request is answered with, in the form that it speaks."""
        meta = message.params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        modern = _META + "protocolVersion" in meta
        if modern:
            self._speaks(meta)
        if message.method == "tools/call":
            content = await self._calling.call(message.params, self._progress_of(meta))
            self._tell_notices(meta, modern=modern)
        elif message.method in self._answers:
            content = await self._answers[message.method](message.params)
        else:
            text = f"no method {clean(message.method, 80)!r}"
            raise RpcError(wire.METHOD_NOT_FOUND, text)
        if not modern:
            return content
        kept = CACHED if message.method in LISTS else {}
        own = {_META + "serverInfo": _INFO}
        return {**content, **kept, "resultType": "complete", "_meta": own}

    def _speaks(self, meta: Mapping[str, Any]) -> None:
        """Hear which version a request speaks, and for whom; raises ``RpcError``."""
        version = meta[_META + "protocolVersion"]
        if version != MODERN:
            asked = {"supported": [*HANDSHAKE, MODERN], "requested": clean(version, 40)}
            raise RpcError(wire.UNSUPPORTED_VERSION, "unsupported protocol version", asked)
        self._desk.introduce(agent_name(meta.get(_META + "clientInfo")))

    async def _initialize(self, params: Document) -> Document:
        self._desk.introduce(agent_name(params.get("clientInfo")))
        asked = str(params.get("protocolVersion", ""))
        spoken = [each for each in HANDSHAKE if each <= asked]
        version = HANDSHAKE[0] if not asked else spoken[-1] if spoken else HANDSHAKE[-1]
        return {"protocolVersion": version, **_ABOUT, "serverInfo": _INFO}

    async def _discover(self, params: Document) -> Document:
        return {"supportedVersions": [*HANDSHAKE, MODERN], **_ABOUT, "serverInfo": _INFO}

    async def _set_level(self, params: Document) -> Document:
        level = params.get("level")
        if level not in LEVELS:
            raise RpcError(wire.INVALID_PARAMS, f"level: expected one of {', '.join(LEVELS)}")
        self._level = LEVELS.index(level)
        return {}

    async def _tools(self, params: Document) -> Document:
        return {"tools": [tool.document() for tool in self._calling.tools.values()]}

    async def _resources(self, params: Document) -> Document:
        return reading.listed(self._desk, params.get("cursor"))

    async def _read(self, params: Document) -> Document:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(wire.INVALID_PARAMS, "uri: expected the address of a resource")
        read = partial(reading.contents, self._desk, uri)
        return await self._calling.reading(read, reading.run_at(uri))

    def _progress_of(self, meta: Mapping[str, Any]) -> Callable[[float, str], None]:
        """Return what tells of progress, if the client has asked for that."""
        token = meta.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool):
            return lambda done, said: None

        def tell(done: float, said: str) -> None:
            params = {"progressToken": token, "progress": done, "message": said}
            self._output.send(wire.notification("notifications/progress", params))

        return tell

    def _tell_notices(self, meta: Mapping[str, Any], *, modern: bool) -> None:
        """Log what the cockpit says of itself, each once, to a client that hears logs."""
        level = meta.get(_META + "logLevel") if modern else LEVELS[self._level]
        if level not in LEVELS or LEVELS.index(level) > LEVELS.index("warning"):
            return
        for notice in self._desk.notices:
            if notice not in self._told:
                self._told.add(notice)
                told = {"foreign_notice": shown(notice, 300)}
                params = {"level": "warning", "logger": "cockpit", "data": told}
                self._output.send(wire.notification("notifications/message", params))


async def _nothing(params: Document) -> Document:
    return {}


async def _templates(params: Document) -> Document:
    return reading.templates()


async def _no_prompts(params: Document) -> Document:
    return {"prompts": []}


_INFO: Final = {"name": "cockpit", "title": "Run cockpit", "version": cockpit.__version__}
_ABOUT: Final = {
    "capabilities": {"tools": {}, "resources": {}, "logging": {}},
    "instructions": GUIDE,
}
