"""The runs of one run file, what is held of each, and who watches them.

One cause, many runs: a full disk, a place that is down, a shared output path. Pure.

Each is reported once for all runs that it affects (SPEC C, "One cause opens one alert").
"""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import know_pythons
from cockpit.hosts.notes import boot_id
from cockpit.model.facet import OF_A_RUN, ErrorKind, Facet
from cockpit.model.history import FullDisk, Outage, Sharer
from cockpit.model.lineage import shared_place, wandb_key
from cockpit.model.observed import Disk, JobValue
from cockpit.model.place import HERE, place_of
from cockpit.model.report import FACETS, Facets, FleetReport, RunReport, unread
from cockpit.model.run import CockpitFile, RunSpec, pythons_of, remedies_of
from cockpit.platforms.base import Platform
from cockpit.rules.jobs.host import beyond, disk_key, recalled
from cockpit.runtime import process
from cockpit.runtime.process import Start, process_facts
from cockpit.runtime.ssh import know_remedies
from cockpit.store.ownership import Owner, Ownership, Turns
from cockpit.store.store import Store, run_key
from cockpit.text.progress_lines import last_step
from cockpit.watch.asking import fate_of, places_of
from cockpit.watch.reports import owner_of
from cockpit.watch.runstate import Rows, RunState
from cockpit.watch.store_writer import Shared, StoreWriter
from cockpit.watch.sweep import watched_paths

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


class UnknownRunError(Exception):
    """A run was asked for that the run file does not have; the text names those it has."""


class Fleet:
    """All runs, in the run file's order, or ``only`` some of them.

    Raises ``UnknownRunError`` if ``only`` names a run that the file does not have.
    """

    def __init__(
        self,
        file: CockpitFile,
        only: Iterable[str] | None = None,
        platform_of: PlatformOf = lambda _run: None,
        forget: Callable[[Iterable[str]], None] = lambda _names: None,
    ) -> None:
        """``forget`` takes the names of the runs whose tracker rows start again."""
        self.file = file
        self._platform_of = platform_of
        self._forget = forget
        self._only = frozenset(only or ())
        self.states: dict[str, RunState] = {}
        self.whole: Mapping[str, RunState] = {}
        """The same for other threads: another one after each edit, where ``states`` is refilled."""
        self._unjudged: dict[str, tuple[Facets, RunReport]] = {}
        """Of runs that no rule has seen: the same report until there is more to say."""
        self._pairs: tuple[Pair, ...] = ()
        """Those that write to the same place, by the run file."""
        _must_have(file, self._only)
        self.adopt(file)

    def adopt(self, file: CockpitFile) -> None:
        """Take a newly read run file over; runs that it still names keep what is known.

        But for the rows of another tracker, or of the same one read otherwise.
        """
        runs = tuple(run for run in file.runs if not self._only or run.name in self._only)
        old, self.file = self.states.copy(), file.model_copy(update={"runs": runs})
        self.states.clear()
        self._unjudged.clear()
        know_remedies(remedies_of(file))
        know_pythons(pythons_of(file))
        for spec in runs:
            state = old.pop(spec.name, None) or RunState(spec, run_key(file.path, spec.name))
            if tracker_of(state.spec) != tracker_of(spec):
                state.rows = Rows()
                old[spec.name] = state
            state.spec, state.away = spec, {}
            state.paths = watched_paths(spec, state.facets)
            self.states[spec.name] = state
        self.whole = self.states.copy()
        if old:
            self._forget(old)
        self._pairs = pairs_of(runs)

    def select(self, names: Iterable[str] | None) -> list[RunSpec]:
        """Return the named runs, or all; raises ``UnknownRunError``."""
        wanted = list(names or ())
        _must_have(self.file, wanted)
        return [self.states[name].spec for name in wanted or self.states]

    def mark_neighbours(self) -> None:
        """Note in each run what it has in common with others: a place written to, an outage."""
        sharers = sharers_of(self.states, self._pairs)
        outages = find_outages(self.states.values(), self._platform_of)
        disks = find_full_disks(self.states.values(), self._platform_of)
        for name, state in self.states.items():
            state.sharers = sharers.get(name, ())
            state.outages = outages.get(name, ())
            state.full_disks = disks.get(name, ())

    async def recall(self, store_writer: StoreWriter, now: float) -> None:
        """Begin from what the store knows of each new run; what was seen since then stays."""
        keys = [state.key for state in self.states.values() if not state.remembered]
        known = await store_writer.load(keys, now) if keys else {}
        for state in self.states.values():
            found = known.get(state.key)
            if found is None or state.remembered:
                continue
            state.remembered = True
            state.phases = [*found.phases, *state.phases]
            state.marks = [*found.marks, *state.marks]
            state.settings.recall(*found.configs)
            state.stored_configs = found.configs
            share(state, found.shared)
            if found.report is not None and state.report is None and not state.looked:
                state.facets = _with_last_step(found.report.facets.as_remembered())
                state.paths = watched_paths(state.spec, state.facets)
                state.host = recalled(state.facets.job.value, state.facets.host.value)
                owner = owner_of(state, state.facets)
                spec = state.spec.model_copy(update={"dri": owner.name})
                changes = {"spec": spec, "owner": owner}
                state.report = found.report.as_remembered().model_copy(update=changes)
                state.stored = state.report
                state.looks = found.report.looks
                state.day = found.report.day

    def report(self, now: float, runs: Sequence[RunSpec] | None = None) -> FleetReport:
        """Return the newest report of each run, one that says "unknown" if there is none yet."""
        states = (self.states[run.name] for run in (self.file.runs if runs is None else runs))
        reports = tuple(state.report or self._before_rules(state, now) for state in states)
        return FleetReport.model_construct(checked_at=now, runs=reports)  # of parts that are

    def _before_rules(self, state: RunState, now: float) -> RunReport:
        """Return the report of a run that is not judged yet: a new one only if it says more."""
        name = state.spec.name
        facets, former = self._unjudged.get(name, (None, None))
        if former is None or former.spec is not state.spec or facets is not state.facets:
            former = unread(state.spec, state.facets, now)
            self._unjudged[name] = state.facets, former
        return former


