"""A command that only reads, and hangs, does not outlive the program that has asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cockpit.runtime import shell
from tests.e2e.tiny_fleet import until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, threading, time
from cockpit.__main__ import leave
from cockpit.runtime.shell import run_blocking
words = ["sh", "-c", "echo $$ >$0; kill -STOP $$", sys.argv[1]]
reads = sys.argv[2] == "reads"
asking = lambda: run_blocking(words, deadline=60, reads=reads)
threading.Thread(target=asking, daemon=True).start()
sys.stdin.read()
leave(0) if sys.argv[3] == "leave" else sys.exit(0)
"""


def test_one_that_is_just_being_started_is_ended_before_we_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    leaving, real, kill = threading.Event(), subprocess.Popen, os.killpg

    def started(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = real(*args, **options)
        leaving.set()
        until(lambda: any(run._killed for run in shell._READING), lambda: "never asked to leave")
        return process

    def killed(group: int, number: int) -> None:
        said.append("killed")
        kill(group, number)

    monkeypatch.setattr(shell, "STARTS_WITHIN", 60.0)
    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(os, "killpg", killed)
    asking = threading.Thread(
        target=lambda: shell.run_blocking(["sleep", "60"], deadline=60, reads=True)
    )
    asking.start()
    leaving.wait(60)
    shell.end_reading()
    said.append("left")
    asking.join()
    assert said[:2] == ["killed", "left"]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


@pytest.mark.parametrize("how", ["leave", "exit"])
@pytest.mark.parametrize("what", ["reads", "acts"])
def test_what_only_reads_ends_with_us(what: str, how: str, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    words = [sys.executable, "-c", PROGRAM, str(told), what, how]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE) as asker:
        until(lambda: told.exists() and told.read_text().strip() != "", lambda: "never began")
        asker.communicate()
    pid = int(told.read_text())
    if what == "reads":
        until(lambda: gone(pid), lambda: "it is still there")
    else:
        assert not gone(pid)
        os.kill(pid, 9)
