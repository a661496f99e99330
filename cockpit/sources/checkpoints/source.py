"""Checkpoints of many runs (SPEC S-8, K): here, in buckets, on hosts; judged by pure code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from cockpit.model.place import HERE, Place, place_of
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.runtime.offload import Call, Outcome, offload, offload_each
from cockpit.sources.checkpoints.assembly import Surveyed, Want
from cockpit.sources.checkpoints.judge import Circumstances, judge_listing
from cockpit.sources.checkpoints.look import (
    LIMIT,
    Failure,
    Listing,
    Look,
    as_far_as_judged,
    joined,
    listing_of,
    marked,
    problem_of,
    scanned,
    scanner_of,
    unpicked,
)
from cockpit.sources.checkpoints.surveys import SECONDS, Surveys, folder_names, wants_of
from cockpit.sources.checkpoints.tree import ListingError
from cockpit.sources.checkpoints.turns import SECONDS as TURNS
from cockpit.sources.checkpoints.turns import Turns
from cockpit.text.safe import clean

DEADLINE: Final = 12.0
Judged = tuple[CheckpointsValue, Failure | None] | Exception
"""What a look has found, or why nothing is known."""


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
        except (OSError, ListingError, ValueError) as error:
            return error

    def _facet(self, query: Query, found: Judged) -> Facet[CheckpointsValue]:
        source, now = _source(query.run), self._clock.now()
        if isinstance(found, tuple):
            facet = known(found[0], source, now)
            if found[1] is None:
                return facet
            return facet.model_copy(update={"error": problem_of(found[1]), "since": now})
        if isinstance(found, OSError | ListingError):
            problem = problem_of(found)
            return unknown(problem.kind, problem.message, source, now)
        return unknown(ErrorKind.BAD_ANSWER, clean(found), source, now)

    def _look(self, run: RunSpec) -> Look:
        spec = _spec(run)
        key = (run.name, spec)
        if key not in self._looks:
            scanner = replace(scanner_of(spec, folder_names(run)), turns=Turns(TURNS))
            self._looks[key] = Look(spec, self._clock, scanner)
        return self._looks[key]


def _judged(query: Query, outcome: Outcome[tuple[CheckpointsValue, Failure | None]]) -> Judged:
    """Return what a look has found, or why nothing is known; raises what is no such reason."""
    try:
        return outcome.value
    except TimeoutError:
        message = f"{_source(query.run)}: no listing within {DEADLINE:g} s"
        return ListingError(ErrorKind.TIMEOUT, message)
    except (OSError, ListingError, ValueError) as error:
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
        failed = self._failed()
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

    def _failed(self) -> dict[str, Problem]:
        """Return what is wrong with the endpoints that have not answered in full."""
        parts = {root.endpoint: self._said.get(root.endpoint) for root in self.roots}
        errors = {end: part.error if part else _NOT_ASKED for end, part in parts.items()}
        return {end: error for end, error in errors.items() if error is not None}

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
    paths: Sequence[str],
    layout: str = "auto",
    custom: CustomLayout | None = None,
    *,
    now: float,
) -> CheckpointsValue:
    """Return the checkpoints under one run's ``paths`` (permanent root first); blocking.

    Raises ``OSError`` for a path that cannot be listed, ``ValueError`` for an unknown layout
    or an address that is not on this machine.
    """
    spec = CheckpointSpec(path=tuple(map(place_of, paths)), layout=layout, custom=custom)
    _only_here(spec)
    scanner = scanner_of(spec, frozenset())
    listings = {place: scanned(scanner, place, None) for place in spec.path}
    failed = (each.error for each in listings.values() if isinstance(each.error, OSError))
    for error in failed:
        raise error
    return _unwatched(spec, listings, now)


async def list_anywhere(
    paths: Sequence[str],
    layout: str = "auto",
    custom: CustomLayout | None = None,
    *,
    clock: Clock,
) -> CheckpointsValue:
    """Return the checkpoints under ``paths``, wherever they lie; permanent root first.

    Raises ``OSError`` or ``ListingError`` for a path that cannot be listed, ``ValueError`` for
    an unknown layout, ``TimeoutError`` for this machine's disk.
    """
    spec = CheckpointSpec(path=tuple(map(place_of, paths)), layout=layout, custom=custom)
    scanner = scanner_of(spec, frozenset())
    listings: dict[Place, Listing] = {}
    for place in spec.path:
        if place.here:
            listings[place] = await offload(scanned, scanner, place, None, deadline=DEADLINE)
    surveys = Surveys(clock)
    for endpoint in dict.fromkeys(place.endpoint for place in spec.path if not place.here):
        wants = wants_of(spec, endpoint, frozenset())
        answers = await surveys.look(endpoint, wants, SECONDS)
        listings |= {want.place: listing_of(answers[want], None) for want in wants}
    for listing in listings.values():
        if listing.error is not None:
            raise listing.error
    return await offload(_unwatched, spec, listings, clock.now(), deadline=DEADLINE, key=object())


def _unwatched(
    spec: CheckpointSpec, listings: Mapping[Place, Listing], now: float
) -> CheckpointsValue:
    """Judge roots of which nothing is known but what lies there; blocking."""
    roots, _, unjudged = joined(spec.path, listings, listings.keys())
    around = Circumstances(now, rejected=marked(listings.values()))
    return as_far_as_judged(judge_listing(roots, around, spec), unjudged, roots)


def _only_here(spec: CheckpointSpec) -> None:
    remote = next((place for place in spec.path if not place.here), None)
    if remote is not None:
        raise ValueError(f"{clean(str(remote), LIMIT)} is not on this machine: it is only read")
