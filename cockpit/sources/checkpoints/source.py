"""Checkpoints on a local path (SPEC S-8, K): listed in a thread, judged by pure code."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import (
    ErrorKind,
    Facet,
    Problem,
    kind_of,
    known,
    not_configured,
    unknown,
)
from cockpit.model.observed import CheckpointsValue
from cockpit.model.place import HERE, Place, place_of
from cockpit.model.query import Query
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.runtime.offload import offload
from cockpit.sources.checkpoints.judge import (
    Circumstances,
    SeenFolder,
    chosen_layout,
    judge_listing,
    remember,
)
from cockpit.sources.checkpoints.listing import Root
from cockpit.sources.checkpoints.rejected import Books, read_marks
from cockpit.sources.checkpoints.scan import Scanner
from cockpit.sources.checkpoints.turns import SECONDS, Turns
from cockpit.text.safe import clean

DEADLINE: Final = 12.0
_LIMIT: Final = 4096


class Checkpoints:
    """The checkpoints of many runs; remembers each run's former listing to see growth.

    The roots of a run may lie at several endpoints, each with a fate of its own: ``observe`` asks
    one of them, ``join`` makes one facet of what all of them have said last.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks: dict[tuple[str, CheckpointSpec], _Look] = {}
        self._parts: dict[str, _Parts] = {}

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[CheckpointsValue]]:
        """Return the checkpoints of each run, or only what its roots ``at`` one endpoint say.

        A query tells whether the job lives, and which checkpoints are known to be rejected beside
        those of the logbook and the roots.
        """
        if at is not None:
            found = await asyncio.gather(*(self._one(query, at) for query in queries))
            return {query.name: facet for query, facet in zip(queries, found, strict=True)}
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

    async def _one(self, query: Query, at: str) -> Facet[CheckpointsValue]:
        spec = query.run.checkpoints
        if spec is None or not spec.path:
            self._parts.pop(query.name, None)
            return not_configured("[run.checkpoints]")
        former = self._parts.get(query.name)
        if former is None or former.roots != spec.path:
            self._parts[query.name] = _Parts(spec.path)
        source = clean(" + ".join(map(str, spec.path)), _LIMIT)
        if at != HERE:
            remote = next(root for root in spec.path if root.endpoint == at)
            return unknown(ErrorKind.UNSUPPORTED, _not_yet(remote), source, self._clock.now())
        return await self._here(query, spec, source)

    async def _here(
        self, query: Query, spec: CheckpointSpec, source: str
    ) -> Facet[CheckpointsValue]:
        try:
            look = self._look(query.run, spec)
            value, error = await offload(look.observe, query, deadline=DEADLINE)
        except TimeoutError:
            message = f"{source}: no listing within {DEADLINE:g} s"
            return unknown(ErrorKind.TIMEOUT, message, source, self._clock.now())
        except OSError as failure:
            return unknown(kind_of(failure), _line(failure), source, self._clock.now())
        except ValueError as failure:
            return unknown(ErrorKind.BAD_ANSWER, clean(failure), source, self._clock.now())
        facet = known(value, source, now := self._clock.now())
        if error is None:
            return facet
        problem = Problem(kind=kind_of(error), message=_line(error))
        return facet.model_copy(update={"error": problem, "since": now})

    def _look(self, run: RunSpec, spec: CheckpointSpec) -> _Look:
        key = (run.name, spec)
        if key not in self._looks:
            self._looks[key] = _Look(spec, self._clock, _folder_names(run))
        return self._looks[key]


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
        message = "; ".join(f"{self._at(end)}: {failed[end].message}" for end in failed)
        sinces = [part.since for part in self._said.values() if part.since is not None]
        since = min(sinces, default=newest.observed_at)
        return newest.model_copy(
            update={
                "value": None if newest.value is None else self._without_picks(newest.value),
                "error": Problem(kind=kinds[0], message=clean(message, _LIMIT)),
                "since": since,
                "retry_after": None,
            }
        )

    def _failed(self) -> dict[str, Problem]:
        """Return what is wrong with the endpoints that have not answered in full."""
        parts = {root.endpoint: self._said.get(root.endpoint) for root in self.roots}
        errors = {end: part.error if part else _NOT_ASKED for end, part in parts.items()}
        return {end: error for end, error in errors.items() if error is not None}

    def _at(self, endpoint: str) -> str:
        return " + ".join(str(root) for root in self.roots if root.endpoint == endpoint)

    def _without_picks(self, value: CheckpointsValue) -> CheckpointsValue:
        answered = {end for end, part in self._said.items() if part.value is not None}
        silent = [str(root) for root in self.roots if root.endpoint not in answered]
        return _unpicked(value, [*value.unlisted, *silent])


