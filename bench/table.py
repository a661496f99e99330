"""The table: every figure that was promised, its baseline of the same run, its bar, and whether.

Each subject is a benchmark of its own, run once in a process of its own. What could not be
measured is said to be so, with its reason; a figure that misses its bar stands there as missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

WITHIN: Final = 3600.0
"""Seconds after which a subject is given up: ``over_ssh`` takes half an hour."""
Figures = Mapping[str, float]


class Row(NamedTuple):
    """One promise: a figure of a subject, as it is or against a baseline, at most ``bar``."""

    what: str
    subject: str
    figure: str
    bar: float
    unit: str = ""
    baseline: str | None = None

    def measured(self, found: Figures) -> tuple[float, float, float | None]:
        """Return what is held against the bar, the figure and its baseline."""
        figure = found[self.figure]
        if self.baseline is None:
            return figure, figure, None
        return figure / found[self.baseline], figure, found[self.baseline]


SUBJECTS: Final[Mapping[str, Sequence[str]]] = {
    "starting": (),
    "idle": (),
    "bytes_written": (),
    "keys": (),
    "log_file": (),
    "wandb_reader": (),
    "many_runs": ("--idle", "60"),
    "places": (),
    "soak": ("--minutes", "15"),
    "logbook": (),
    "over_ssh": (),
}
"""The benchmarks that give figures, and how they are called."""


def over_ssh(way: str) -> tuple[Row, ...]:
    """Return the rows of a line of 80 ms and 1 Mbit/s: as bytes of ours beside a peer's.

    A peer that has no such act is not asked for it; one that is not installed leaves no figure.
    """
    ours, htop, less = (f"{way}.{name}" for name in ("cockpit", "htop", "less"))
    leet = f"{way}.wandb"
    many = (
        ("start, nothing kept", f"{ours}.start", 12_000, "B", None),
        ("start, again", f"{ours}.again", 12_000, "B", None),
        ("cursor step / htop's", f"{ours}.step", 1, "B", f"{htop}.step"),
        ("idle, 12 runs / htop", f"{ours}.idle_s", 1, "B/s", f"{htop}.idle_s"),
        ("idle, 7 runs / htop", f"{ours}_7.idle_s", 1, "B/s", f"{htop}.idle_s"),
        ("a run opened / LEET's", f"{ours}.open", 1, "B", f"{leet}.open"),
        ("a page of log / less'", f"{ours}.page", 1, "B", f"{less}.page"),
        ("key after a held one", f"{ours}.held_late_ms", 300, "ms", None),
        ("key, 128 kbit/s / htop", f"{ours}.thin_key_ms", 1, "ms", f"{htop}.thin_key_ms"),
    )
    return tuple(
        Row(f"ssh, {way}: {what}", "over_ssh", figure, bar, unit, baseline)
        for what, figure, bar, unit, baseline in many
    )


ROWS: Final = (
    Row("first useful paint, 12 runs", "starting", "kept_paint_ms", 0.6, "ms", "bare_paint_ms"),
    Row("first live paint", "starting", "live_paint_ms", 1.5, "ms", "bare_paint_ms"),
    Row("idle: bytes that change nothing", "idle", "vain_bytes", 0, "B"),
    Row("idle: bytes a second", "idle", "bytes_s", 100, "B/s"),
    Row("idle: processor", "idle", "cpu_percent", 0.5, "%"),
    Row("idle: wake-ups a second", "idle", "wakeups_s", 12, "/s"),
    Row("idle: faults of programs started", "idle", "ended_faults", 0),
    Row("one changed digit, 80x24", "bytes_written", "digit", 60, "B"),
    Row("one new step, 120x40", "bytes_written", "step", 500, "B"),
    Row("12 runs, a step a second, 120x40", "bytes_written", "fleet_s", 3000, "B/s"),
    Row("cursor step, 200x50", "bytes_written", "cursor_step", 400, "B"),
    Row("log scrolled by a line, 200x50", "bytes_written", "log_line", 600, "B"),
    Row("key, 200 live runs: p50", "keys", "p50_ms", 20, "ms"),
    Row("the same beside a bare table", "keys", "p50_ms", 1.5, "ms", "bare_p50_ms"),
    Row("key, 200 live runs: p99", "keys", "p99_ms", 3, "ms", "bare_p99_ms"),
    Row("key, 1,000 runs read in: p50", "keys", "many_p50_ms", 1.5, "ms", "many_bare_p50_ms"),
    Row("key, 1,000 runs read in: p99", "keys", "many_p99_ms", 3, "ms", "many_bare_p99_ms"),
    Row("held key, 80 ms and 1 Mbit/s", "keys", "held_ms", 300, "ms"),
    Row("1 GB log beside 1 MB, worst", "log_file", "ratio", 3),
    Row("1 GB .wandb: first look", "wandb_reader", "large.latest_ms", 3, "ms", "small.latest_ms"),
    Row("1,000 runs: a cadence of 60 s", "many_runs", "1000.cadence_cpu_s", 5, "s"),
    Row("1,000 runs: engine's memory", "many_runs", "1000.rss_mb", 250, "MiB"),
    Row("1,000 runs: in sight before all", "many_runs", "1000.visible_s", 1, "s", "1000.read_s"),
    Row("1,000 runs in 5 places: a cadence", "places", "1000.cadence_cpu_s", 5, "s"),
    Row("the same: engine's memory", "places", "1000.rss_mb", 250, "MiB"),
    Row("the same: trips to a host", "places", "1000.trips", 1.5, "", "20.trips"),
    Row("one place hangs: others' last look", "places", "1000.hung_others_s", 60, "s"),
    Row("one place hangs: said of its runs", "places", "1000.hung_untold", 0),
    Row("soak: memory", "soak", "rss_drift_percent", 3, "%"),
    Row("soak: descriptors", "soak", "descriptors_drift_percent", 3, "%"),
    Row("soak: threads", "soak", "threads_drift_percent", 3, "%"),
    Row("check of one local run", "starting", "check_ms", 3, "ms", "imports_ms"),
    Row("--version (2 x pass + 60 ms)", "starting", "version_ms", 1, "ms", "version_limit_ms"),
    Row("an entry, 4 MB beside 40 kB: CPU", "logbook", "large_cpu_ms", 3, "ms", "small_cpu_ms"),
    Row("leaving, all sources hanging", "starting", "leave_ms", 500, "ms"),
    *over_ssh("plain"),
    *over_ssh("tmux"),
)
UNMEASURED: Final = {
    "three hours at 12 runs": "15 minutes at ten times the pace stand for them (soak)",
}


def flat(found: Mapping[str, Any], before: str = "") -> dict[str, float]:
    """Return nested figures by their path: ``1000.rss_mb``."""
    told: dict[str, float] = {}
    for key, value in found.items():
        if isinstance(value, Mapping):
            told |= flat(value, f"{before}{key}.")
        elif isinstance(value, int | float):
            told[f"{before}{key}"] = float(value)
    return told


def measure(subject: str) -> dict[str, float] | str:
    """Return a subject's figures, or in one line why there are none."""
    argv = [sys.executable, "-m", f"bench.{subject}", "--json", *SUBJECTS[subject]]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WITHIN, check=False)
        return flat(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return f"no answer within {WITHIN:.0f} s"
    except (ValueError, AttributeError):
        said = done.stderr.strip().splitlines()
        return said[-1][:100] if said else f"ended with {done.returncode} and no figures"


def line(row: Row, found: dict[str, float] | str) -> dict[str, object]:
    """Return a row with what was found: its verdict is met, missed or not measured."""
    told: dict[str, object] = {"what": row.what, "bar": row.bar, "unit": row.unit}
    if isinstance(found, str):
        return told | {"verdict": "not measured", "why": found}
    try:
        held, figure, baseline = row.measured(found)
    except (KeyError, ZeroDivisionError) as error:
        return told | {"verdict": "not measured", "why": f"no figure {error}"}
    verdict = "met" if held <= row.bar else "missed"
    return told | {"figure": figure, "baseline": baseline, "held": held, "verdict": verdict}


def printed(told: Mapping[str, Any]) -> str:
    """Return a row as a line of the table."""
    if "held" not in told:
        return f"{told['what']:<34}{'not measured: ' + str(told['why'])}"
    ratio = told["baseline"] is not None
    unit = told["unit"]
    base = f"{told['baseline']:,.1f} {unit}" if ratio else ""
    held = f"{told['held']:.2f} x" if ratio else ""
    bar = f"{told['bar']:g} x" if ratio else f"{told['bar']:g} {unit}"
    figure = f"{told['figure']:,.1f} {unit}"
    return f"{told['what']:<34}{figure:>14}{base:>14}{held:>10}{bar:>12}  {told['verdict']}"


def run(subjects: Sequence[str], into: Path | None) -> int:
    """Measure, print each subject's rows as they come, and write all of them as JSON."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n", flush=True)
    print(f"{'':<34}{'figure':>14}{'baseline':>14}{'ratio':>10}{'bar':>12}", flush=True)
    lines: list[dict[str, object]] = []
    for subject in subjects:
        found = measure(subject)
        for row in (each for each in ROWS if each.subject == subject):
            lines.append(line(row, found))
            print(printed(lines[-1]), flush=True)
    for what, why in UNMEASURED.items():
        lines.append({"what": what, "verdict": "not measured", "why": why})
        print(printed(lines[-1]))
    if into is not None:
        document = {"schema": 1, "load": os.getloadavg()[0], "rows": lines}
        into.write_text(json.dumps(document, indent=2) + "\n")
    missed = sum(each["verdict"] == "missed" for each in lines)
    print(f"\n{missed} missed")
    return 1 if missed else 0
