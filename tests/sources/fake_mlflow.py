"""An MLflow on this machine: the same run in a tracking server, a SQLite store and a folder."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

LARGEST = 1.7976931348623157e308
BEGAN = 1_768_032_000_000
"""When the first run was started (ms)."""


class Logged(NamedTuple):
    key: str
    value: float
    at: int
    step: int


class FakeRun:
    """A run with what was logged, in order."""

    def __init__(self, number: int, name: str = "toy", status: str = "RUNNING") -> None:
        self.id = f"{number:032x}"
        self.name = name
        self.status = status
        self.ended: int | None = None
        self.began = BEGAN + 1000 * number
        self.params: dict[str, str] = {}
        self.logged: list[Logged] = []

    def log(self, step: int, seconds: float = 1.0, **values: float) -> None:
        """Log metrics at once, so long after what was logged last."""
        at = (self.logged[-1].at if self.logged else self.began) + int(seconds * 1000)
        names = {name.replace("__", "/"): value for name, value in values.items()}
        self.logged += [Logged(name, value, at, step) for name, value in names.items()]

    @property
    def newest(self) -> dict[str, Logged]:
        """By each metric's highest step, as MLflow itself keeps it."""
        found: dict[str, Logged] = {}
        for each in self.logged:
            if each.key not in found or (each.step, each.at) >= found[each.key][3:1:-1]:
                found[each.key] = each
        return found


def folder(root: Path, runs: list[FakeRun], experiment: str = "pretrain") -> Path:
    """Write runs as MLflow's file store does."""
    own = root / "217"
    own.mkdir(parents=True, exist_ok=True)
    (own / "meta.yaml").write_text(
        f"experiment_id: '217'\nlifecycle_stage: active\nname: {experiment}\n"
    )
    status = {"RUNNING": 1, "FINISHED": 3, "FAILED": 4, "KILLED": 5}
    for run in runs:
        place = own / run.id
        (place / "metrics").mkdir(parents=True, exist_ok=True)
        (place / "params").mkdir(exist_ok=True)
        name = run.name.replace("'", "''")
        (place / "meta.yaml").write_text(
            f"lifecycle_stage: active\nrun_id: {run.id}\nrun_name: '{name}'\n"
            f"start_time: {run.began}\nend_time: {run.ended or 'null'}\n"
            f"status: {status[run.status]}\ntags: []\n"
        )
        for key, value in run.params.items():
            (place / "params" / key).write_text(value)
        lines: dict[str, list[str]] = {}
        for each in run.logged:
            lines.setdefault(each.key, []).append(f"{each.at} {each.value} {each.step}\n")
        for key, own_lines in lines.items():
            path = place / "metrics" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(own_lines))
    return root


TABLES = """
CREATE TABLE IF NOT EXISTS experiments (experiment_id INTEGER PRIMARY KEY, name VARCHAR(256));
CREATE TABLE IF NOT EXISTS runs (run_uuid VARCHAR(32) PRIMARY KEY, name VARCHAR(250),
  status VARCHAR(9), start_time BIGINT, end_time BIGINT, lifecycle_stage VARCHAR(20),
  experiment_id INTEGER);
CREATE TABLE IF NOT EXISTS metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT,
  run_uuid VARCHAR(32), step BIGINT, is_nan BOOLEAN,
  PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
CREATE INDEX IF NOT EXISTS index_metrics_run_uuid ON metrics (run_uuid);
CREATE TABLE IF NOT EXISTS latest_metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT,
  step BIGINT, is_nan BOOLEAN, run_uuid VARCHAR(32), PRIMARY KEY (key, run_uuid));
CREATE TABLE IF NOT EXISTS params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32));
CREATE TABLE IF NOT EXISTS tags (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32));
"""


def stored(value: float) -> tuple[float, bool]:
    """Return a value as MLflow's SQL store keeps it."""
    if math.isnan(value):
        return 0.0, True
    return (math.copysign(LARGEST, value) if math.isinf(value) else value), False


