"""What starting costs: time and memory of each door, against the bare interpreter and Textual.

The ratios are the result; the milliseconds only belong to the machine they were taken on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBE = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
DOORS = {
    "bare interpreter": "pass",
    "textual (baseline)": "import textual.app, textual.widgets",
    "cockpit.cli": "import cockpit.cli",
    "cockpit.watch.engine": "import cockpit.watch.engine",
    "cockpit.app.application": "import cockpit.app.application",
}


def once(statement: str) -> tuple[float, float]:
    """Return (seconds, MiB) of a fresh interpreter that runs ``statement``."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{PROBE}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return time.perf_counter() - started, int(done.stdout) / 1024


def measure(runs: int) -> list[dict[str, object]]:
    """Return one row per door, medians of ``runs``."""
    rows = []
    for name, statement in DOORS.items():
        once(statement)
        seconds, memory = zip(*(once(statement) for _ in range(runs)), strict=True)
        rows.append(
            {
                "door": name,
                "ms": statistics.median(seconds) * 1000,
                "mib": statistics.median(memory),
            }
        )
    base = next(row for row in rows if row["door"] == "textual (baseline)")
    for row in rows:
        row["time_ratio"] = float(str(row["ms"])) / float(str(base["ms"]))
        row["memory_ratio"] = float(str(row["mib"])) / float(str(base["mib"]))
    return rows


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args.runs)
    if args.json:
        print(json.dumps(rows))
        return
    print(f"{'door':<24}{'ms':>8}{'MiB':>8}{'time':>9}{'memory':>9}   (ratio to textual)")
    for row in rows:
        print(
            f"{row['door']!s:<24}{row['ms']:>8.0f}{row['mib']:>8.1f}"
            f"{row['time_ratio']:>8.2f}x{row['memory_ratio']:>8.2f}x"
        )


if __name__ == "__main__":
    main()
