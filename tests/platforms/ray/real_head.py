"""A real Ray head on this machine, for as long as a test needs it; wants a token of everybody."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

TOKEN = "a-token-for-this-head-alone-0123456789"
MARK = "COCKPIT_TEST_RAY"
UP_WITHIN = 180.0
STARTS = 3
PATIENT = {"RAY_agent_register_timeout_ms": "150000"}
"""A raylet gives its agent 15 s of its own accord; a head gives its raylet 30, whatever is set."""


class RealHead(NamedTuple):
    """Where it answers, and the mark that all its processes carry in their environment."""

    url: str
    mark: str

    def submit(self, name: str, entrypoint: str, **more: Any) -> None:
        document = {"submission_id": name, "entrypoint": entrypoint, **more}
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"{self.url}/api/jobs/"
        httpx.post(url, json=document, headers=headers, timeout=60).raise_for_status()

    def processes(self, word: bytes = b"") -> list[int]:
        """Return the head's own processes, those with ``word`` in their command line."""
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                own = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                if own and word in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found


@contextmanager
def halted_part(head: RealHead, word: bytes) -> Iterator[None]:
    """Stop the head's processes with this word, as long as the block lasts."""
    pids = head.processes(word)
    assert pids, word
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def real_head(ray: Path) -> Iterator[RealHead]:
    """Start a head of this Ray; its processes are found by our mark, and all of them ended."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:
        dashboard, gcs, client, agent = free_ports(4)
        head = RealHead(f"http://127.0.0.1:{dashboard}", f"{os.getpid()}-{dashboard}")
        own = {
            **PATIENT, MARK: head.mark, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN,
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
        }  # fmt: skip
        words = [
            *(str(ray), "start", "--head", "--node-ip-address=127.0.0.1", f"--port={gcs}"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
            *(f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"),
            *("--num-cpus=4", "--num-gpus=0", "--object-store-memory=100000000"),
            *(f"--temp-dir={folder}/t", "--disable-usage-stats"),
        ]
        log = Path(folder) / "start.log"
        try:
            began = any(starts(words, {**os.environ, **own}, log, head) for _ in range(STARTS))
            assert began, log.read_text(errors="replace")[-2000:]
            await_answer(head)
            yield head
        finally:
            end(head)


def starts(words: list[str], env: dict[str, str], log: Path, head: RealHead) -> bool:
    """Start it, and tell whether it came up; what is left of one that did not is ended."""
    with log.open("wb") as out:
        begun = subprocess.Popen(words, env=env, stdout=out, stderr=out)
        with suppress(subprocess.TimeoutExpired):
            if begun.wait(UP_WITHIN) == 0:
                return True
    end(head)
    begun.wait(UP_WITHIN)
    return False


def await_answer(head: RealHead) -> None:
    until = time.monotonic() + UP_WITHIN
    headers = {"authorization": f"Bearer {TOKEN}"}
    while time.monotonic() < until:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{head.url}/api/jobs/", headers=headers, timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    raise TimeoutError("the head did not answer")


def end(head: RealHead) -> None:
    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        for pid in head.processes():
            with suppress(OSError):
                os.kill(pid, number)
        until = time.monotonic() + (5.0 if number == signal.SIGTERM else 0.5)
        while head.processes() and time.monotonic() < until:
            time.sleep(0.1)


def free_ports(many: int) -> list[int]:
    held = [socket.socket() for _ in range(many)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
