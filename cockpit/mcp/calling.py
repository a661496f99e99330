"""One call of a tool: held to the rate, its arguments checked, written down however it ends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cockpit.actions.core.action import RefuseError
from cockpit.mcp import wire
from cockpit.mcp.desk import Desk, UnknownRun
from cockpit.mcp.limits import RateLimit
from cockpit.mcp.tool import Progress, Tool, ToolError
from cockpit.mcp.wire import Document, RpcError
from cockpit.store.store import StoreError, run_key
from cockpit.text.checks import shown
from cockpit.text.safe import clean

MOST: Final = 128 * 1024
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
        if len(text) > MOST:
            return _error(f"the answer has {len(text)} characters, {MOST} are given: ask for less")
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
