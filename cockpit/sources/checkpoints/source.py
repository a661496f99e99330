"""Checkpoints of many runs (SPEC S-8, K): on this machine, in buckets and on hosts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import (
    ErrorKind,
    Facet,
    Problem,
    known,
    not_configured,
    unknown,
)
from cockpit.model.jobs import Query
from cockpit.model.observed import CheckpointsValue
from cockpit.model.place import HERE, SSH, Place, place_of
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.runtime.buckets import BUCKETS as BUCKETS
from cockpit.runtime.buckets import Bucket
from cockpit.runtime.http import Http
from cockpit.runtime.offload import Call, Outcome, offload, offload_each
from cockpit.sources.checkpoints.assembly import Surveyed, Want
from cockpit.sources.checkpoints.bucket import BucketTree, Survey
from cockpit.sources.checkpoints.contents import Books, ListingError, Tree
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.judge import Circumstances, judge_listing
from cockpit.sources.checkpoints.listing import Folder, Root
from cockpit.sources.checkpoints.look import (
    LIMIT,
    Listing,
    Look,
    as_far_as_judged,
    complete_of,
    joined,
    listed_here,
    listing_of,
    marked,
    problem_of,
    survey_here,
    temporaries,
    unpicked,
    wants_of,
)
from cockpit.text.announced import ckpt_path_of
from cockpit.text.safe import clean

SECONDS: Final = 22.0
"""Seconds that a look at one endpoint takes at most: less than its poller waits for it."""
AT_FIRST: Final = 4.5
"""Seconds for the first look, of which everything is new: what it has no time for comes with the
next one. A check has no more for each of its questions."""
CLOCK_WITHIN: Final = 2.5


class Surveys:
    """The surveys of all endpoints, each with one look at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._http = Http(clock, deadline=CLOCK_WITHIN)
        self._surveys: dict[str, Survey] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def look(
        self, endpoint: str, wants: Collection[Want], seconds: float | None = None
    ) -> dict[Want, Surveyed | ListingError]:
        """List what is wanted at one endpoint; never raises."""
        if not wants:
            return {}
        usual = SECONDS if endpoint in self._surveys else AT_FIRST
        until = time.monotonic() + (seconds or usual)
        every = dict.fromkeys(wants)
        place = next(iter(every)).place
        survey = self._survey(endpoint, place)
        if survey is None:
            scheme = clean(place.scheme, 20)
            text = f"{scheme}:// checkpoints cannot be read: expected a path, ssh, s3 or gs"
            return dict.fromkeys(every, ListingError(ErrorKind.UNSUPPORTED, text))
        turn = self._turns[endpoint]
        try:
            async with asyncio.timeout(seconds or usual):
                await turn.acquire()
        except TimeoutError:
            late = ListingError(
                ErrorKind.TIMEOUT, f"{endpoint}: no listing yet; the previous one is still running"
            )
            return dict.fromkeys(every, late)
        try:
            return await survey.look(every, until)
        finally:
            turn.release()

    def settle(self, endpoint: str, values: Sequence[CheckpointsValue]) -> None:
        """Keep which checkpoints have been found complete there."""
        survey = self._surveys.get(endpoint)
        if survey is not None and values:
            complete = set().union(*map(complete_of, values))
            survey.settle(complete, {item.path for value in values for item in value.items})

    def _survey(self, endpoint: str, place: Place) -> Survey | None:
        if endpoint not in self._surveys:
            tree = tree_at(place, self._clock, self._http)
            if tree is None:
                return None
            self._surveys[endpoint] = Survey(tree)
            self._turns[endpoint] = asyncio.Lock()
        return self._surveys[endpoint]


def tree_at(place: Place, clock: Clock, http: Http | None = None) -> Tree | None:
    """Return what lists and reads the endpoint of a place; ``None``: nothing does."""
    if place.scheme in BUCKETS:
        asked = http or Http(clock, deadline=CLOCK_WITHIN)
        return BucketTree(Bucket(place.scheme, place.host, clock, asked))
    return HostTree(place.host) if place.scheme == SSH else None


