"""A controller on a loopback port that answers as the recorded ones do, of either generation.

``tests/data/iris`` holds what real controllers answered in June and October 2026. What the fake
adds is only what a controller does with its own records: filter, page, follow a cursor. June
knows fewer fields and methods, and refuses fields that it does not know, as October does.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data" / "iris"
RPC = "iris.cluster.ControllerService"
LOGS = "proxy/system.log-server/finelog.logging.LogService"
LIVES = {"JOB_STATE_PENDING", "JOB_STATE_BUILDING", "JOB_STATE_RUNNING"}
QUERY = {
    "nameFilter",
    "jobIdPrefix",
    "limit",
    "offset",
    "stateFilter",
    "sortField",
    "sortDirection",
}
FIELDS = {
    "GetJobState": {"jobIds"},
    "ListJobs": {"query"},
    "GetJobStatus": {"jobId"},
    "ListTasks": {"jobId"},
    "GetTaskStatus": {"taskId"},
    "GetAutoscalerStatus": set(),
    "GetCurrentUser": set(),
    "GetProcessStatus": {"maxLogLines"},
    "ListEndpoints": {"prefix"},
    "LaunchJob": {
        *("name", "entrypoint", "environment", "resources", "replicas", "coscheduling"),
        *("constraints", "schedulingTimeout", "existingJobPolicy", "clientRevisionDate"),
        "priorityBand",
    },
    "ListBackends": set(),
    "ListPeers": set(),
    "GetKubernetesClusterStatus": set(),
    "TerminateJob": {"jobId"},
    "FetchLogs": {"source", "matchScope", "maxLines", "tail", "cursor", "sinceMs"},
}
Reply = tuple[int, bytes, tuple[str, ...]]
Fault = Callable[[asyncio.StreamWriter], Awaitable[None]]


def recorded(generation: str) -> dict[str, Any]:
    """What a real controller of that generation answered."""
    document: dict[str, Any] = json.loads((DATA / f"{generation}.json").read_text())
    return document


def job(name: str, state: str = "RUNNING", at: int = 1_795_246_900, **more: Any) -> dict[str, Any]:
    """A job in the shape of a recorded one; ``at`` is its submission in seconds."""
    counts = more.pop("counts", {state.lower(): more.get("taskCount", 1)})
    started = {} if state == "PENDING" else {"startedAt": {"epochMs": str(at * 1000 + 500)}}
    base = {"jobId": name, "state": f"JOB_STATE_{state}", "exitCode": 0, "error": ""}
    base |= {"failureCount": 0, "preemptionCount": 0, "name": name, "hasChildren": False}
    base |= {"submittedAt": {"epochMs": str(at * 1000)}, "taskStateCounts": counts, **started}
    return base | {"taskCount": 1, "completedCount": 0, "pendingReason": ""} | more


class Controller:
    """The answers, which a test may change, and what was asked."""

    def __init__(self, generation: str = "october") -> None:
        self.generation = generation
        data = recorded(generation)
        self.jobs: dict[str, dict[str, Any]] = {each["jobId"]: each for each in data["jobs"]}
        self.timeline: list[dict[str, Any]] = data["timeline"]
        self.status: dict[str, Any] = data["status"]
        self.tasks: dict[str, Any] = data["tasks"]
        self.task: dict[str, Any] = data["task"]
        self.autoscaler: dict[str, Any] = data["autoscaler"]
        self.endpoints: dict[str, Any] = data.get("endpoints", {})
        self.pages: dict[str, bytes] = {}
        self.posts: dict[str, Reply] = {}
        self.backends = ["worker-daemon"]
        self.peers: list[str] = []
        self.lines: list[dict[str, Any]] = list(data["lines"])
        self.asked: list[str] = []
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.heads: list[str] = []
        self.skew = 0.0
        self.token: str | None = None
        self.reply: dict[str, Reply] = {}
        self.fault: Fault | None = None
        self.lose: set[str] = set()
        """Methods whose answers are lost, after they were done."""
        self.lingers = 0
        self.heedless = False
        """Looks at the tasks of a job that was ended before its workers say that it has."""
        self.goes_on = asyncio.Event()
        """While it is not set the controller stands still: what has come is done afterwards."""
        self.goes_on.set()
        self.connections: list[asyncio.StreamWriter] = []
        self.url = ""

    @property
    def counted(self) -> Counter[str]:
        return Counter(self.asked)

    def put(self, *jobs: dict[str, Any]) -> None:
        """Replace all jobs."""
        self.jobs = {each["jobId"]: each for each in jobs}

    def log(self, key: str, *texts: str, at: float = 1_795_246_950.0) -> None:
        """Let a task write lines."""
        self.lines += [
            {"timestamp": {"epochMs": str(int(at * 1000) + n)}, "data": text, "key": key,
             "source": "stdout", "attemptId": 0, "level": "LOG_LEVEL_UNKNOWN"}
            for n, text in enumerate(texts)
        ]  # fmt: skip

    def names(self, state: str = "") -> list[str]:
        """The jobs that were launched here, but for those that only close a name."""
        return [
            name
            for name, each in self.jobs.items()
            if each["state"].endswith(state)
            and "COCKPIT_CLOSES" not in self._variables(name)
            and self.status.get(name, {}).get("request", {}).get("bundleId") == "b1"
        ]

    def _variables(self, name: str) -> dict[str, str]:
        request = self.status.get(name, {}).get("request", {})
        found: dict[str, str] = request.get("environment", {}).get("envVars", {})
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lower = head.lower()
                length = int(lower.split("content-length: ")[1].split("\r\n")[0]
                             if "content-length: " in lower else 0)  # fmt: skip
                body = await reader.readexactly(length)
                await self._one(head, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def _one(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        method, path = head.split(" ")[:2]
        name = path.rstrip("/").rpartition("/")[2]
        self.asked.append(name)
        self.heads.append(head)
        await self.goes_on.wait()
        if self.fault is not None:
            await self.fault(writer)
            return
        status, found, headers = self.reply.get(name) or self.answer(method, path, name, body, head)
        if name in self.lose:
            raise ConnectionError
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(found)}"]
        if not any(header.startswith("content-type") for header in headers):
            lines.append("content-type: application/json")
        shown = asyncio.get_running_loop() and formatdate(_now() + self.skew, usegmt=True)
        lines += [f"date: {shown}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + found)
        await writer.drain()

    def answer(self, method: str, path: str, name: str, body: bytes, head: str) -> Reply:
        """What a controller says; wrong methods and unknown fields as they do."""
        if self.token is not None and f"authorization: bearer {self.token}" not in head.lower():
            return _json(401, {"code": "unauthenticated", "message": "Missing authentication"})
        if path == "/health":
            return _json(200, {"status": "ok"})
        if path in self.posts:
            return self.posts[path]
        if method == "GET":
            page = self.pages.get(path)
            missing = {"error": f"No endpoint '{name}'"}
            return (
                _json(404, missing) if page is None else (200, page, ("content-type: text/html",))
            )
        service = path.strip("/").rpartition("/")[0]
        october = self.generation == "october"
        known = {RPC: FIELDS.keys() - {"FetchLogs", "ListEndpoints"}, LOGS: {"FetchLogs"}}
        known[RPC] -= set() if october else {"ListBackends", "ListPeers"}
        if october:
            known["iris.cluster.EndpointService"] = {"ListEndpoints"}
        if name not in known.get(service, ()):
            return 404, b"" if october else b"Not Found", ("content-type: text/plain",)
        request = json.loads(body)
        self.bodies.append((name, request))
        for unknown in request.keys() - FIELDS[name]:
            text = f'Message type has no field named "{unknown}"'
            return _json(500, {"code": "unknown", "message": text})
        answered: Reply = getattr(self, f"_{name}")(request)
        return answered

    def _GetJobState(self, request: dict[str, Any]) -> Reply:  # noqa: N802 - the wire's names
        states = {i: self.jobs[i]["state"] for i in request["jobIds"] if i in self.jobs}
        return _json(200, {"states": states} if states else {})

    def _ListJobs(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        query = request["query"]
        assert query.keys() <= QUERY, query
        limit, offset = query.get("limit") or 50, query.get("offset", 0)
        if limit > 500 or offset > 5000:
            return _json(400, {"code": "invalid_argument", "message": "exceeds MAX"})
        wanted = query.get("stateFilter", "")
        found = [
            each
            for each in self.jobs.values()
            if each["jobId"].startswith(query.get("jobIdPrefix", ""))
            and query.get("nameFilter", "") in each["jobId"]
            and (not wanted or each["state"] == f"JOB_STATE_{wanted.upper()}")
        ]
        found.sort(key=lambda each: int(each["submittedAt"]["epochMs"]), reverse=True)
        page = found[offset : offset + limit]
        more = len(found) > offset + limit
        document: dict[str, Any] = {"totalCount": len(found), "hasMore": more}
        return _json(200, {"jobs": page, **document} if page else document)

    def _GetJobStatus(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        name = request["jobId"]
        if name in self.status:
            return _json(200, self.status[name])
        if name in self.jobs:
            return _json(200, {"job": self.jobs[name], "request": {"name": name}})
        return _json(404, {"code": "not_found", "message": f"Job {name} not found"})

    def _LaunchJob(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        """As both generations do: a name is refused while its job lives, and after by policy."""
        name = request["name"]
        state = self.jobs.get(name, {}).get("state")
        strict = request.get("existingJobPolicy") == "EXISTING_JOB_POLICY_ERROR"
        if state is not None and (strict or state in LIVES):
            text = f"Job {name} already exists and is still running"
            return _json(409, {"code": "already_exists", "message": text})
        never = any(each["key"] == "cockpit-closed" for each in request.get("constraints", ()))
        at = int(_now()) + len(self.jobs)
        self.jobs[name] = job(name, "PENDING" if never else "RUNNING", at)
        self.status[name] = {"job": self.jobs[name], "request": {**request, "bundleId": "b1"}}
        self.tasks[name] = {"tasks": [] if never else [task_of(name)]}
        return _json(200, {"jobId": name})

    def _TerminateJob(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        name = request["jobId"]
        if name not in self.jobs:
            return _json(404, {"code": "not_found", "message": f"Job {name} not found"})
        for each in self.jobs.values() if not self.heedless else ():
            if f"{each['jobId']}/".startswith(f"{name}/") and each["state"] in LIVES:
                each["state"] = "JOB_STATE_KILLED"
        return _json(200, {})

    def _ListTasks(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        if self.jobs.get(request["jobId"], {}).get("state") == "JOB_STATE_KILLED":
            self.lingers -= 1
            if self.lingers < 0:
                for task in self.tasks.get(request["jobId"], {}).get("tasks", ()):
                    task |= {
                        "state": "TASK_STATE_KILLED",
                        "finishedAt": {"epochMs": "1795246990000"},
                    }
        return _json(200, self.tasks.get(request["jobId"], {}))

    def _GetTaskStatus(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        name = request["taskId"]
        if name in self.task:
            return _json(200, self.task[name])
        return _json(404, {"code": "not_found", "message": f"Task {name} not found"})

    def _GetAutoscalerStatus(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        return _json(200, self.autoscaler)

    def _GetCurrentUser(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        return _json(200, {"userId": "anonymous", "role": "admin"})

    def _GetProcessStatus(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        return _json(200, {"processInfo": {"pythonVersion": "3.12.1", "uptimeMs": "210964"}})

    def _ListBackends(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        return _json(200, {"backends": [{"kind": kind} for kind in self.backends]})

    def _ListPeers(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        return _json(200, {"peers": [{"peerId": name} for name in self.peers]})

    def _GetKubernetesClusterStatus(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        on = "kubernetes" in self.backends
        return _json(200, {"namespace": "iris"} if on else {})

    def _ListEndpoints(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        found = self.endpoints.get("endpoints", [])
        mine = [each for each in found if each["name"].startswith(request.get("prefix", ""))]
        return _json(200, {"endpoints": mine} if mine else {})

    def _FetchLogs(self, request: dict[str, Any]) -> Reply:  # noqa: N802
        assert request["matchScope"] == "MATCH_SCOPE_PREFIX"
        since, cursor = int(request.get("sinceMs", 0)), int(request.get("cursor", 0))
        most = request.get("maxLines") or 1000
        found = [
            (number, line)
            for number, line in enumerate(self.lines, 1)
            if line["key"].startswith(request["source"])
            and int(line["timestamp"]["epochMs"]) > since
            and number > cursor
        ]
        found = found[-most:] if request.get("tail") else found[:most]
        last = found[-1][0] if found else cursor
        entries = [line for _, line in found]
        if self.generation == "october":
            entries = [line | {"seq": str(number)} for number, line in found]
        return _json(
            200, {"entries": entries, "cursor": str(last)} if found else {"cursor": str(last)}
        )


def task_of(name: str) -> dict[str, Any]:
    """A task of a job, on a worker."""
    found = {"taskId": f"{name}/0", "state": "TASK_STATE_RUNNING", "workerId": "w1", "exitCode": 0}
    return found | {"attempts": [{"attemptId": 0}]}


def _json(status: int, document: object) -> Reply:
    return status, json.dumps(document).encode(), ()


def _now() -> float:
    import time

    return time.time()


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[Controller]:
    """Serve until the block ends."""
    server = await asyncio.start_server(controller.serve, "127.0.0.1", 0)
    controller.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield controller
    finally:
        server.close()
        for writer in controller.connections:
            writer.close()
        await asyncio.sleep(0)
