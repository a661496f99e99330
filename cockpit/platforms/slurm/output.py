"""Where a job's output and errors go: the patterns of ``sbatch --output`` that Slurm left in."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from cockpit.platforms.slurm.record import Record

NO_TASK: Final = "4294967294"
"""What Slurm prints for the index of a task that an array does not have yet."""
_PATTERN: Final = re.compile(r"%(%|(\d*)([AajJNnstuxb]))")


def output_of(record: Record, user: str = "") -> str | None:
    """Return the file that a job writes to, ``None`` where that is not known (yet)."""
    return _filled_in(record.output, record, user)


def error_output_of(record: Record, user: str = "") -> str | None:
    """Return the file of its standard error, ``None`` where that is not one of its own."""
    found = _filled_in(record.error_output, record, user)
    return None if found in (output_of(record, user), "/dev/null") else found


def _filled_in(path: str, record: Record, user: str) -> str | None:
    if not path or (NO_TASK in path and record.waits_for_tasks):
        return None
    if "\\" in path:  # sbatch: a backslash switches all patterns off
        return _absolute(path.replace("\\", ""), record.workdir)
    values = _values(record, user)
    unknown = [found[3] for found in _PATTERN.finditer(path) if found[3] and not values[found[3]]]
    if unknown:
        return None
    return _absolute(_PATTERN.sub(lambda found: _filled(found, values), path), record.workdir)


def _filled(found: re.Match[str], values: dict[str, str]) -> str:
    if found[1] == "%":
        return "%"
    width = min(int(found[2] or 0), 10)
    value = values[found[3]]
    return value.zfill(width) if value.isdecimal() else value


def _values(record: Record, user: str) -> dict[str, str]:
    array = record.kind == "array"
    task = record.tasks if record.tasks.isdecimal() else ""
    return {
        "A": record.base if array else record.raw,
        "a": task if array else NO_TASK,
        "b": str(int(task) % 10) if task else "",
        "j": record.raw,
        "J": record.raw,
        "N": record.node.partition(".")[0],
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": user,
        "x": record.name,
    }


def _absolute(path: str, workdir: str) -> str | None:
    if path.startswith("/"):
        return path
    return posixpath.join(workdir, path) if workdir.startswith("/") else None