def folder_names(run: RunSpec) -> frozenset[str]:
    """Return what the run's own folder may be called where a root holds many runs."""
    return frozenset({run.name} | ({run.wandb.id} if run.wandb and run.wandb.id else set()))


DEADLINE: Final = 12.0
Judged = tuple[CheckpointsValue, ListingError | None] | Exception
"""What a look has found, or why nothing is known."""
Listings = dict[Place, Surveyed | ListingError]
WHOLE: Final = 60.0
"""Seconds for which roots of this machine are listed where all must be judged."""


class Checkpoints:
    """The checkpoints of many runs; remembers each run's former listing to see growth.

    The roots of a run may lie at several endpoints, each with a fate of its own: ``observe`` asks
    one of them, ``join`` makes one facet of what all of them have said last.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks: dict[tuple[str, CheckpointSpec], Look] = {}
        self._surveys = Surveys(clock)
        self._parts: dict[str, _Parts] = {}

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[CheckpointsValue]]:
        """Return the checkpoints of each run, or only what its roots ``at`` one endpoint say.

        A query tells whether the job lives, and which checkpoints are known to be rejected beside
        those of the logbook and the roots.
        """
        if at is not None:
            asked = [query for query in queries if self._asks(query)]
            found = await (self._here(asked) if at == HERE else self._away(asked, at))
            missing = not_configured("[run.checkpoints]")
            return {query.name: found.get(query.name, missing) for query in queries}
        facets: dict[str, Facet[CheckpointsValue]] = {}
        for endpoint in dict.fromkeys(one for query in queries for one in endpoints(query.run)):
            there = [query for query in queries if endpoint in endpoints(query.run)]
            facets |= self.join(endpoint, await self.observe(there, endpoint))
        return facets

    def join(
        self, at: str, answers: Mapping[str, Facet[CheckpointsValue]]
    ) -> dict[str, Facet[CheckpointsValue]]:
        """Return the whole facet of each run that an endpoint has answered for, or failed to."""
        joined = {}
        for name, answer in answers.items():
            parts = self._parts.get(name)
            joined[name] = answer if parts is None else parts.with_answer(at, answer)
        return joined

    def _asks(self, query: Query) -> bool:
        """Tell whether the run file names roots; they are followed from now on."""
        spec = query.run.checkpoints
        if spec is None or not spec.path:
            self._parts.pop(query.name, None)
            return False
        former = self._parts.get(query.name)
        if former is None or former.roots != spec.path:
            self._parts[query.name] = _Parts(spec.path)
        return True

    async def _here(self, queries: Sequence[Query]) -> dict[str, Facet[CheckpointsValue]]:
        """Look at the roots on this machine: in one hop, apart only where one is slow."""
        looks: dict[str, Judged | Look] = {query.name: self._begun(query.run) for query in queries}
        asked = [(each, looks[each.name]) for each in queries]
        calls = [
            Call(partial(look.here, each), (Look.here, look))
            for each, look in asked
            if isinstance(look, Look)
        ]
        outcomes = iter(await offload_each(calls, deadline=DEADLINE))
        return {
            each.name: self._facet(
                each, _judged(each, next(outcomes)) if isinstance(look, Look) else look
            )
            for each, look in asked
        }

    def _begun(self, run: RunSpec) -> Judged | Look:
        """Return what looks at a run's roots, or why nothing can."""
        try:
            return self._look(run)
        except ValueError as error:
            return error

    async def _away(self, queries: Sequence[Query], at: str) -> dict[str, Facet[CheckpointsValue]]:
        """Ask one endpoint once for all runs, then judge each."""
        wants: dict[str, tuple[Want, ...]] = {}
        bad: dict[str, Judged] = {}
        for query in queries:
            try:
                wants[query.name] = wants_of(_spec(query.run), at, folder_names(query.run))
            except ValueError as error:
                bad[query.name] = error
        answers = await self._surveys.look(at, [want for each in wants.values() for want in each])

        def judge() -> dict[str, Judged]:
            return {
                query.name: self._judged(
                    query, {want.place: answers[want] for want in wants[query.name]}
                )
                for query in queries
                if query.name in wants
            }

        try:
            found = await offload(judge, deadline=DEADLINE, key=object())
        except TimeoutError:
            late = ListingError(ErrorKind.TIMEOUT, f"{at}: not judged within {DEADLINE:g} s")
            found = {name: late for name in wants}
        self._surveys.settle(at, [each[0] for each in found.values() if isinstance(each, tuple)])
        return {query.name: self._facet(query, {**bad, **found}[query.name]) for query in queries}

    def _judged(self, query: Query, answers: Mapping[Place, Surveyed | ListingError]) -> Judged:
        try:
            return self._look(query.run).away(query, answers)
        except (ListingError, ValueError) as error:
            return error

    def _facet(self, query: Query, found: Judged) -> Facet[CheckpointsValue]:
        source, now = _source(query.run), self._clock.now()
        if isinstance(found, tuple):
            facet = known(found[0], source, now)
            if found[1] is None:
                return facet
            return facet.model_copy(update={"error": problem_of(found[1]), "since": now})
        if isinstance(found, ListingError):
            problem = problem_of(found)
            return unknown(problem.kind, problem.message, source, now)
        return unknown(ErrorKind.BAD_ANSWER, clean(found), source, now)

    def _look(self, run: RunSpec) -> Look:
        spec = _spec(run)
        key = (run.name, spec)
        if key not in self._looks:
            self._looks[key] = Look(spec, self._clock, folder_names(run))
        return self._looks[key]