def _unpicked(value: CheckpointsValue, unlisted: Sequence[str]) -> CheckpointsValue:
    """Return a listing that lacks some roots: the one to resume from may lie in one of them."""
    named = tuple(dict.fromkeys(clean(root, _LIMIT) for root in unlisted))
    nothing = {"latest_complete": None, "relaunch_from": None, "trainer_would_load": None}
    return value.model_copy(update={**nothing, "unlisted": named})


class _Look:
    """One run's roots on this machine, its scanner's memory and its former listing."""

    def __init__(self, spec: CheckpointSpec, clock: Clock, prefer: frozenset[str]) -> None:
        self._spec = spec
        self._clock = clock
        self._scanner = replace(_scanner(spec, prefer), turns=Turns(SECONDS))
        self._before: Mapping[str, SeenFolder] = {}
        self._books = Books()
        self._lock = threading.Lock()

    def observe(self, query: Query) -> tuple[CheckpointsValue, OSError | None]:
        """List and judge, and return why one of several roots could not be listed; blocking.

        Raises ``OSError`` when no root can be listed, ``ValueError`` when they hold more than
        one run's checkpoints.
        """
        run = query.run
        with self._lock:  # a look that was given up may still be at work
            bad = (*self._books.rejected(run.records.logbook), *query.rejected)
            roots, errors, unjudged = _listed(self._scanner, self._spec.path)
            bad += _marked(roots)
            now = self._clock.now()
            began = query.job.started_at if query.job is not None else None
            around = Circumstances(now, query.alive, self._before, run.final_step, bad, began)
            value = judge_listing(roots, around, self._spec)
            _one_run_only(value, [_plain(path) for path in _paths(self._spec)])
            seen = remember(value, roots, self._before)
            self._before = {**self._before, **seen} if errors else seen
            self._scanner.settle(value)
            value = _as_far_as_judged(value, unjudged, roots)
            if not errors:
                return value, None
            return _unpicked(value, list(errors)), next(iter(errors.values()))


def list_checkpoints(
    paths: Sequence[str],
    layout: str = "auto",
    custom: CustomLayout | None = None,
    *,
    now: float,
) -> CheckpointsValue:
    """Return the checkpoints under one run's ``paths`` (permanent root first); blocking.

    Raises ``OSError`` for a path that cannot be listed, ``ValueError`` for an unknown layout
    or a remote address.
    """
    places = tuple(place_of(path) for path in paths)
    remote = next((place for place in places if not place.here), None)
    if remote is not None:
        raise ValueError(_not_yet(remote))
    spec = CheckpointSpec(path=places, layout=layout, custom=custom)
    scanner = _scanner(spec, frozenset())
    roots = [root for path in paths for root in scanner.roots(_plain(path))]
    return judge_listing(roots, Circumstances(now, rejected=_marked(roots)), spec)


def without(
    run: RunSpec, gone: Collection[str], rejected: tuple[Rejected, ...], now: float
) -> CheckpointsValue:
    """Return what the listing of a dead run would say if the paths in ``gone`` were not there.

    Blocking; raises as ``list_checkpoints`` does.
    """
    spec = run.checkpoints or CheckpointSpec()
    scanner = _scanner(spec, _folder_names(run))
    remote = next((place for place in spec.path if not place.here), None)
    if remote is not None:
        raise ValueError(_not_yet(remote))
    found, errors, _ = _listed(scanner, spec.path)
    if errors:
        raise next(iter(errors.values()))
    roots = [_left(root, gone) for root in found]
    bad = (*Books().rejected(run.records.logbook), *rejected, *_marked(roots))
    return judge_listing(roots, Circumstances(now, False, {}, run.final_step, bad), spec)


