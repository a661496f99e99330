"""One run's roots listed anew for an action, wherever they lie: what is there, and what would be.

A plan asks what the trainer would load if some were gone, a step whether a save is complete by
now. What was seen at one look is remembered for the next: asking again costs little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.observed import CheckpointsValue
from cockpit.model.place import Place
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.runtime.offload import offload
from cockpit.sources.checkpoints.judge import Circumstances, judge_listing
from cockpit.sources.checkpoints.listing import Folder, Root
from cockpit.sources.checkpoints.look import (
    LIMIT,
    Listing,
    as_far_as_judged,
    joined,
    listing_of,
    marked,
    scanned,
    scanner_of,
    temporaries,
)
from cockpit.sources.checkpoints.rejected import Books
from cockpit.sources.checkpoints.surveys import SECONDS, Surveys, folder_names, wants_of
from cockpit.sources.checkpoints.tree import ListingError
from cockpit.text.announced import ckpt_path_of
from cockpit.text.safe import clean

DEADLINE: Final = 15.0
"""Seconds for the roots on this machine."""
Unmarked = Mapping[str, tuple[str, str]]
"""By path: the marker that would be moved aside, and what it would be called then."""


class Anew:
    """Lists the roots of one run; every look is of this moment."""

    def __init__(self, run: RunSpec, clock: Clock) -> None:
        self._run = run
        self._spec = run.checkpoints or CheckpointSpec()
        self._clock = clock
        self._surveys = Surveys(clock)

    async def look(
        self,
        rejected: tuple[Rejected, ...] = (),
        *,
        alive: bool | None = False,
        gone: Collection[str] = (),
        unmarked: Unmarked | None = None,
    ) -> CheckpointsValue:
        """Return what lies there, as if ``gone`` were not, and the markers of ``unmarked`` aside.

        Raises ``OSError`` or ``ListingError`` for a root that cannot be listed, ``TimeoutError``
        for this machine's disk, ``ValueError`` for a layout or a file there that is not understood.
        """
        listings = await self._listings()

        def judge() -> CheckpointsValue:
            found, errors, unjudged = joined(self._spec.path, listings, self._spec.path)
            for error in errors.values():
                raise error
            roots = [_changed(root, frozenset(gone), unmarked or {}) for root in found]
            books = Books().rejected(self._run.records.logbook)
            bad = (*books, *rejected, *marked(listings.values()))
            run, now = self._run, self._clock.now()
            asked = ckpt_path_of(run.resubmit)
            around = Circumstances(now, alive, {}, run.final_step, bad, asked=asked)
            return as_far_as_judged(judge_listing(roots, around, self._spec), unjudged, roots)

        return await offload(judge, deadline=DEADLINE, key=object())

    async def _listings(self) -> dict[Place, Listing]:
        names, temporary = folder_names(self._run), temporaries(self._spec.path)
        scanner = scanner_of(self._spec, names)
        listings: dict[Place, Listing] = {}
        for place in (each for each in self._spec.path if each.here):
            listings[place] = await offload(
                scanned, scanner, place, temporary[place], deadline=DEADLINE, key=object()
            )
        away = (place.endpoint for place in self._spec.path if not place.here)
        for endpoint in dict.fromkeys(away):
            wants = wants_of(self._spec, endpoint, names)
            answers = await self._surveys.look(endpoint, wants, SECONDS)
            listings |= {w.place: listing_of(answers[w], temporary[w.place]) for w in wants}
        return listings


def nothing_there(error: Exception) -> bool:
    """Tell whether a root cannot be listed because it does not exist (yet)."""
    if isinstance(error, ListingError):
        return error.kind is ErrorKind.NOT_FOUND and not error.whole
    return isinstance(error, FileNotFoundError)


def _changed(root: Root, gone: Collection[str], unmarked: Unmarked) -> Root:
    def address(name: str) -> str:
        return clean(f"{root.path.rstrip('/')}/{name}" if name else root.path, LIMIT)

    folders = tuple(
        _unmarked(folder, unmarked.get(address(folder.name)))
        for folder in root.folders
        if address(folder.name) not in gone
    )
    return replace(
        root,
        folders=folders,
        files=tuple(file for file in root.files if address(file.path) not in gone),
    )


def _unmarked(folder: Folder, names: tuple[str, str] | None) -> Folder:
    """Return a folder as it would be with its marker under another name."""
    if names is None:
        return folder
    was, now = names
    files = (
        replace(file, path=now, mtime=folder.touched_at or file.mtime, content=None)
        if file.path == was
        else file
        for file in folder.files
    )
    return replace(folder, files=tuple(files))
