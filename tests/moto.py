"""Moto, a server of S3 that was not made for these tests; it serves GCS's lists too."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.checkpoints.store_server import variables

OWN = Path(__file__).parents[1] / ".moto/bin/moto_server"
MOTO = (
    os.environ.get("MOTO_SERVER") or shutil.which("moto_server") or (OWN if OWN.exists() else None)
)
needs_moto = pytest.mark.skipif(
    MOTO is None,
    reason="no moto here: python3 -m venv .moto; .moto/bin/pip install 'moto[s3]' flask flask-cors",
)

ONE_BY_ONE = """
import threading
import moto.server as server

serve, turn = server.run_simple, threading.Lock()

def one_by_one(host, port, app, **more):
    def asked(environ, start):
        with turn:
            return [b"".join(app(environ, start))]
    serve(host, port, asked, **more)

server.run_simple = one_by_one
server.main()
"""
"""Moto looks for an object and puts it in two steps: of two at once, both were first."""


def _served() -> list[str]:
    assert MOTO is not None
    python = Path(MOTO).parent / "python"
    return [str(python), "-c", ONE_BY_ONE] if python.exists() else [str(MOTO)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start moto on a port of its own and give its address; it is ended with the tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as file:
        argv = [*_served(), "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(argv, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def made_bucket(address: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Return a new bucket, named after a folder of this test's own, which is the home from now."""
    monkeypatch.setenv("HOME", str(folder))
    for name, value in variables(address).items():
        monkeypatch.setenv(name, value)
    name = folder.name.replace("_", "-").lower()
    urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT")).close()
    return name
