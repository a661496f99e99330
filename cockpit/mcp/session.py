"""One client: its requests side by side, their progress, what it cancels, and how it leaves.

Two forms of the protocol are spoken: with a handshake (``initialize``), and the later one in which
every request names its version (``server/discover``). What a request says decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import cockpit
from cockpit.mcp import resources, wire
from cockpit.mcp.acting import Acts, acting
from cockpit.mcp.agent_name import agent_name
from cockpit.mcp.calling import Calling
from cockpit.mcp.desk import Desk, UnknownRun
from cockpit.mcp.foreign import RULE
from cockpit.mcp.pipes import Input, Output
from cockpit.mcp.reading import READING
from cockpit.mcp.tool import ToolError
from cockpit.mcp.wire import Bad, Document, Id, Message, RpcError
from cockpit.text.checks import shown
from cockpit.text.safe import clean

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
        return resources.listed(self._desk, params.get("cursor"))

    async def _read(self, params: Document) -> Document:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(wire.INVALID_PARAMS, "uri: expected the address of a resource")
        read = partial(resources.contents, self._desk, uri)
        return await self._calling.reading(read, resources.run_at(uri))

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
    return resources.templates()


async def _no_prompts(params: Document) -> Document:
    return {"prompts": []}


_INFO: Final = {"name": "cockpit", "title": "Run cockpit", "version": cockpit.__version__}
_ABOUT: Final = {
    "capabilities": {"tools": {}, "resources": {}, "logging": {}},
    "instructions": GUIDE,
}
