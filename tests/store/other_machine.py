"""A process on another machine that writes to a store: ``python other_machine.py write|stick``.

``write`` adds rows to its machine's own store, until it is killed, and prints each that is kept.
``stick STORE`` stands still with a transaction of which the disk has a part.
"""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cockpit.config.places import store_path
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.store import Store

BIG = "x" * 3000
ROOT = Path(__file__).parents[2]


@contextmanager
def elsewhere(store: Path) -> Iterator[subprocess.Popen[str]]:
    """Run one that stands still in the middle of a write."""
    argv = [sys.executable, "-m", "tests.store.other_machine", "stick", str(store)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def write() -> None:
    """Add rows one by one."""
    name, store = socket.gethostname(), Store(store_path())
    memory = RunMemory(store)
    known = memory.launches(name)
    number = int(known[-1].at) + 1 if known else 0
    while True:
        memory.add_launch(name, LaunchedJob(at=float(number), job_id=BIG))
        print(number, flush=True)
        number += 1


def stick(path: Path) -> None:
    """Stand still in the middle of a transaction of which the disk has a part."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 3")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE launches SET job_id = 'torn'")
    print("half", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write()
    else:
        stick(Path(sys.argv[2]))
