"""One run's checkpoints over all its roots, wherever they lie: what was listed, judged together.

Each root has a fate of its own. What is picked must be the best of all of them, so the listings of
one endpoint are judged beside what the others have told last.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.jobs import Query
from cockpit.model.observed import CheckpointState, CheckpointsValue
from cockpit.model.place import HERE, Place
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec
from cockpit.sources.checkpoints.assembly import Surveyed, Want, plain
from cockpit.sources.checkpoints.bucket import Survey
from cockpit.sources.checkpoints.contents import Books, ListingError, parse_marks
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.judge import (
    Circumstances,
    SeenFolder,
    chosen_layout,
    judge_listing,
    remember,
)
from cockpit.sources.checkpoints.listing import Listed, Root
from cockpit.text.announced import ckpt_path_of
from cockpit.text.safe import clean

LIMIT: Final = 4096
AT_ONCE: Final = 2.0
"""Seconds for which roots of this machine are listed at one look; the rest comes with the next."""


_Asked = tuple[Sequence[Root], Sequence[Rejected], int | None, str | None]
"""The roots, what is rejected there, the final step, and what the command says to load."""


@dataclass(frozen=True)
class Listing:
    """What one root of the run file has told: what lies there, or why that is not known.

    ``marks`` are its files of rejected checkpoints, by root.
    """

    roots: tuple[Root, ...] = ()
    error: ListingError | None = None
    unjudged: int = 0
    marks: Mapping[str, Listed] = field(default_factory=dict)

    @property
    def missing(self) -> bool:
        """True for a root that does not exist (yet)."""
        return self.error is not None and self.error.missing


def listing_of(answer: Surveyed | ListingError, temporary: bool | None = None) -> Listing:
    """Return what a root has told."""
    if isinstance(answer, ListingError):
        return Listing(error=answer)
    roots = tuple(replace(root, temporary=temporary) for root in answer.roots)
    return Listing(roots, None, answer.unjudged, answer.marks)


def listed_here(
    survey: Survey, wants: Collection[Want], seconds: float
) -> dict[Want, Surveyed | ListingError]:
    """Return what roots on this machine hold; blocking."""
    look = survey.look(wants, time.monotonic() + seconds)
    try:
        look.send(None)
    except StopIteration as done:
        found: dict[Want, Surveyed | ListingError] = done.value
        return found
    raise AssertionError("a tree of this machine is never waited for")


def survey_here() -> Survey:
    """Return what lists roots of this machine."""
    return Survey(HostTree(None))


def temporaries(places: Sequence[Place]) -> dict[Place, bool | None]:
    """Return what the run file says of its roots by their order: the first one is permanent."""
    several = len(places) > 1
    return {place: index > 0 if several else None for index, place in enumerate(places)}


def wants_of(spec: CheckpointSpec, endpoint: str, prefer: frozenset[str]) -> tuple[Want, ...]:
    """Return the roots of a run at one endpoint; raises ``ValueError`` for a bad layout."""
    pattern, markers = names_of(spec)
    there = (place for place in spec.path if place.endpoint == endpoint)
    return tuple(Want(place, pattern, markers, prefer) for place in there)


def names_of(spec: CheckpointSpec) -> tuple[re.Pattern[str] | None, tuple[str, ...]]:
    """Return what checkpoints and markers are called where that is not one of the known ways.

    Raises ``ValueError`` for a layout that does not exist.
    """
    layout = chosen_layout(spec)
    if layout is None or layout.name not in ("levanter", "custom"):
        return None, ()
    return layout.pattern, (layout.marker,) if layout.marker else ()


class Look:
    """One run's roots, what they have told last, and what they looked like before."""

    def __init__(self, spec: CheckpointSpec, clock: Clock, prefer: frozenset[str]) -> None:
        """Begin with nothing known; raises ``ValueError`` for a layout that does not exist."""
        self._spec = spec
        self._clock = clock
        self._wants = wants_of(spec, HERE, prefer)
        self._survey = survey_here()
        self._listings: dict[Place, Listing] = {}
        self._before: Mapping[str, SeenFolder] = {}
        self._books = Books()
        self._settled: tuple[_Asked, CheckpointsValue] | None = None
        self._lock = threading.Lock()

    def here(self, query: Query) -> tuple[CheckpointsValue, ListingError | None]:
        """List the roots on this machine and judge; blocking. Raises as ``judged`` does."""
        with self._lock:  # a look that was given up may still be at work
            answers = listed_here(self._survey, self._wants, AT_ONCE)
            found = self._taken(query, {want.place: said for want, said in answers.items()})
            paths = {item.path for item in found[0].items}
            self._survey.settle(complete_of(found[0]), paths)
            return found

    def away(
        self, query: Query, answers: Mapping[Place, Surveyed | ListingError]
    ) -> tuple[CheckpointsValue, ListingError | None]:
        """Take in what roots elsewhere have told, and judge. Raises as ``judged`` does."""
        with self._lock:
            return self._taken(query, answers)

    def _taken(
        self, query: Query, answers: Mapping[Place, Surveyed | ListingError]
    ) -> tuple[CheckpointsValue, ListingError | None]:
        temporary = temporaries(self._spec.path)
        for place, answer in answers.items():
            self._listings[place] = listing_of(answer, temporary[place])
        return self._judged(query, answers.keys())

    def _judged(
        self, query: Query, asked: Collection[Place]
    ) -> tuple[CheckpointsValue, ListingError | None]:
        """Judge, and return why one of the roots that were asked could not be listed.

        Raises what went wrong when none of these could be, ``ValueError`` when they hold more
        than one run's checkpoints.
        """
        run = query.run
        roots, errors, unjudged = joined(self._spec.path, self._listings, asked)
        bad = (*self._books.rejected(run.records.logbook), *query.rejected)
        bad += marked(self._listings.values())
        began = query.job.started_at if query.job is not None else None
        now, loads = self._clock.now(), ckpt_path_of(run.resubmit)
        around = Circumstances(
            now, query.alive, self._before, run.final_step, bad, began, asked=loads
        )
        value = as_far_as_judged(self._valued(roots, around), unjudged, roots)
        if not errors:
            return value, None
        return unpicked(value, [str(place) for place in errors]), next(iter(errors.values()))

    def _valued(self, roots: Sequence[Root], around: Circumstances) -> CheckpointsValue:
        """Judge the roots, unless they are as they were when all in them was complete.

        Neither the time nor the job changes that: most roots are so at most looks. Raises
        ``ValueError`` when they hold more than one run's checkpoints.
        """
        asked = (roots, around.rejected, around.final_step, around.asked)
        if self._settled is not None and self._settled[0] == asked:
            return self._settled[1]
        self._settled = None
        value = judge_listing(roots, around, self._spec)
        one_run_only(value, self._spec.path)
        seen = remember(value, roots, self._before)
        listings = [self._listings.get(place) for place in self._spec.path]
        partly = any(each is None or (each.error and not each.missing) for each in listings)
        self._before = {**self._before, **seen} if partly else seen
        if not partly and all(item.state is CheckpointState.COMPLETE for item in value.items):
            self._settled = asked, value
        return value


