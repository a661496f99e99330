"""A head on this machine: Ray 2.60's recorded answers, what it was asked, and how it misbehaves.

The answers stand in ``tests/data/ray``; a test changes them, or answers a path in its own way.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cockpit.model.clock import SystemClock
from cockpit.model.observed import JobValue
from cockpit.model.query import Query
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.sources.logs.source import Logs

DATA = Path(__file__).resolve().parents[2] / "data" / "ray"
NODE = "5f30b05314096dd925e6caa9f1ce0a0efc9f3c01d3c7d3f98e2d6c98"
PATHS = {
    "/api/jobs/": "jobs.json",
    "/api/version": "version.json",
    "/api/v0/actors": "actors.json",
    "/logical/actors": "starts.json",
    "/api/v0/nodes": "nodes.json",
    "/api/cluster_status": "cluster_status.json",
    "/nodes": "summary.json",
}
Writer = asyncio.StreamWriter
Handler = Callable[[Writer], Awaitable[None]]


@lru_cache
def _recorded(name: str) -> str:
    return (DATA / name).read_text()


def recorded(name: str) -> Any:
    return json.loads(_recorded(name))


def reply(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Recorded:
    """What the head answers: ``documents`` and ``handlers`` by path, ``logs`` by file name."""

    def __init__(self) -> None:
        self.documents = {path: recorded(name) for path, name in PATHS.items()}
        self.handlers: dict[str, Handler] = {}
        self.logs: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.headers: list[bytes] = []
        self.sent = 0
        self.skew = 0.0
        self.url = ""

    def job(self, name: str) -> dict[str, Any]:
        """A job of the list, to be changed in place."""
        found: dict[str, Any]
        (found,) = [each for each in self.documents["/api/jobs/"] if each["submission_id"] == name]
        return found

    def add(self, name: str, like: str = "hero-i001", **changes: Any) -> dict[str, Any]:
        job = copy.deepcopy(self.job(like)) | {"submission_id": name, **changes}
        self.documents["/api/jobs/"].append(job)
        return job

    def count(self, path: str) -> int:
        return sum(urlsplit(each).path == path for each in self.asked)

    def answers(self, path: str, *data: bytes) -> None:
        """Answer a path with these bytes in turn, the last of them for ever."""
        left = list(data)

        async def handle(writer: Writer) -> None:
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()

        self.handlers[path] = handle

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ", 2)[1].decode()
            self.asked.append(target)
            self.headers.append(head)
            await self._answer(target, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, target: str, writer: Writer) -> None:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        date = f"date: {formatdate(SystemClock().now() + self.skew, usegmt=True)}"
        if path in self.handlers:
            await self.handlers[path](writer)
            return
        if path == "/api/v0/logs/file":
            data = self._log(query)
        elif path in self.documents:
            data = reply(200, json.dumps(self.documents[path]).encode(), date)
        else:
            data = reply(404, b"404: Not Found", date)
        self.sent += len(data)
        writer.write(data)
        await writer.drain()

    def _log(self, query: dict[str, list[str]]) -> bytes:
        name = query["filename"][0]
        if name not in self.logs:
            return reply(500, f"A file is not found at: /tmp/ray/logs/{name}".encode())
        lines = self.logs[name].splitlines(keepends=True)
        return reply(200, b"".join(lines[-int(query["lines"][0]) :]))


@asynccontextmanager
async def head() -> AsyncIterator[Recorded]:
    """Serve one head as long as the block lasts."""
    made = Recorded()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


def platform() -> RayPlatform:
    clock = SystemClock()
    return RayPlatform(clock, Logs(clock))


def run_of(url: str, job_id: str | None, name: str | None = None, **parts: Any) -> RunSpec:
    """A run on Ray, named as its launches are."""
    name = name or (job_id or "toy").rpartition("-i")[0] or "toy"
    job = {"kind": "ray", "address": url, "id": job_id, **parts.pop("job", {})}
    return RunSpec(name=name, job=JobSpec.model_validate(job), **parts)


async def job_of(asked: RayPlatform, run: RunSpec) -> JobValue:
    facet = (await asked.jobs([Query(run=run)]))[run.name]
    assert facet.value is not None, facet.error
    return facet.value
