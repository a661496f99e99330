"""What ``doctor`` says of a run file that loads: shared places, wrong machines, unread settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from cockpit.model.lineage import shared_place
from cockpit.model.place import Place, place_of
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.text.safe import clean

UNREAD: Final[Mapping[str, tuple[str, ...]]] = {}
"""The keys that nothing reads, by the table in which they are written."""
FORMER_ACTIONS: Final = frozenset({"ack_take", "ack_why", "ack_longer", "ack_shorter"})
"""Actions of earlier versions that ``[keys]`` may still name: the UI opens, and says so."""

_SHOWN: Final = 3


class UnreadSetting(NamedTuple):
    """A setting of the run file that has no effect; ``run`` is ``None`` for one of the file."""

    run: str | None
    key: str

    @property
    def text(self) -> str:
        """The sentence for a person."""
        return f"{self.key} is set, but this version does not use it"


def unread_settings(file: CockpitFile) -> tuple[UnreadSetting, ...]:
    """Return every setting of the file that is set and not read, in the file's order."""
    return tuple(_unread_in(file))


def unread_notice(file: CockpitFile) -> str | None:
    """Return one line that names the settings without effect, ``None`` if there are none."""
    found = unread_settings(file)
    if not found:
        return None
    names = [each.key if each.run is None else f"{each.run}: {each.key}" for each in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = f"{', '.join(names[:_SHOWN])}{more}"
    return f"set, but not used by this version: {shown}; see `cockpit doctor`"


def _unread_in(file: CockpitFile) -> Iterator[UnreadSetting]:
    for action in file.keys:
        if action in FORMER_ACTIONS:
            yield UnreadSetting(None, f"keys.{action}")
    for run in file.runs:
        for table in UNREAD:
            if table.startswith("run."):
                names = _set_keys(_part(run, table), table)
                yield from (UnreadSetting(run.name, f"{table}.{name}") for name in names)


def _part(run: RunSpec, table: str) -> BaseModel | None:
    """Return the part of a run that ``table`` names: ``run.job`` is its job."""
    part: object = run
    for name in table.split(".")[1:]:
        part = getattr(part, name, None)
    return part if isinstance(part, BaseModel) else None


def _set_keys(part: BaseModel | None, table: str) -> list[str]:
    """Return the unread keys that the file itself sets in one table."""
    if part is None:
        return []
    written = part.model_fields_set
    return [key for key in UNREAD[table] if key in written and getattr(part, key) is not None]


class SharedPlace(NamedTuple):
    """Two runs and what both would write to."""

    one: str
    other: str
    what: str

    @property
    def text(self) -> str:
        """The sentence for a person."""
        return f"runs {self.one} and {self.other} share the same {self.what}"


def shared_places(file: CockpitFile) -> tuple[SharedPlace, ...]:
    """Return every pair of runs with a place in common, in the file's order."""
    pairs = combinations(file.runs, 2)
    found = ((one.name, other.name, _shared(one, other)) for one, other in pairs)
    return tuple(SharedPlace(one, other, what) for one, other, what in found if what is not None)


def _shared(one: RunSpec, other: RunSpec) -> str | None:
    place = shared_place(one, other)
    if place is not None:
        return place[0]
    for what, mine, theirs in _files(one, other):
        if mine is not None and mine == theirs:
            return f"{what} ({mine})"
    return None


def _files(one: RunSpec, other: RunSpec) -> list[tuple[str, Place | None, Place | None]]:
    """Return the places that one job alone should write to, of both runs side by side."""
    first, second = one.job, other.job
    names = ("pid_file", "exit_file", "done_marker")
    files = [
        (f"job.{name}", getattr(first, name), getattr(second, name))
        for name in names
        if first is not None and second is not None
    ]
    roots = [
        ("checkpoints.path", mine, theirs)
        for mine in (one.checkpoints.path if one.checkpoints is not None else ())
        for theirs in (other.checkpoints.path if other.checkpoints is not None else ())
    ]
    books = [("records.logbook", _book(one), _book(other))]
    return [*roots, *files, *books]


def _book(run: RunSpec) -> Place | None:
    """Return a run's logbook: its facts (owner, acknowledgements) concern one run only."""
    logbook = run.records.logbook
    return None if logbook is None else place_of(logbook).normal()


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