def joined(
    places: Sequence[Place], listings: Mapping[Place, Listing], asked: Collection[Place]
) -> tuple[list[Root], dict[Place, ListingError], int]:
    """Return the roots, why some of those asked could not be listed, and the turnless folders.

    One of several roots that does not exist (yet) holds nothing. Raises what went wrong when
    none of those that were asked can be listed, or no root exists at all.
    """
    there = {place: listings[place] for place in places if place in listings}
    roots = _each_once(there)
    own = {place: listing for place, listing in there.items() if place in asked}
    failed = {place: each.error for place, each in own.items() if each.error is not None}
    errors = {place: error for place, error in failed.items() if not own[place].missing}
    answered = any(each.error is None for each in own.values())
    nothing = len(there) == len(set(places)) and all(each.missing for each in there.values())
    if failed and not answered and (errors or nothing):
        raise next(iter((*errors.values(), *failed.values())))
    return roots, errors, sum(each.unjudged for each in there.values())


def _each_once(listings: Mapping[Place, Listing]) -> list[Root]:
    """Return the roots, each folder once: one root may lie in another one, or be a link to it.

    Whoever names the folder itself comes first, then the first of the run file.
    """
    every = [(place, root) for place, listing in listings.items() for root in listing.roots]
    own = sorted(every, key=lambda each: _address(each[0]) != each[1].path)
    first = {root.real or root.path: place for place, root in reversed(own)}
    return [root for place, root in every if first[root.real or root.path] == place]


