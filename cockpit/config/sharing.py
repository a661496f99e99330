"""Runs of one run file that are told to write to the same place: told in ``doctor`` (C-25).

Such a file loads: while only one of the two runs lives nothing is wrong yet.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from cockpit.model.lineage import shared_place
from cockpit.model.place import Place, place_of
from cockpit.model.run import CockpitFile, RunSpec


class SharedPlace(NamedTuple):
    """Two runs and what both would write to."""

    one: str
    other: str
    what: str

    @property
    def text(self) -> str:
        """What a person is told of it."""
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
    """Return a run's logbook: what is told in it (owner, acknowledgements) is of one run alone."""
    logbook = run.records.logbook
    return None if logbook is None else place_of(logbook).normal()
