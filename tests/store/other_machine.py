"""A process of another machine, as far as a store can tell: another name, id and boot.

``python other_machine.py NAME STORE WHAT [PLAIN]``. ``WHAT``: ``write`` adds rows until it is
killed and prints each that it was told is kept; ``stick`` stands still with a transaction half on
the disk until a line comes on standard input. ``PLAIN``: a kernel without locks.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from cockpit.runtime import process
from cockpit.store import shared_file
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.store import Store, StoreError

BIG = "x" * 3000


def become(name: str, folder: Path) -> None:
    """Give this process another machine's identity."""
    folder.mkdir(exist_ok=True)
    for what in ("_MACHINE", "_BOOT"):
        place = folder / f"{name}{what}"
        place.write_text(f"{what} of {name}")
        setattr(process, what, place)
    socket.gethostname = lambda: name


def write(store: Store, name: str) -> None:
    """Add rows one by one, and change pages all over the file."""
    memory = RunMemory(store)
    last = memory.last_launch(name)
    number = 0 if last is None else int(last.at) + 1
    while True:
        try:
            with store.writing() as connection:
                memory.add_launch(name, LaunchedJob(at=float(number), job_id=BIG))
                connection.execute("PRAGMA cache_size = 3")
                connection.execute(
                    "UPDATE launches SET launch_id = ? WHERE at > ?", (name, number - 30)
                )
        except StoreError as error:
            print(f"! {error}", flush=True)
            continue
        print(number, flush=True)
        number += 1


def stick(store: Store, name: str) -> None:
    """Stand still in the middle of a transaction of which the disk has a part."""
    try:
        with store.writing() as connection:
            connection.execute("PRAGMA cache_size = 3")
            connection.execute("UPDATE launches SET job_id = ? || 'torn'", (BIG,))
            print("half", flush=True)
            sys.stdin.readline()
            connection.execute("UPDATE launches SET job_id = 'torn again' || job_id")
    except StoreError as error:
        print(f"! {error}", flush=True)
    else:
        print("kept", flush=True)


def main(name: str, path: str, what: str, plain: str = "") -> None:
    """Do ``what`` to the store at ``path``."""
    if name:
        become(name, Path(path).parent.with_name("identities"))
    if plain:
        shared_file._has_locks = lambda folder: False
    (write if what == "write" else stick)(Store(Path(path)), name or socket.gethostname())


if __name__ == "__main__":
    main(*sys.argv[1:])
