"""One cause, many runs: a full disk, a place that is down, a shared output path. Pure.

Each is reported once for all runs that it affects (SPEC C, "One cause opens one alert").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final, NamedTuple

from cockpit.model.facet import OF_A_RUN, ErrorKind, Facet
from cockpit.model.history import FullDisk, Outage, Sharer
from cockpit.model.lineage import shared_place, wandb_key
from cockpit.model.observed import Disk, JobValue
from cockpit.model.place import HERE, place_of
from cockpit.model.report import FACETS
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.rules.jobs.host import beyond, disk_key
from cockpit.watch.asking import fate_of, places_of
from cockpit.watch.runstate import RunState

PlatformOf = Callable[[RunSpec], Platform | None]

_OF_ONE_ANSWER: Final = OF_A_RUN | {ErrorKind.BAD_ANSWER}
"""Of a place with one run an answer that cannot be read may be that run's fault."""


def find_outages(
    states: Collection[RunState], platform_of: PlatformOf
) -> dict[str, tuple[Outage, ...]]:
    """Return, by run name, the places that answer for no run that lives there.

    One run of each place is to tell of it (``told_by``): the one that does already, else one
    without another alert, of these the one with the shortest cadence.
    """
    dark = _dark(states, platform_of)
    places = {place for _, place in dark}
    wider = _servers(states, places, platform_of) if places else {}
    by_place: dict[str, dict[str, list[RunState]]] = defaultdict(dict)
    for (facet, place), group in dark.items():
        host = place.rpartition(" ")[2]  # "slurm login1" is dark because login1 is
        cause = wider.get(place) or (host if host in places else place)
        by_place[cause].setdefault(facet, []).extend(group)
    found: dict[str, list[Outage]] = defaultdict(list)
    for place, facets in by_place.items():
        outage = _outage(place, facets)
        for name in outage.runs if outage is not None else ():
            assert outage is not None
            found[name].append(outage)
    return {name: tuple(each) for name, each in found.items()}


def _servers(
    states: Collection[RunState], dark: Collection[str], platform_of: PlatformOf
) -> dict[str, str]:
    """Return, by place, the server of which several places are asked, and all of them are dark."""
    shared: dict[str, set[str]] = defaultdict(set)
    for state in states:
        for place in _away("tracker", state, platform_of):
            shared[fate_of(place)].add(place)
    gone = {fate: places for fate, places in shared.items() if len(places) > 1}
    gone = {fate: places for fate, places in gone.items() if places <= set(dark)}
    return {place: fate for fate, places in gone.items() for place in places}


def _dark(
    states: Collection[RunState], platform_of: PlatformOf
) -> dict[tuple[str, str], list[RunState]]:
    """Return the runs of each facet and place of which all that are asked there are unknown."""
    failing: dict[tuple[str, str], list[RunState]] = defaultdict(list)
    for state in states:
        for facet in state.failing:
            for place in _failed_places(facet, state, platform_of):
                failing[facet, place].append(state)
    for facet in {facet for facet, _ in failing}:
        silent = {place for name, place in failing if name == facet}
        for state in states:
            if not silent.isdisjoint(_away(facet, state, platform_of)):
                answering = silent.intersection(_answering(facet, state, platform_of))
                silent -= answering
                for place in answering:
                    del failing[facet, place]
    return failing


def _failed_places(facet: str, state: RunState, platform_of: PlatformOf) -> Iterable[str]:
    found: Facet[Any] = getattr(state.facets, facet)
    if facet not in state.looked or found.error is None or found.error.kind in OF_A_RUN:
        return ()
    places = _away(facet, state, platform_of)
    return places if len(places) < 2 else places & _unlisted(state)


def _answering(facet: str, state: RunState, platform_of: PlatformOf) -> Iterable[str]:
    """Return the places that have answered for a facet, or were not asked for it yet."""
    found: Facet[Any] = getattr(state.facets, facet)
    if not found.configured:
        return ()
    return _away(facet, state, platform_of).difference(_failed_places(facet, state, platform_of))


def _away(facet: str, state: RunState, platform_of: PlatformOf) -> frozenset[str]:
    """Return where else than here a facet is asked for: it follows from the run file alone."""
    places = state.away.get(facet)
    if places is None:
        found = places_of(facet, state.spec, platform_of(state.spec))
        places = state.away[facet] = frozenset(found) - {HERE}
    return places


def _unlisted(state: RunState) -> set[str]:
    """Return the places of those checkpoint roots that could not be listed."""
    value = state.facets.checkpoints.value
    return set() if value is None else {place_of(root).endpoint for root in value.unlisted}


def _rank(state: RunState, key: str) -> tuple[bool, bool, float, str]:
    """Return the order in which runs tell of a place: beside a worse alert it would not be seen."""
    other = bool(state.open.keys() - {key})
    return key not in state.open, other, state.spec.cadence, state.spec.name


def _outage(place: str, facets: dict[str, list[RunState]]) -> Outage | None:
    ranked = [name for name in FACETS if name in facets]
    runs = {state.spec.name: state for name in ranked for state in facets[name]}
    errors = [
        (state.silent_since(name), getattr(state.facets, name).error)
        for name in ranked
        for state in facets[name]
    ]
    if len(runs) == 1 and ("job" in facets or any(e.kind in _OF_ONE_ANSWER for _, e in errors)):
        return None  # the run's own C-02, or its own fault
    key = Outage.key_of(place)
    teller = min(runs.values(), key=lambda state: _rank(state, key))
    return Outage(
        place=place,
        facets=tuple(ranked),
        runs=tuple(runs),
        since=min(since for since, _ in errors),
        kind=errors[0][1].kind,
        why=errors[0][1].message,
        told_by=teller.spec.name,
    )


