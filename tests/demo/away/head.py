"""A Ray head as far as the demo talks to it: it runs small scripts, and lists what it was given.

Its answers have the shapes of Ray 2.60. Jobs that it does not run (trainings) are RUNNING until
they are stopped. As the real one it lists a job once more whose end it notes after the deletion.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

SMALL = ("demo-probe-", "demo-ship-", "demo-sweep-")


class Head:
    """What it holds: jobs by submission id, their logs; ``home`` is where its scripts are at."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.hidden: Path | None = None
        """A folder of this machine that the head is not to see."""
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.ran: list[str] = []
        self.ghosts: set[str] = set()
        self.refusal: tuple[int, bytes] | None = None
        self.url = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        parts = path.removeprefix("/api/jobs/").split("/")
        if path == "/api/jobs/" and method == "GET":
            return 200, list(self.jobs.values())
        if path == "/api/jobs/" and method == "POST":
            return self._submit(**json.loads(body))
        if parts[0] not in self.jobs:
            return 404, f"Job {parts[0]} does not exist"
        job = self.jobs[parts[0]]
        if parts[1:] == ["logs"]:
            return 200, {"logs": self.logs.get(parts[0], "")}
        if parts[1:] == ["stop"]:
            job |= {"status": "STOPPED"}
            return 200, {"stopped": True}
        assert method == "DELETE" and job["status"] != "RUNNING", (method, path)
        if parts[0] in self.ghosts:
            self.ghosts.remove(parts[0])
        else:
            del self.jobs[parts[0]]
        return 200, {"deleted": True}

    def _submit(self, entrypoint: str, submission_id: str) -> tuple[int, object]:
        if submission_id in self.jobs:
            return 500, f"ValueError: Job with submission_id {submission_id} already exists"
        job = {"submission_id": submission_id, "type": "SUBMISSION", "entrypoint": entrypoint}
        self.jobs[submission_id] = job | {"status": "RUNNING", "start_time": 1_795_000_000_000}
        if submission_id.startswith(SMALL):
            self.ran.append(submission_id)
            self._run(entrypoint, submission_id)
        return 200, {"job_id": submission_id, "submission_id": submission_id}

    def _run(self, entrypoint: str, submission_id: str) -> None:
        seen = entrypoint
        if self.hidden is not None:
            seen = entrypoint.replace(str(self.hidden), "/nowhere")
        done = subprocess.run(
            ["sh", "-c", seen], capture_output=True, text=True, cwd="/", timeout=20, check=False,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        own = f"INFO -- Running entrypoint for job {submission_id}: {entrypoint}\n"
        lines = done.stdout.splitlines(keepends=True)
        self.logs[submission_id] = "".join([*lines[:1], own, *lines[1:]])
        self.jobs[submission_id] |= {"status": "FAILED" if done.returncode else "SUCCEEDED"}


@contextmanager
def serving(home: Path) -> Iterator[Head]:
    """Serve one head as long as the block lasts."""
    head = Head(home)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if head.refusal is not None:
                status, data = head.refusal
            else:
                status, document = head.answer(self.command, self.path, body)
                text = document if isinstance(document, str) else json.dumps(document)
                data = text.encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    head.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield head
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
