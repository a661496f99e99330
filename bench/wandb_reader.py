"""The ``.wandb`` reader on a file of 1 MB and on one of 1 GB: the ratio must stay near 1.

``python -m bench.wandb_reader [--json] [--rows N] [--dir D]``; the files are synthetic (three
records a step and ten metrics, as wandb 0.31 writes them) and are removed afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.sources.wandb.writer import MAGIC, exited, field, frame, items, run, varint

if TYPE_CHECKING:
    from cockpit.sources.run_rows import RunRows

SMALL, LARGE = 930, 1_000_000
LIMITS = {"latest_ms": 5.0, "sample_ms": 50.0, "rss_mib": 30.0, "chunk_ms": 50.0}
_STARTED = 1_700_000_000.0
_BATCH = 2000
_OTHERS = (
    "optim/learning_rate",
    "params/norm/total",
    "throughput/mfu",
    "throughput/duration",
    "throughput/loading_time",
    "throughput/examples_per_second",
    "train/router/load_balancing_loss",
    "run_progress",
)


def write(path: Path, rows: int) -> None:
    """Write a run of ``rows`` steps with one spike, one NaN and an exit record."""
    at = len(MAGIC)
    with path.open("wb") as out:
        out.write(MAGIC)
        batch = [run("bench001", _STARTED, project="bench", entity="acme", name="bench")]
        for step in range(rows):
            batch += _step(step, rows)
            if len(batch) > _BATCH:
                at += out.write(frame(batch, at))
                batch.clear()
        out.write(frame([*batch, exited(0)], at))


def _step(step: int, rows: int) -> list[bytes]:
    loss = 2.0 + 3.0 / (1.0 + step / 500.0)
    values = {
        "train/loss": "NaN" if step == rows // 3 else 99.0 if step == rows // 2 else loss,
        "global_step": step,
        "throughput/tokens_per_second": 1.2e6 + step % 977,
        "grad/norm/total": 0.4 + step % 89 / 1000.0,
        "_step": step,
        "_runtime": step * 0.5,
        "_timestamp": _STARTED + step * 0.5,
        **{name: step % 13 / 7.0 for name in _OTHERS},
    }
    metrics = b"".join(_metric(name, str(value).encode()) for name, value in values.items())
    number = b"\x08" + varint(3 * step)
    size = varint(len(metrics))
    return [
        number + b"\x12" + size + metrics,
        number + b"\x1a" + size + metrics,
        number + _RUNTIME,
    ]


_RUNTIME = field(3, items({"_wandb": '{"runtime": 1}'}))
_KEYS: dict[str, bytes] = {}


def _metric(name: str, text: bytes) -> bytes:
    """One metric; keys and values here are short, so that lengths are single bytes."""
    key = _KEYS.get(name)
    if key is None:
        key = _KEYS[name] = field(2, name.encode()) + b"\x82\x01"
    return b"\x0a%c%b%c%b" % (len(key) + 1 + len(text), key, len(text), text)


class _Now:
    """The clock of a moment after the run."""

    def now(self) -> float:
        return _STARTED + 1e6

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _rss_mib() -> float:
    """Return the most memory that this process has held (Linux), in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _timed(work: Callable[[], object], times: int) -> float:
    """Return the median time of a call, in milliseconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return median(taken)


def measure(path: Path) -> dict[str, float]:
    """Measure one file in this (fresh) process."""
    bare = _rss_mib()
    from cockpit.model.run import MetricNames, WandbSpec
    from cockpit.sources.metric_keys import choose
    from cockpit.sources.wandb.file import LaunchFile
    from cockpit.sources.wandb.fragment import Fragment
    from cockpit.sources.wandb.listing import LaunchFiles, Wanted
    from cockpit.sources.wandb.run_files import read_run

    imported = _rss_mib()

    def opened() -> Fragment:
        looking, wanted = LaunchFiles(), Wanted(str(path), None, "")
        looking.chosen(wanted)
        file = LaunchFile(str(path), looking.host(wanted), looking.measured)
        fragment = Fragment(file, MetricNames())
        fragment.refresh()
        return fragment

    keys = choose(opened().layout.rows, MetricNames())
    figures = {
        "latest_ms": _timed(lambda: opened().latest(keys), 9),
        "sample_ms": _timed(lambda: opened().sample(keys, 120), 9),
        "imported_mib": imported - bare,
        "read_mib": _rss_mib() - imported,
        "rss_mib": _rss_mib() - bare,
    }
    files = read_run(WandbSpec(dir=str(path)))
    figures["value_ms"] = _timed(lambda: files.value(_Now()), 1)
    figures |= _whole(files)
    figures["value_again_ms"] = _timed(lambda: files.value(_Now()), 9)
    figures["nothing_new_ms"] = _timed(files.more, 9)
    figures["rss_all_mib"] = _rss_mib() - bare
    return figures


def _whole(files: RunRows) -> dict[str, float]:
    """Read every row once, as the background pass does."""
    chunks, rows = [], 0
    caught_up = False
    while not caught_up:
        start = time.perf_counter()
        more = files.more()
        chunks.append((time.perf_counter() - start) * 1000)
        rows += len(more.rows)
        caught_up = more.caught_up
    value = files.value(_Now())
    return {
        "rows": rows,
        "rows_per_s": rows / sum(chunks) * 1000,
        "chunk_ms": median(chunks),
        "chunk_max_ms": max(chunks),
        "spike_found": float(max(column.high or 0.0 for column in value.columns) == 99.0),
        "nan_found": float(sum(column.nonfinite for column in value.columns) == 1),
    }


def _in_fresh_process(path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.wandb_reader", "--measure", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def compare(folder: Path, rows: int) -> dict[str, dict[str, float]]:
    """Write both files, measure each in a process of its own, and remove them."""
    results = {}
    for name, count in (("small", SMALL), ("large", rows)):
        path = folder / f"run-{name}.wandb"
        start = time.perf_counter()
        write(path, count)
        written = time.perf_counter() - start
        results[name] = {"mb": path.stat().st_size / 1e6, "write_s": written}
        results[name] |= _in_fresh_process(path)
        path.unlink()
    return results


def show(results: dict[str, dict[str, float]]) -> bool:
    """Print the table; True when every limit is kept on the large file."""
    small, large = results["small"], results["large"]
    print(f"{'':16}{'small':>14}{'large':>14}{'ratio':>9}{'limit':>9}")
    for name, value in large.items():
        ratio = f"{value / small[name]:.2f}" if small[name] else "-"
        limit = f"{LIMITS[name]:g}" if name in LIMITS else ""
        print(f"{name:16}{small[name]:>14,.3f}{value:>14,.3f}{ratio:>9}{limit:>9}")
    found = large["spike_found"] == large["nan_found"] == 1.0
    return found and all(large[name] < limit for name, limit in LIMITS.items())


def main() -> int:
    """Run the comparison, or (``--measure``) one measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, default=LARGE, help="steps of the large file")
    parser.add_argument("--dir", type=Path, help="where to put the files")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure)))
        return 0
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="wandb-bench-") as folder:
        results = compare(Path(folder), options.rows)
    if options.json:
        print(json.dumps(results, indent=2))
        return 0
    return 0 if show(results) else 1


if __name__ == "__main__":
    sys.exit(main())
