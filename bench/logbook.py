"""An entry in a logbook of 4 MB beside one of 40 kB: edited, committed, as a whole.

The repository is a real one without a remote. Beside it what plain git takes to commit as large a
file: that part is not ours to make shorter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from cockpit.model.clock import SystemClock
from cockpit.model.records import EventEntry, SaveStage
from cockpit.records.git.saver import Saver
from cockpit.records.logbook.writing import with_event

SIZES: Final = {"small": 40_000, "large": 4_000_000}
ENTRY: Final = 84
"""Bytes of an entry, about."""
FIRST: Final = 1_640_000_000.0
"""When the first one is of (epoch s): the newest of 4 MB is of before the new one."""
ROUNDS: Final = 5


def book(size: int) -> bytes:
    """Return a logbook of about ``size`` bytes: an entry every 45 minutes, no two alike."""
    parts = ["# Run: Hero Run Logbook\n\n## Event Log\n"]
    for number in range(size // ENTRY):
        at = datetime.fromtimestamp(FIRST + 2700 * number, UTC)
        loss = 2 + random.Random(number).random()
        text = f"- Status: running, step {100 * number:,}, loss {loss:.3f}"
        parts.append(f"\n### {at:%Y-%m-%d %H:%M} UTC - check {number}\n\n{text}\n")
    return "".join(parts).encode()


def repository(folder: Path, size: int) -> Path:
    """Make a checkout with a committed logbook; return the logbook."""
    folder.mkdir()
    path = folder / "run.md"
    path.write_bytes(book(size))
    for words in (["init", "-q", "-b", "main"], ["config", "user.name", "ada"],
                  ["config", "user.email", "ada@example.org"], ["add", "."],
                  ["commit", "-q", "-m", "book"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, check=True)
    return path


def _spent() -> float:
    """Return the processor time of this process and of those that it has waited for (s)."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def saved(path: Path, number: int) -> tuple[float, float]:
    """Return the seconds until an entry is committed, and those of a processor, git's with them."""
    entry = EventEntry(title=f"check {number}", at=1_800_000_000.0 + 60 * number, status="well")
    edit = partial(with_event, entry=entry)
    began, before = time.perf_counter(), _spent()
    done = asyncio.run(Saver(SystemClock()).save(path, edit, "log"))
    assert done.stage is SaveStage.COMMITTED, done
    return time.perf_counter() - began, _spent() - before


def plain(path: Path, number: int) -> float:
    """Return the seconds that git alone takes to commit a line more."""
    with path.open("a") as file:
        file.write(f"\n### 2026-03-12 08:55 UTC - plain {number}\n")
    began = time.perf_counter()
    for words in (["add", path.name], ["commit", "-q", "-m", "plain"]):
        subprocess.run(["git", *words], cwd=path.parent, check=True)
    return time.perf_counter() - began


def figures() -> dict[str, float]:
    """Return milliseconds by size: an entry, what git alone takes, and the edit's processor."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        paths = {size: repository(Path(name) / size, SIZES[size]) for size in SIZES}
        taken: dict[str, list[float]] = {}
        for number in range(ROUNDS):
            for size, path in paths.items():
                whole, used = saved(path, number)
                taken.setdefault(f"{size}_ms", []).append(whole)
                taken.setdefault(f"{size}_cpu_ms", []).append(used)
                taken.setdefault(f"{size}_git_ms", []).append(plain(path, number))
                entry = EventEntry(title="once more", at=1_900_000_000.0 + number, status="well")
                began = time.process_time()
                with_event(path.read_bytes(), entry)
                taken.setdefault(f"{size}_edit_ms", []).append(time.process_time() - began)
        found = {key: 1000 * statistics.median(each) for key, each in taken.items()}
    return found | {"ratio": found["large_cpu_ms"] / found["small_cpu_ms"]}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    found = figures()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    for key, figure in found.items():
        print(f"{key:<18}{figure:>10.1f}")


if __name__ == "__main__":
    main()
