"""Where a run's log, its group's timeline and the experiments' summary are (SPEC S-12, HPC)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from cockpit.records.committing import Edit
from cockpit.records.experiments import with_row
from cockpit.records.run_logs import run_log_name
from cockpit.records.timeline import with_run

TIMELINE: Final = "timeline.md"
EXPERIMENTS: Final = "experiments.md"
FOLDER: Final = "run_logs"
_DATED: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)_.")


def run_log_of(named: str, run: str, at: float) -> Path:
    """Return the run log: the file that is named, in a folder the run's newest, else a new name.

    Raises ``OSError`` for a folder that cannot be read.
    """
    path = Path(named)
    if not path.is_dir():
        return path
    new = run_log_name(_day(at), run)
    task = new.partition("_")[2]
    own = sorted(each.name for each in path.iterdir() if _is_of(each.name, task))
    return path / (own[-1] if own else new)


def timeline_of(path: Path, at: float) -> tuple[Path, Edit]:
    """Return the list of a run log's group, and what puts it there in the order of its day."""
    day = _named_day(path.name) or _day(at)
    title = path.parent.name.replace("_", " ").title()
    return path.with_name(TIMELINE), lambda data: with_run(data, path.name, day, title)


def experiments_of(path: Path, run: str, description: str) -> tuple[Path, Edit]:
    """Return the summary of experiments, and what gives a run its row if it has none."""
    folder = next((each for each in path.parents if each.name == FOLDER), path.parent)
    row = {"run": run, "description": description, "status": "running"}

    def edit(data: bytes) -> bytes:
        has_row = data.strip() and with_row(data, {"run": run}) == data
        return data if has_row else with_row(data, row)

    return folder / EXPERIMENTS, edit


def _is_of(name: str, task: str) -> bool:
    return _DATED.match(name) is not None and name.partition("_")[2] == task


def _named_day(name: str) -> date | None:
    found = _DATED.match(name)
    try:
        return None if found is None else date(*map(int, found.groups()))
    except ValueError:
        return None


def _day(at: float) -> date:
    return datetime.fromtimestamp(at, tz=UTC).date()
