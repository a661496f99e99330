"""A head on this machine: Ray 2.60's recorded answers, what it was asked, and how it misbehaves.

The answers stand in ``tests/data/ray``; a test changes them, or answers a path in its own way. Jobs
are taken in as Ray does it: each id once, whatever else becomes of the request or its answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue
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
        self.posted: list[dict[str, Any]] = []
        self.stopped: list[str] = []
        self.begins = "RUNNING"
        self.loses: list[str] = []
        """Ids whose next submit or stop is done and not answered."""
        self.slow: dict[str, asyncio.Event] = {}
        """Ids whose next submit is on its way until the event is set."""
        self.goes_on = asyncio.Event()
        """While it is not set the head stands still: what has come is done afterwards."""
        self.goes_on.set()
        self.sent = 0
        self.skew = 0.0
        self.url = ""

    def job(self, name: str) -> dict[str, Any]:
        """A job of the list, to be changed in place."""
        found: dict[str, Any]
        (found,) = [each for each in self.documents["/api/jobs/"] if each["submission_id"] == name]
        return found

    def add(self, name: str, like: str = "hero-i001", **changes: Any) -> dict[str, Any]:
        (model,) = (each for each in recorded("jobs.json") if each["submission_id"] == like)
        job: dict[str, Any] = model | {"submission_id": name, **changes}
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
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            await self.goes_on.wait()
            if head.startswith(b"POST"):
                await self._change(urlsplit(target).path, body, writer)
            else:
                await self._answer(target, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _change(self, path: str, body: bytes, writer: Writer) -> None:
        """Take in a submission, or a stop."""
        if path in self.handlers:
            await self.handlers[path](writer)
            return
        stops = path.endswith("/stop")
        name = path.split("/")[3] if stops else json.loads(body)["submission_id"]
        if not stops and name in self.slow:
            await self.slow.pop(name).wait()
        data = self._stop(name) if stops else self._submit(json.loads(body))
        if name in self.loses:
            self.loses.remove(name)
            return
        writer.write(data)
        await writer.drain()

    def _submit(self, document: dict[str, Any]) -> bytes:
        name = document["submission_id"]
        if any(each["submission_id"] == name for each in self.documents["/api/jobs/"]):
            return reply(500, _recorded("already_exists.txt").format(name=name).encode())
        self.posted.append(document)
        status = "SUCCEEDED" if document["entrypoint"] == "true" else self.begins
        now = SystemClock().now() + self.skew
        self.add(
            name, job_id=None, status=status, message="", driver_node_id=NODE,
            driver_exit_code=None, start_time=int(now * 1000), end_time=None,
            **{"runtime_env": {}, "metadata": None, **document},
        )  # fmt: skip
        return reply(200, json.dumps({"job_id": name, "submission_id": name}).encode())

    def _stop(self, name: str) -> bytes:
        found = [each for each in self.documents["/api/jobs/"] if each["submission_id"] == name]
        if not found:
            return reply(404, f"Job {name} does not exist".encode())
        self.stopped.append(name)
        if found[0]["status"] == "RUNNING":
            found[0]["status"] = "STOPPED"
        return reply(200, b'{"stopped": true}')

    def _one(self, name: str, date: str) -> bytes:
        found = [each for each in self.documents["/api/jobs/"] if each["submission_id"] == name]
        if not found:
            return reply(404, f"Job {name} does not exist".encode(), date)
        return reply(200, json.dumps(found[0]).encode(), date)

    async def _answer(self, target: str, writer: Writer) -> None:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        date = f"date: {formatdate(SystemClock().now() + self.skew, usegmt=True)}"
        if path in self.handlers:
            await self.handlers[path](writer)
            return
        if path == "/api/v0/logs/file":
            data = self._log(query)
        elif path.startswith("/api/jobs/") and path not in self.documents:
            data = self._one(path.removeprefix("/api/jobs/"), date)
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


class Skips(SystemClock):
    """A clock on which waiting a little takes no time."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    async def sleep(self, seconds: float) -> None:
        if seconds > 5.0:  # how long connections are kept
            await super().sleep(seconds)
        self.ahead += seconds
        await asyncio.sleep(0)


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
