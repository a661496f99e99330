"""Paths of the run file that silently mean this machine although the job runs on another."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.model.run import CockpitFile
from cockpit.text.safe import clean

FIELDS: Final = (
    ("output_root",),
    ("checkpoints", "path"),
    ("checkpoints", "initialize_from"),
    ("code", "repo"),
    ("config_file",),
)
"""Paths of a run that are on this machine unless they name another (INTERFACE "Paths")."""


class UnaddressedPaths(NamedTuple):
    """The fields of one run that name a path of this machine beside a job of another."""

    run: str
    host: str
    fields: tuple[str, ...]


def unaddressed_paths(file: CockpitFile) -> tuple[UnaddressedPaths, ...]:
    """Return the runs of a loaded file with such paths, as its text spells them.

    The text is read again: a loaded path no longer says whether ``file://`` was written.
    """
    try:
        with Path(file.path).open("rb") as opened:
            tables = tomllib.load(opened).get("run", [])
    except (OSError, ValueError, RecursionError):  # changed since it was loaded
        return ()
    written = {table.get("name"): table for table in tables if isinstance(table, dict)}
    return tuple(
        UnaddressedPaths(run.name, clean(run.job.host, 200), fields)
        for run in file.runs
        if run.job is not None and run.job.host is not None
        if (fields := tuple(_unaddressed(written.get(run.name, {}))))
    )


def _unaddressed(table: Mapping[str, Any]) -> Iterator[str]:
    for field in FIELDS:
        value: object = table
        for key in field:
            value = value.get(key) if isinstance(value, dict) else None
        paths = value if isinstance(value, list) else [value]
        if any(isinstance(path, str) and "://" not in path for path in paths):
            yield ".".join(field)