def _judged(query: Query, outcome: Outcome[tuple[CheckpointsValue, ListingError | None]]) -> Judged:
    """Return what a look has found, or why nothing is known; raises what is no such reason."""
    try:
        return outcome.value
    except TimeoutError:
        message = f"{_source(query.run)}: no listing within {DEADLINE:g} s"
        return ListingError(ErrorKind.TIMEOUT, message)
    except (ListingError, ValueError) as error:
        return error


def _spec(run: RunSpec) -> CheckpointSpec:
    return run.checkpoints or CheckpointSpec()


def _source(run: RunSpec) -> str:
    return clean(" + ".join(map(str, _spec(run).path)), LIMIT)


def endpoints(run: RunSpec) -> tuple[str, ...]:
    """Return the systems that a run's roots lie on; this machine for a run that has none."""
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    return tuple(dict.fromkeys(root.endpoint for root in roots)) or (HERE,)


_NOT_ASKED: Final = Problem(kind=ErrorKind.TIMEOUT, message="no answer yet")


class _Parts:
    """What each endpoint of one run's roots has said last.

    A part's value covers all roots that were listed by then, so that the newest one holds.
    """

    def __init__(self, roots: tuple[Place, ...]) -> None:
        self.roots = roots
        self._said: dict[str, Facet[CheckpointsValue]] = {}

    def with_answer(self, at: str, answer: Facet[CheckpointsValue]) -> Facet[CheckpointsValue]:
        """Take an endpoint's answer in and return the facet of the run.

        A root that could not be listed leaves the others to be seen, but nothing is picked.
        """
        self._said[at] = answer
        if len({root.endpoint for root in self.roots}) == 1:
            return answer
        seen = [part for part in self._said.values() if part.value is not None]
        newest = max(seen, key=lambda part: part.observed_at or 0.0, default=answer)
        parts = {root.endpoint: self._said.get(root.endpoint) for root in self.roots}
        errors = {end: part.error if part else _NOT_ASKED for end, part in parts.items()}
        failed = {end: error for end, error in errors.items() if error is not None}
        if not failed:
            return newest
        kinds = [problem.kind for problem in failed.values()]
        message = "; ".join(self._told(end, problem.message) for end, problem in failed.items())
        sinces = [part.since for part in self._said.values() if part.since is not None]
        since = min(sinces, default=newest.observed_at)
        return newest.model_copy(
            update={
                "value": None if newest.value is None else self._without_picks(newest.value),
                "error": Problem(kind=kinds[0], message=clean(message, LIMIT)),
                "since": since,
                "retry_after": None,
            }
        )

    def _told(self, endpoint: str, message: str) -> str:
        """Return what is wrong at an endpoint, after the roots there unless it names them."""
        if message.startswith(endpoint):
            return message
        return f"{self._at(endpoint)}: {message}"

    def _at(self, endpoint: str) -> str:
        return " + ".join(str(root) for root in self.roots if root.endpoint == endpoint)

    def _without_picks(self, value: CheckpointsValue) -> CheckpointsValue:
        answered = {end for end, part in self._said.items() if part.value is not None}
        silent = [str(root) for root in self.roots if root.endpoint not in answered]
        return unpicked(value, [*value.unlisted, *silent])


