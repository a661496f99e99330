"""A W&B on this machine: it checks every query against W&B's schema, and misbehaves on order.

The real client logs to it, too (``wandb.init(mode="online")``): it keeps what is streamed.
"""
# ruff: noqa: A002, N802, N803, N815 - the names of GraphQL's fields and arguments

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import graphql

SCHEMA = graphql.build_schema(
    (Path(__file__).parents[2] / "data" / "wandb" / "schema.graphql").read_text()
)
KEY = "0123456789abcdef0123456789abcdef01234567"
NOW = "2026-01-10T08:00:00"
NOW_S = 1_768_032_000.0


class Made:
    """A million rows that are made when they are asked for."""

    def __init__(self, count: int, row: Callable[[int], dict[str, Any]]) -> None:
        self.count = count
        self._row = row

    def __len__(self) -> int:
        return self.count

    def between(self, low: int, high: int, most: int = 1 << 60) -> list[dict[str, Any]]:
        steps = range(max(0, low), min(high, self.count))
        return [self._row(step) for step in steps[:: max(1, len(steps) // most)]]


class Kept:
    """Rows as they were logged."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def between(self, low: int, high: int, most: int = 0) -> list[dict[str, Any]]:
        return [row for row in self.rows if low <= row["_step"] < high]


class FakeRun:
    """A run as the server keeps it; its methods answer GraphQL's fields of these names."""

    def __init__(self, name: str, rows: Sequence[dict[str, Any]] | Made = (), **more: Any) -> None:
        self.id = f"Run:{name}"
        self.name = name
        self.displayName = more.pop("displayName", f"shown-{name}")
        self.state = "running"
        self.createdAt = NOW
        self.heartbeatAt: str | None = NOW
        self.commit = "c0ffee" * 6
        self.rows: Kept | Made = rows if isinstance(rows, Made) else Kept(rows)
        self.settings: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.ranged = True
        self.tags: list[str] = []
        self.broken: Exception | None = None
        vars(self).update(more)

    def add(self, *rows: dict[str, Any]) -> None:
        assert isinstance(self.rows, Kept)
        self.rows.rows += rows

    @property
    def historyLineCount(self) -> int:
        return len(self.rows)

    def _latest(self) -> dict[str, Any]:
        if isinstance(self.rows, Made):
            newest = self.rows.between(len(self.rows) - 1, len(self.rows))
        else:
            newest = self.rows.rows
        joined: dict[str, Any] = {}
        for row in newest:
            joined.update(row)
        return joined | self.summary

    def summaryMetrics(self, info: Any, keys: list[str] | None = None) -> str:
        found = self._latest()
        return _text({k: v for k, v in found.items() if keys is None or k in keys})

    def config(self, info: Any, keys: list[str] | None = None) -> str:
        entries = {key: {"desc": None, "value": value} for key, value in self.settings.items()}
        return _text({"_wandb": {"value": {"cli_version": "0.31.0"}}, **entries})

    def history(
        self,
        info: Any,
        minStep: int = 0,
        maxStep: int | None = None,
        samples: int = 500,
    ) -> list[str]:
        if self.broken is not None:
            raise self.broken
        last = math.inf if maxStep is None else maxStep
        rows = self.rows.between(minStep, int(min(last, 1 << 60)))
        return [_text(row) for row in _thinned(rows, samples)]

    def sampledHistory(self, info: Any, specs: list[str]) -> list[Any]:
        found = []
        for each in map(json.loads, specs):
            low, high = each.get("minStep", 0), each.get("maxStep", 1 << 60)
            low, high = (low, high) if self.ranged else (0, 1 << 60)
            rows = self.rows.between(low, high, each.get("samples", 500))
            held = [row for row in rows if set(each["keys"]) <= row.keys()]
            named = [{key: _worded(row[key]) for key in each["keys"]} for row in held]
            found.append(_thinned(named, each.get("samples", 500)))
        return found

    def historyTail(self, info: Any) -> str:
        return json.dumps([_text(self._latest())])

    def eventsTail(self, info: Any) -> str:
        return "[]"


def _text(row: dict[str, Any]) -> str:
    return json.dumps({key: _worded(value) for key, value in row.items()})


def _worded(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _thinned(rows: list[Any], most: int) -> list[Any]:
    if len(rows) <= most:
        return rows
    return [rows[index * len(rows) // most] for index in range(most)]


class Reply(NamedTuple):
    """What to answer instead of the truth; ``cut`` sends half of it and then nothing more."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012
    cut: bool = False
    hang: bool = False


class Asked(NamedTuple):
    """A query as it came, and the bytes of its answer."""

    query: str
    variables: dict[str, Any]
    size: int

    @property
    def runs(self) -> int:
        return self.query.count(": run(")


class FakeWandb:
    """``wrong`` lists what was not as the schema has it; ``reply`` is given to every query."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str, str], FakeRun] = {}
        self.asked: list[Asked] = []
        self.wrong: list[str] = []
        self.reply: Reply | None = None
        self.headers: dict[str, str] = {}
        self.now: Callable[[], float] = time.time
        self._sound: set[str] = set()
        self.over = threading.Event()
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, run: FakeRun, entity: str = "acme", project: str = "hero") -> FakeRun:
        self.runs[entity, project, run.name] = run
        return run

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def stop(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *_: object) -> None:
                return

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                fake.answer(self, body)

            do_PUT = do_POST

        return Handler

    def answer(self, to: BaseHTTPRequestHandler, body: bytes) -> None:
        reply = self.reply
        if reply is None and to.path == "/graphql":
            with self.lock:
                reply = Reply(200, self._query(json.loads(body)), self.headers)
        elif reply is None:
            with self.lock:
                self._stream(to.path, body)
            reply = Reply(200, b"{}")
        elif to.path == "/graphql":
            asked = json.loads(body)
            self.asked.append(Asked(asked["query"], asked.get("variables") or {}, len(reply.body)))
        self._send(to, reply)

    def _send(self, to: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.hang:
            self.over.wait(30)
            to.close_connection = True
            return
        to.send_response_only(reply.status)
        usual = {"Date": formatdate(self.now(), usegmt=True)}
        for name, value in {
            **usual, "Content-Length": str(len(reply.body)), **reply.headers
        }.items():  # fmt: skip
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(reply.body[: len(reply.body) // 2] if reply.cut else reply.body)
        to.wfile.flush()
        if reply.cut:
            self.over.wait(30)
            to.close_connection = True

    def _query(self, asked: dict[str, Any]) -> bytes:
        query, variables = asked["query"], asked.get("variables") or {}
        document = graphql.parse(query, no_location=True)
        shape = re.sub(r"\d+", "0", query)  # one that differs in figures alone is as sound
        errors = graphql.validate(SCHEMA, document) if shape not in self._sound else []
        self._sound.add(shape)
        if errors:
            self._sound.discard(shape)
            self.wrong += [str(error) for error in errors if "Watch" in query]
            said = {"errors": [{"message": error.message} for error in errors]}
            return json.dumps(said).encode()
        done = graphql.execute_sync(SCHEMA, document, _Root(self), variable_values=variables)
        answer = json.dumps(done.formatted).encode()
        if "Watch" in query:
            self.asked.append(Asked(query, variables, len(answer)))
        return answer

    def _stream(self, path: str, body: bytes) -> None:
        parts = path.strip("/").split("/")
        if parts[0] != "files" or parts[-1] != "file_stream":
            return
        run = self.runs[parts[1], parts[2], parts[3]]
        sent = json.loads(body or b"{}")
        files = sent.get("files") or {}
        rows = files.get("wandb-history.jsonl", {}).get("content", ())
        run.add(*(json.loads(line) for line in rows))
        for line in files.get("wandb-summary.json", {}).get("content", ()):
            run.summary = json.loads(line)
        run.heartbeatAt = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        if sent.get("complete"):
            run.state = "finished" if sent.get("exitcode") == 0 else "failed"


class _Root:
    """GraphQL's ``Query`` and ``Mutation``, as far as the client and the cockpit need them."""

    def __init__(self, fake: FakeWandb) -> None:
        self._fake = fake

    def project(self, info: Any, name: str, entityName: str | None = None) -> Any:
        found = [key for key in self._fake.runs if key[:2] == (entityName or "acme", name)]
        return _Project(self._fake, entityName or "acme", name) if found else None

    model = project

    def viewer(self, info: Any, entityName: str | None = None) -> Any:
        return {"id": "u", "name": "ada", "username": "ada", "entity": "acme", "flags": "{}"}

    def serverInfo(self, info: Any) -> Any:
        return {"cliVersionInfo": {}, "features": []}

    def upsertBucket(self, info: Any, input: dict[str, Any]) -> Any:
        entity = input.get("entityName") or "acme"
        key = (entity, input.get("modelName") or "hero", input.get("name") or "")
        inserted = key not in self._fake.runs
        run = self._fake.runs.setdefault(key, FakeRun(key[2]))
        run.displayName = input.get("displayName") or run.displayName
        config = json.loads(input.get("config") or "{}")
        run.settings |= {k: v.get("value") for k, v in config.items() if k != "_wandb"}
        vars(run)["project"] = _Project(self._fake, *key[:2])
        return {"bucket": run, "inserted": inserted}

    def createRunFiles(self, info: Any, input: dict[str, Any]) -> Any:
        names = [{"name": each, "uploadUrl": f"{self._fake.base}/up"} for each in input["files"]]
        return {"runID": "x", "uploadHeaders": [], "files": names}


class _Project:
    def __init__(self, fake: FakeWandb, entity: str, name: str) -> None:
        self._fake = fake
        self.id = self.internalId = f"Project:{name}"
        self.name = name
        self.entityName = entity
        self.entity = {"id": entity, "name": entity, "isTeam": True}

    def run(self, info: Any, name: str) -> FakeRun | None:
        return self._fake.runs.get((self.entityName, self.name, name))

    def bucket(self, info: Any, name: str, missingOk: bool = False) -> FakeRun | None:
        return self.run(info, name)


@contextmanager
def serving() -> Iterator[FakeWandb]:
    """Serve on a port of this machine until the end."""
    fake = FakeWandb()
    thread = threading.Thread(target=fake.serve, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.stop()
        thread.join(5)