def _folder_names(run: RunSpec) -> frozenset[str]:
    """Return what the run's own folder may be called where a root holds many runs."""
    return frozenset({run.name} | ({run.wandb.id} if run.wandb and run.wandb.id else set()))


def _left(root: Root, gone: Collection[str]) -> Root:
    def stays(name: str) -> bool:
        return clean(f"{root.path.rstrip('/')}/{name}", _LIMIT) not in gone

    folders = tuple(folder for folder in root.folders if stays(folder.name))
    return replace(root, folders=folders, files=tuple(f for f in root.files if stays(f.path)))


def _as_far_as_judged(
    value: CheckpointsValue, unjudged: int, roots: Sequence[Root]
) -> CheckpointsValue:
    """Return a listing of which some folders have had no turn yet: the newest have.

    A trainer may go by other things than the step, and where nothing is complete among the
    newest, the one to resume from lies among the others.
    """
    if not unjudged:
        return value
    value = value.model_copy(update={"unjudged": unjudged, "trainer_would_load": None})
    return value if value.latest_complete is not None else _unpicked(value, [r.path for r in roots])


def _marked(roots: Sequence[Root]) -> tuple[Rejected, ...]:
    paths = dict.fromkeys(root.path for root in roots)
    return tuple(one for path in paths for one in read_marks(path))


def _scanner(spec: CheckpointSpec, prefer: frozenset[str]) -> Scanner:
    layout = chosen_layout(spec)
    if layout is None or layout.name not in ("levanter", "custom"):
        return Scanner(prefer=prefer)
    return Scanner(layout.pattern, (layout.marker,) if layout.marker else (), prefer)


def _listed(
    scanner: Scanner, places: Sequence[Place]
) -> tuple[list[Root], dict[str, OSError], int]:
    """Return this machine's roots, why some could not be listed, by path, and the turnless folders.

    Those are counted: there are so many that they are looked at in turns.
    One of several that does not exist (yet) holds nothing. Raises ``OSError`` when none can be
    listed.
    """
    found: list[Root] = []
    missing: list[OSError] = []
    errors: dict[str, OSError] = {}
    unjudged = 0
    for index, place in enumerate(places):
        temporary = index > 0 if len(places) > 1 else None
        if not place.here:
            continue
        try:
            found += scanner.roots(_plain(place.path), temporary)
            unjudged += scanner.unjudged
        except FileNotFoundError as error:
            missing.append(error)
        except OSError as error:
            errors[place.path] = error
    if not found:
        raise next(iter((*errors.values(), *missing)))
    return found, errors, unjudged


_PAIR: Final = re.compile(r"[-_.]?(?:temporary|permanent|temp|tmp|perm)[-_.]?")


def _one_run_only(value: CheckpointsValue, paths: Sequence[str]) -> None:
    """Refuse to mix lineages (C-17): a path above the folders of several runs names none."""
    below = sorted({item.root for item in value.items} - set(paths))
    runs = {_PAIR.sub("", root) for root in below}
    if len(runs) > 1:
        names = ", ".join(Path(root).name for root in below[:4])
        where = Path(below[0]).parent
        raise ValueError(f"{where} holds several runs ({names}); name this run's own folder")


def _plain(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _paths(spec: CheckpointSpec) -> list[str]:
    return [root.path for root in spec.path if root.here]


def _not_yet(place: Place) -> str:
    return f"{clean(place.scheme, 20)}:// checkpoints are not read yet by this version"


def _line(error: OSError) -> str:
    reason = {
        FileNotFoundError: "does not exist",
        NotADirectoryError: "is not a folder",
        PermissionError: "may not be read (permission denied)",
    }.get(type(error), (error.strerror or "cannot be listed").lower())
    return clean(f"{error.filename or 'checkpoint root'} {reason}", _LIMIT)