def list_checkpoints(
    paths: Sequence[str], layout: str = "auto", custom: CustomLayout | None = None, *, now: float
) -> CheckpointsValue:
    """Return the checkpoints under one run's ``paths`` (permanent root first); blocking.

    Raises ``ListingError`` for a path that cannot be listed, ``ValueError`` for an unknown layout
    or an address that is not on this machine.
    """
    spec = CheckpointSpec(path=tuple(map(place_of, paths)), layout=layout, custom=custom)
    remote = next((place for place in spec.path if not place.here), None)
    if remote is not None:
        raise ValueError(f"{clean(str(remote), LIMIT)} is not on this machine: it is only read")
    answers = _all_here(spec, frozenset(), WHOLE)
    return _unwatched(spec, {place: listing_of(said) for place, said in answers.items()}, now)


async def list_anywhere(
    paths: Sequence[str], layout: str = "auto", custom: CustomLayout | None = None, *, clock: Clock
) -> CheckpointsValue:
    """Return the checkpoints under ``paths``, wherever they lie; permanent root first.

    Raises ``ListingError`` for a path that cannot be listed, ``ValueError`` for an unknown
    layout, ``TimeoutError`` for this machine's disk.
    """
    spec = CheckpointSpec(path=tuple(map(place_of, paths)), layout=layout, custom=custom)
    answers = await _everywhere(spec, frozenset(), Surveys(clock), DEADLINE)
    listings = {place: listing_of(said) for place, said in answers.items()}
    return await offload(_unwatched, spec, listings, clock.now(), deadline=DEADLINE, key=object())


def _all_here(spec: CheckpointSpec, prefer: frozenset[str], seconds: float) -> Listings:
    """List the roots on this machine; blocking."""
    answers = listed_here(survey_here(), wants_of(spec, HERE, prefer), seconds)
    return {want.place: said for want, said in answers.items()}


async def _everywhere(
    spec: CheckpointSpec, prefer: frozenset[str], surveys: Surveys, deadline: float
) -> Listings:
    """List all roots of a run; those of this machine for no longer than the deadline."""
    answers: Listings = {}
    if any(place.here for place in spec.path):
        answers |= await offload(_all_here, spec, prefer, WHOLE, deadline=deadline, key=object())
    for endpoint in dict.fromkeys(place.endpoint for place in spec.path if not place.here):
        found = await surveys.look(endpoint, wants_of(spec, endpoint, prefer), SECONDS)
        answers |= {want.place: said for want, said in found.items()}
    return answers


def _unwatched(
    spec: CheckpointSpec, listings: Mapping[Place, Listing], now: float
) -> CheckpointsValue:
    """Judge roots of which nothing is known but what lies there; blocking.

    Raises ``ListingError`` for one that could not be listed.
    """
    for listing in listings.values():
        if listing.error is not None:
            raise listing.error
    roots, _, unjudged = joined(spec.path, listings, listings.keys())
    around = Circumstances(now, rejected=marked(listings.values()))
    return as_far_as_judged(judge_listing(roots, around, spec), unjudged, roots)


ANEW_DEADLINE: Final = 15.0
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

        Raises ``ListingError`` for a root that cannot be listed, ``TimeoutError``
        for this machine's disk, ``ValueError`` for a layout or a file there that is not understood.
        """
        names = folder_names(self._run)
        answers = await _everywhere(self._spec, names, self._surveys, ANEW_DEADLINE)
        temporary = temporaries(self._spec.path)
        listings = {place: listing_of(said, temporary[place]) for place, said in answers.items()}

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

        return await offload(judge, deadline=ANEW_DEADLINE, key=object())


def nothing_there(error: Exception) -> bool:
    """Tell whether a root cannot be listed because it does not exist (yet)."""
    return isinstance(error, ListingError) and error.missing


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
