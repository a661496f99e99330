"""``cockpit demo`` as a person sees it: it opens on the fleet, and leaving ends everything."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.demo.layout import DemoLayout
from cockpit.demo.processes import stop

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.tty]


def read_until(terminal: int, true: Callable[[bytes], bool], patience: float = 180.0) -> bytes:
    seen, deadline = b"", time.monotonic() + patience
    while not true(seen):
        assert time.monotonic() < deadline, seen[-2000:]
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536)
    return seen


def drain(terminal: int, process: subprocess.Popen[bytes], patience: float = 180.0) -> None:
    """Read on until the process has ended: it must not wait for a full terminal."""
    deadline = time.monotonic() + patience
    while process.poll() is None:
        assert time.monotonic() < deadline, "it did not leave"
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65536)


def test_it_opens_on_the_fleet_and_leaving_stops_every_process(tmp_path: Path) -> None:
    layout = DemoLayout(tmp_path / "demo")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "cockpit", "demo", "--dir", str(layout.folder)],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    try:
        read_until(ours, lambda seen: b"demo-healthy" in seen and len(layout.living()) >= 2)
        os.write(ours, b"q")
        drain(ours, process)
        assert (process.returncode, layout.living()) == (0, [])
    finally:
        process.kill()
        process.wait()
        stop(layout.living, patience=0.0)
        os.close(ours)
        os.close(theirs)