NAMED: Final = 3
"""Machines that have one file system and are named."""


class _Short(NamedTuple):
    """A run whose machine is short of a disk, mounted there at ``mount``."""

    state: RunState
    mount: str
    machine: str

    @property
    def key(self) -> str:
        """The identity of what it says of the disk."""
        return disk_key(self.state.spec, self.mount)


def find_full_disks(
    states: Collection[RunState], platform_of: PlatformOf
) -> dict[str, tuple[FullDisk, ...]]:
    """Return, by run name, the disks that are nearly full for that run and for others."""
    groups: dict[tuple[str, ...], list[_Short]] = defaultdict(list)
    for state in _candidates(states):
        for disk in _short(state):
            machine = _machine(state, platform_of)
            own = (machine, disk.mount) if disk.shared is None else (disk.shared,)
            groups[own].append(_Short(state, disk.mount, machine))
    found: dict[str, list[FullDisk]] = defaultdict(list)
    for group in groups.values():
        runs = tuple(dict.fromkeys(short.state.spec.name for short in group))
        if len(runs) < 2:
            continue
        key = min(group, key=_disk_rank).key
        machines = _machine_names(sorted({short.machine for short in group}))
        for short in group:
            full = FullDisk(machine=machines, mount=short.mount, runs=runs, key=key)
            found[short.state.spec.name].append(full)
    return {name: tuple(each) for name, each in found.items()}


def _candidates(states: Iterable[RunState]) -> Iterator[RunState]:
    """Yield the runs that have an alert, or a disk that presses: of a thousand runs few do.

    All runs are gone through each time that some are judged.
    """
    for state in states:
        if state.open or state.presses:
            yield state


def _machine_names(machines: list[str]) -> str:
    more = len(machines) - NAMED
    return ", ".join(machines[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _short(state: RunState) -> Iterator[Disk]:
    """Yield the disks that a living job's machine is short of, by the newest look or the alerts."""
    host, job = state.facets.host, state.facets.job.value
    if host.value is None or (job is not None and job.phase.terminal):
        return
    limit = state.spec.thresholds.disk_frac
    for disk in host.value.disks:
        is_open = state.open and disk_key(state.spec, disk.mount) in state.open
        if (is_open or any(beyond(disk, limit))) and state.may_judge:
            yield disk


def _machine(state: RunState, platform_of: PlatformOf) -> str:
    job = state.facets.job.value
    if job is not None and job.node is not None:
        return job.node
    places = sorted(places_of("host", state.spec, platform_of(state.spec)))
    return ", ".join("this machine" if each == HERE else each for each in places)


def _disk_rank(short: _Short) -> tuple[bool, float, float, str]:
    """Return the order in which runs tell of a disk: the one that does already comes first."""
    kept, spec = short.state.open.get(short.key), short.state.spec
    tells = kept is not None and kept.alert.caused_by is None
    opened = kept.opened_at if kept is not None else float("inf")
    return not tells, opened, spec.cadence, spec.name


class Pair(NamedTuple):
    """Two runs that write to the same place: which one, and whether that is certain."""

    one: str
    other: str
    what: str
    certain: bool


def sharers_of(
    states: Mapping[str, RunState], pairs: Iterable[Pair]
) -> dict[str, tuple[Sharer, ...]]:
    """Return, for each run that has any, the other runs that write to its place."""
    found: dict[str, list[Sharer]] = defaultdict(list)
    for pair in pairs:
        one, other = states[pair.one], states[pair.other]
        found[pair.one].append(_sharer(one, other, pair.what, pair.certain))
        found[pair.other].append(_sharer(other, one, pair.what, pair.certain))
    return {name: tuple(each) for name, each in found.items()}


def pairs_of(runs: Iterable[RunSpec]) -> tuple[Pair, ...]:
    """Return the runs that have a place in common, in pairs: of a hundred runs few do."""
    groups: dict[object, list[RunSpec]] = defaultdict(list)
    for run in runs:
        for key in _keys(run):
            groups[key].append(run)
    found: dict[tuple[str, str], Pair] = {}
    for group in groups.values():
        for one, other in combinations(group, 2):
            names = one.name, other.name
            if names not in found and (shared := shared_place(one, other)) is not None:
                found[names] = Pair(*names, *shared)
    return tuple(found.values())


def _keys(run: RunSpec) -> Iterator[object]:
    if run.output_root is not None:
        yield ("root", str(run.output_root.normal().path))
    if run.wandb is not None and run.wandb.id:
        yield ("wandb", run.wandb.id)
    if (key := wandb_key(run)) is not None:
        yield key


def _sharer(one: RunState, other: RunState, what: str, certain: bool) -> Sharer:
    mine, theirs = one.facets.job.value, other.facets.job.value
    return Sharer(
        run=other.spec.name,
        what=what,
        certain=certain,
        lives=theirs is not None and other.facets.job.known and theirs.phase.lives,
        same_job=_same(one.spec, mine, other.spec, theirs),
        job_id=None if theirs is None else theirs.id,
        started_at=None if theirs is None else theirs.started_at,
    )


def _same(run: RunSpec, mine: JobValue | None, other: RunSpec, theirs: JobValue | None) -> bool:
    """Tell whether two runs name one job: the same id, or one process below the other."""
    if mine is None or theirs is None or mine.id is None or theirs.id is None:
        return False
    where = [(spec.job.kind, spec.job.host) if spec.job else None for spec in (run, other)]
    if where[0] != where[1]:
        return False
    nested = not set(mine.processes).isdisjoint(theirs.processes)
    return mine.id == theirs.id or nested
