"""What acting costs beside looking: a plan against a check, an entry in a long logbook.

Both ratios are measured in one run: the plan of a relaunch against one check of the same run, and
an entry appended to a logbook of 4 MB against one of 40 kB.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cockpit.model.records import EventEntry
from cockpit.records.logbook.writing import with_event

ROUNDS = 7
RUN = "bench-run"


def main() -> int:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        file = _fleet(Path(folder))
        look = _median(lambda: _cockpit("check", RUN, "--config", str(file), "--json"))
        plan = _median(lambda: _cockpit("relaunch", RUN, "--config", str(file), "--json"))
    print(f"one check                 {look * 1000:7.0f} ms (a whole process)")
    print(f"the plan of a relaunch    {plan * 1000:7.0f} ms   {plan / look:.2f} times the check")
    small, large = _book(40_000), _book(4_000_000)
    entry = EventEntry(title="check", at=1_800_000_000.0, status="running", next="check again")
    short = _median(lambda: with_event(small, entry))
    long = _median(lambda: with_event(large, entry))
    print(f"an entry in a 40 kB book  {short * 1000:7.1f} ms")
    times = f"{long / short:.0f} times, for 100 times the text"
    print(f"an entry in a 4 MB book   {long * 1000:7.1f} ms   {times}")
    return 0


def _fleet(folder: Path) -> Path:
    (folder / "run.log").write_text("step 10 loss 2.0\n", encoding="utf-8")
    (folder / "run.exit").write_text("1\n", encoding="utf-8")
    file = folder / "cockpit.toml"
    file.write_text(
        f'[[run]]\nname = "{RUN}"\ndri = "ada"\noutput_root = "."\nresubmit = "true"\n'
        '[run.job]\nkind = "local"\nlog = "run.log"\nexit_file = "run.exit"\n'
        'pid_file = "run.pid"\nworkdir = "."\n',
        encoding="utf-8",
    )
    return file


def _cockpit(*words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "cockpit", *words], capture_output=True, check=False, timeout=60
    )


def _book(size: int) -> bytes:
    head = b"# Run: Hero Run Logbook\n\n## Event Log\n"
    entry = b"\n### 2026-03-11 08:55 UTC - check\n\n- Status: running, step 46,012, loss 2.314\n"
    return head + entry * (size // len(entry))


def _median(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    sys.exit(main())
