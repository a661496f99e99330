"""A real controller with local workers, of our own; ``make test-iris`` installs what it needs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
IRIS = Path(os.environ.get("IRIS_VENV", ROOT / ".iris")).absolute() / "bin" / "iris"
CLUSTER = Path(__file__).with_name("cluster.yaml")
if not IRIS.exists():
    text = "no Iris here: `make test-iris` installs it (Python 3.12, 0.7 GB)"
    pytest.skip(text, allow_module_level=True)
HEAD = {"content-type": "application/json"}


class Rig:
    """A controller of our own; ``launch`` and ``call`` talk to it as any client does."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process

    def call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        address = f"{self.url}/iris.cluster.ControllerService/{method}"
        request = urllib.request.Request(address, json.dumps(body).encode(), HEAD)
        with urllib.request.urlopen(request, timeout=20) as answer:
            document: dict[str, Any] = json.loads(answer.read())
        return document

    def launch(self, name: str, script: str, replicas: int = 1, **more: Any) -> None:
        body: dict[str, Any] = {"name": name, "replicas": replicas}
        body |= {"entrypoint": {"runCommand": {"argv": ["sh", "-c", script]}}}
        self.call("LaunchJob", {**body, "resources": {"cpuMillicores": 100}, **more})


@contextmanager
def controller_in(folder: Path) -> Iterator[Rig]:
    """Start a controller whose files lie in a folder; it ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = CLUSTER.read_text().replace("port: 0", f"port: {port}")
    (folder / "cluster.yaml").write_text(config)
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [str(IRIS), "--config", "cluster.yaml", "cluster", "start"],
            cwd=folder, env={**os.environ, "HOME": str(folder)}, stdout=out, stderr=out,
        )  # fmt: skip
    found = Rig(f"http://127.0.0.1:{port}", process)
    try:
        until(lambda: bool(found.call("ListWorkers", {}).get("workers")), 60.0)
        yield found
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(30)


def until(works: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            if works():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "the controller did not come up"
        time.sleep(0.2)