def _address(place: Place) -> str:
    return plain(place.path) if place.here else str(place).rstrip("/")


def marked(listings: Collection[Listing]) -> tuple[Rejected, ...]:
    """Return what lies in the roots about rejected checkpoints.

    Raises ``ValueError`` for what is there and cannot be understood.
    """
    marks = (each for listing in listings for each in listing.marks.items())
    return tuple(mark for root, file in marks for mark in _parsed(root, file))


def _parsed(root: str, file: Listed) -> tuple[Rejected, ...]:
    if file.content is None:
        text = f"{root}: which checkpoints are rejected cannot be read: {file.error or 'not yet'}"
        raise ValueError(clean(text, LIMIT))
    return parse_marks(root, file.content)


def unpicked(value: CheckpointsValue, unlisted: Sequence[str]) -> CheckpointsValue:
    """Return a listing that lacks some roots: the one to resume from may lie in one of them."""
    named = tuple(dict.fromkeys(clean(root, LIMIT) for root in unlisted))
    nothing = {"latest_complete": None, "relaunch_from": None, "trainer_would_load": None}
    return value.model_copy(update={**nothing, "unlisted": named})


def as_far_as_judged(
    value: CheckpointsValue, unjudged: int, roots: Sequence[Root]
) -> CheckpointsValue:
    """Return a listing of which some folders have had no turn yet: the newest have.

    A trainer may go by other things than the step. Where nothing is complete among the newest, or
    the names in a folder are not known yet, the one to resume from may lie among the others.
    """
    if not unjudged:
        return value
    known = {"unjudged": unjudged, "trainer_would_load": None, "notes": ()}
    value = value.model_copy(update=known)
    if value.latest_complete is not None and not any(root.unnamed for root in roots):
        return value
    return unpicked(value, [root.path for root in roots])


def complete_of(value: CheckpointsValue) -> set[str]:
    """Return where the complete ones lie."""
    return {item.path for item in value.items if item.state is CheckpointState.COMPLETE}


_PAIR: Final = re.compile(r"[-_.]?(?:temporary|permanent|temp|tmp|perm)[-_.]?")


def one_run_only(value: CheckpointsValue, places: Sequence[Place]) -> None:
    """Refuse to mix lineages (C-17): a path above the folders of several runs names none."""
    own = set(map(_address, places))
    every = sorted({item.root for item in value.items} - own)
    below = [root for root in every if not any(root.startswith(f"{each}/") for each in every)]
    runs = {_PAIR.sub("", root) for root in below}
    if len(runs) > 1:
        # The folder above the first and the last of sorted paths is above all of them.
        parts = zip(below[0].split("/"), below[-1].split("/"), strict=False)
        where = "/".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
        names = ", ".join(root.removeprefix(f"{where}/") for root in below[:4])
        text = f"saves lie in several folders of {where} ({names}): name this run's own in path"
        raise ValueError(text)


def problem_of(failure: ListingError) -> Problem:
    """Return in one line why a root could not be listed."""
    return Problem(kind=failure.kind, message=clean(failure, LIMIT))