def tracker_of(run: RunSpec) -> tuple[object, ...]:
    """Return what of a run's settings says where its rows are, and which of them mean what."""
    return tuple(run.trackers.items())


def _with_last_step(facets: Facets) -> Facets:
    """Return facets of the store with the newest step in the log's lines."""
    log = facets.log.value
    told = last_step(line.plain for line in log.lines) if log is not None else None
    if log is None or told is None:
        return facets
    value = log.model_copy(update={"told_step": told[1]})
    return facets.model_copy(update={"log": facets.log.model_copy(update={"value": value})})


def _must_have(file: CockpitFile, names: Iterable[str]) -> None:
    known = [run.name for run in file.runs]
    for name in names:
        if name not in known:
            raise UnknownRunError(f"{file.path} has no run {name!r}; it has: {', '.join(known)}")


def share(state: RunState, news: Shared) -> None:
    """Take over what other cockpits did: alerts, acknowledgements, launches, ownership."""
    unsaved = {key: kept for key, kept in state.open.items() if not kept.number}
    state.shared = news
    state.open = unsaved | {kept.alert.key: kept for kept in news.open}
    state.closed = list(news.closed)


def ownership_of(store: Store | None) -> Ownership | None:
    """Return the ownership that a store keeps, as seen from this machine."""
    return None if store is None else Ownership(store, same_process)


def turns_of(store: Store | None) -> Turns | None:
    """Return the turns that a store keeps, as this process takes them."""
    if store is None or store.read_only:
        return None
    me = this_process("")

    def died(claimant: Owner) -> bool:
        return claimant.host == me.host and not same_process(claimant)

    return Turns(store, me, died)


def this_process(name: str) -> Owner:
    """Return this process as an owner of runs."""
    facts = process_facts(os.getpid())
    return Owner(
        name=name,
        host=socket.gethostname(),
        pid=facts.pid,
        started_at=facts.started_at,
        ticks=facts.ticks,
        boot=boot_id(),
    )


def same_process(owner: Owner) -> bool:
    """Return whether the very process that claimed on this host is still alive."""
    place = process.here()._replace(boot=owner.boot, space=None)
    return bool(process.lives(owner.pid, place, Start(owner.ticks, owner.started_at)))
