"""A finelog on a loopback port: SQLite answers the SQL, nanoarrow writes the answers as Arrow."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

na: Any = pytest.importorskip(
    "nanoarrow", reason="finelog's answers are Arrow: install the extra finelog (nanoarrow)"
)
import nanoarrow.ipc  # noqa: E402

PATH = "/proxy/system.log-server/finelog.stats.StatsService/Query"
NAN = "NaN"
"""SQLite knows no NaN."""
TABLES = """
CREATE TABLE IF NOT EXISTS "levanter.metrics" (seq INTEGER PRIMARY KEY, timestamp_ms INTEGER,
  run_id TEXT, execution_uid TEXT, job_id TEXT, step INTEGER, name TEXT, value REAL);
CREATE TABLE IF NOT EXISTS "iris.task_status" (seq INTEGER PRIMARY KEY, task_id TEXT,
  attempt_id INTEGER, ts REAL, status_text_summary_md TEXT);
"""
SPELLED = {
    "last_value(status_text_summary_md ORDER BY seq)": "status_text_summary_md",
    "AS DOUBLE": "AS REAL",
}
"""What DataFusion spells in another way than SQLite."""
BEGAN = 1_795_000_000.0


class FakeFinelog:
    """A table of metrics and one of status lines; ``reply`` stands for any answer."""

    def __init__(self) -> None:
        self.url = ""
        self.token = ""
        self.reply: tuple[int, bytes] | None = None
        self.asked: list[str] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._lock = threading.Lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        self._data = sqlite3.connect(":memory:", check_same_thread=False)
        self._data.executescript(TABLES)
        self._data.create_function("date_part", 2, lambda _, ts: ts)
        self._data.create_function("starts_with", 2, lambda text, begin: text.startswith(begin))

    def log(
        self, run: str, step: int, at: float | None = None, uid: str = "iris:a", **values: Any
    ) -> None:
        """Write a step's metrics as Levanter does: under names without slashes."""
        ms = int((BEGAN + step if at is None else at) * 1000)
        rows = [
            (ms, run, uid, f"/ada/{run}", step, name, NAN if value != value else value)  # noqa: PLR0124
            for name, value in values.items()
        ]
        with self._lock:
            self._data.executemany(
                'INSERT INTO "levanter.metrics" (timestamp_ms, run_id, execution_uid, job_id, step,'
                " name, value) VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def report(self, task: str, text: str, at: float) -> None:
        """Write a status line of a task."""
        with self._lock:
            self._data.execute(
                'INSERT INTO "iris.task_status" (task_id, attempt_id, ts, status_text_summary_md)'
                " VALUES (?, 0, ?, ?)",
                (task, at, text),
            )

    def drop(self, table: str) -> None:
        """A namespace appears with its first row."""
        with self._lock:
            self._data.execute(f'DROP TABLE "{table}"')

    def answer(self, sql: str) -> tuple[int, bytes]:
        self.asked.append(sql)
        if self.reply is not None:
            return self.reply
        for theirs, ours in SPELLED.items():
            sql = sql.replace(theirs, ours)
        try:
            with self._lock:
                found = self._data.execute(sql)
                rows, names = found.fetchall(), [each[0] for each in found.description]
        except sqlite3.OperationalError as error:
            said = f"query failed: Error during planning: table 'x' not found ({error})"
            return 400, json.dumps({"code": "invalid_argument", "message": said}).encode()
        return 200, arrow(names, rows)


def arrow(names: list[str], rows: list[tuple[Any, ...]]) -> bytes:
    """Return rows as finelog answers with them."""
    columns = [[each[at] for each in rows] for at in range(len(names))]
    types = [_type_of(column) for column in columns]
    numbers = [
        [float(cell) if kind is na.float64 else cell for cell in column]
        for kind, column in zip(types, columns, strict=True)
    ]
    children = [na.c_array(cells, kind()) for kind, cells in zip(types, numbers, strict=True)]
    schema = na.struct({f"c{at}": kind() for at, kind in enumerate(types)})
    table = na.c_array_from_buffers(schema, len(rows), buffers=[None], children=children)
    out = io.BytesIO()
    with nanoarrow.ipc.StreamWriter.from_writable(out) as writer:
        writer.write_stream(na.c_array_stream(table))
    document = {"arrowIpc": base64.b64encode(out.getvalue()).decode(), "rowCount": str(len(rows))}
    return json.dumps(document).encode()


def _type_of(column: list[Any]) -> Any:
    kinds = {type(cell) for cell in column if cell != NAN}
    if str in kinds:
        return na.string
    return na.int64 if kinds == {int} else na.float64


@contextmanager
def finelog_serving() -> Iterator[FakeFinelog]:
    """Serve on a loopback port."""
    fake = FakeFinelog()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            fake.goes_on.wait()
            if fake.token and self.headers.get("authorization") != f"Bearer {fake.token}":
                status, sent = 401, b'{"code":"unauthenticated","message":"Missing authentication"}'
            elif self.path != PATH:
                status, sent = 404, b'{"code":"not_found","message":"no such job"}'
            else:
                status, sent = fake.answer(json.loads(body)["sql"])
            self.send_response(status)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.goes_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def run_file(folder: Path, url: str, more: str = "", name: str = "hero-toy") -> Path:
    """Write a run file with one Iris job whose metrics are in finelog."""
    path = folder / "cockpit.toml"
    path.write_text(
        f'[[run]]\nname = "{name}"\n[run.job]\nkind = "iris"\nid = "/ada/{name}"\n'
        f'controller_url = "{url}"\n[run.finelog]\n{more}'
    )
    return path