def database(path: Path, runs: list[FakeRun], experiment: str = "pretrain") -> Path:
    """Write runs as MLflow's SQLite store does; what is there already stays."""
    with sqlite3.connect(path) as to:
        to.executescript(TABLES)
        to.execute("INSERT OR IGNORE INTO experiments VALUES (217, ?)", (experiment,))
        for run in runs:
            to.execute(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, 'active', 217)",
                (run.id, run.name, run.status, run.began, run.ended),
            )
            for each in run.logged:
                value, nan = stored(each.value)
                row = (each.key, value, each.at, run.id, each.step, nan)
                to.execute("INSERT OR IGNORE INTO metrics VALUES (?, ?, ?, ?, ?, ?)", row)
            for each in run.newest.values():
                value, nan = stored(each.value)
                latest = (each.key, value, each.at, each.step, nan, run.id)
                to.execute(
                    "INSERT OR REPLACE INTO latest_metrics VALUES (?, ?, ?, ?, ?, ?)", latest
                )
            to.execute("DELETE FROM params WHERE run_uuid = ?", (run.id,))
            params = [(key, value, run.id) for key, value in run.params.items()]
            to.executemany("INSERT INTO params VALUES (?, ?, ?)", params)
    to.close()
    return path


class FakeServer:
    """The part of MLflow's REST API that is asked; ``odd`` answers in its place, or ``None``."""

    def __init__(self, runs: list[FakeRun]) -> None:
        self.runs = runs
        self.asked: list[tuple[str, str | None]] = []
        self.pages_on = True
        """MLflow before 3.4 always gives a whole history, whatever it is asked for."""
        self.odd: Callable[[str], tuple[int, bytes] | None] = lambda path: None
        self.url = ""

    def answer(self, path: str, told: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return a status and a document."""
        name = path.removeprefix("/api/2.0/mlflow/")
        if name == "experiments/get-by-name" and told["experiment_name"] != "pretrain":
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"}
        if name.startswith("experiments/"):
            return 200, {"experiment": {"experiment_id": "217", "name": "pretrain"}}
        if name == "runs/search":
            which = told.get("filter", "")
            found = [each for each in self.runs if not which or self._meant(each, which)]
            found.sort(key=lambda each: -each.began)
            return 200, {"runs": [self._run(each) for each in found]}
        run = next(
            (each for each in self.runs if each.id in (told.get("run_id"), told.get("run_ids"))),
            None,
        )
        if run is None:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Run not found"}
        if name == "runs/get":
            return 200, {"run": self._run(run)}
        rows = [each for each in run.logged if each.key == told["metric_key"]]
        if name == "metrics/get-history":
            return self._history(rows, told)
        assert name == "metrics/get-history-bulk-interval", name
        low, high = int(told["start_step"]), int(told["end_step"])
        assert int(told["max_results"]) <= 2500
        return 200, {"metrics": [self._metric(each) for each in rows if low <= each.step <= high]}

    def _history(self, rows: list[Logged], told: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        rows = sorted(rows, key=lambda each: (each.at, each.step))
        begin, end = 0, int(told["max_results"])
        if "page_token" in told:
            begin = json.loads(b64decode(told["page_token"]))["offset"]
            end += begin
        if not self.pages_on:
            begin, end = 0, len(rows)
        token = b64encode(json.dumps({"offset": end}).encode()).decode()
        more = {"next_page_token": token} if end < len(rows) else {}
        return 200, {"metrics": [self._metric(each) for each in rows[begin:end]], **more}

    def _meant(self, run: FakeRun, which: str) -> bool:
        if which.startswith("attributes.run_id IN"):
            return run.id in which
        assert which.startswith("attributes.run_name = "), which
        return which.removeprefix("attributes.run_name = ")[1:-1] == run.name

    def _run(self, run: FakeRun) -> dict[str, Any]:
        info = {
            "run_id": run.id, "run_name": run.name, "experiment_id": "217", "status": run.status,
            "start_time": run.began, "end_time": run.ended, "lifecycle_stage": "active",
        }  # fmt: skip
        params = [{"key": key, "value": value} for key, value in run.params.items()]
        newest = [self._metric(each) for each in run.newest.values()]
        return {"info": info, "data": {"metrics": newest, "params": params}}

    def _metric(self, each: Logged) -> dict[str, Any]:
        value = "NaN" if math.isnan(each.value) else stored(each.value)[0]
        return {"key": each.key, "value": value, "timestamp": each.at, "step": str(each.step)}


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """Serve on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            told = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._answer(parts.path, told)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self._answer(self.path, json.loads(body))

        def _answer(self, path: str, told: dict[str, Any]) -> None:
            server.asked.append((path, self.headers.get("authorization")))
            odd = server.odd(path)
            status, document = (0, {}) if odd is not None else server.answer(path, told)
            body = json.dumps(document).encode() if odd is None else odd[1]
            self.send_response(status if odd is None else odd[0])
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
