"""A client of ``cockpit mcp`` over real pipes, as small as the protocol lets it be."""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PATIENCE = 60.0

REPO = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "cockpit")


async def nothing(done: float, said: str) -> None:
    """Hear of no progress."""


def loaded_session() -> ModuleType:
    """Return the module that the protocol's SDK is needed for; skip the test without one."""
    pytest.importorskip("mcp", reason="needs the extra mcp: pip install 'run-cockpit[mcp]'")
    return importlib.import_module("cockpit.mcp.session")


class Client:
    """One server process; ``heard`` keeps every notification."""

    def __init__(
        self,
        config: Path,
        folder: Path,
        *,
        program: Sequence[str] = PROGRAM,
        more: Sequence[str] = (),
        runtime: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        loaded_session()
        own = {
            **os.environ, "PYTHONPATH": str(REPO), "GIT_TERMINAL_PROMPT": "0",
            "XDG_STATE_HOME": str(folder / "state"),
            **({} if runtime is None else {"XDG_RUNTIME_DIR": str(runtime)}),
            **(env or {}),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [*program, "mcp", "--config", str(config), *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own,
        )  # fmt: skip
        self.heard: list[dict[str, Any]] = []
        self._number = 0
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def begin(self, method: str, **params: object) -> int:
        """Send a request; return its id."""
        self._number += 1
        document = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send(json.dumps(document).encode() + b"\n")
        return self._number

    def notify(self, method: str, **params: object) -> None:
        self.send(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"
        )

    def next(self) -> dict[str, Any]:
        """Return the next message that is no notification; an empty one at the end."""
        while True:
            line = self._lines.get(timeout=PATIENCE)
            if not line:
                return {}
            found: dict[str, Any] = json.loads(line)
            if "method" not in found:
                return found
            self.heard.append(found)

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return the whole answer to a request."""
        number = self.begin(method, **params)
        answer = self.next()
        assert answer.get("id") == number, answer
        return answer

    def greet(self, name: str = "night-watch", version: str = "2025-11-25") -> dict[str, Any]:
        told = {"name": name, "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=told)
        self.notify("notifications/initialized")
        result: dict[str, Any] = answer["result"]
        return result

    def use(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return what a tool gives; fails where it is an error."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}}
        answer = self.ask("tools/call", **params)
        assert not answer["result"].get("isError"), answer
        found: dict[str, Any] = answer["result"]["structuredContent"]
        assert json.loads(answer["result"]["content"][0]["text"]) == found
        return found

    def fails(self, tool: str, **arguments: object) -> str:
        """Return what a tool says that it cannot."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        assert answer["result"]["isError"], answer
        return str(answer["result"]["content"][0]["text"])

    def leave(self) -> int:
        """Close its input; return how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
