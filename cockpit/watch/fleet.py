"""The runs of one run file, what is held of each, and who watches them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence

from cockpit.hosts.link import know_pythons
from cockpit.hosts.notes import boot_id
from cockpit.model.report import Facets, FleetReport, RunReport, unread
from cockpit.model.run import CockpitFile, RunSpec, pythons_of, remedies_of
from cockpit.rules.jobs.host import recalled
from cockpit.runtime import process
from cockpit.runtime.process import Start, process_facts
from cockpit.runtime.ssh import know_remedies
from cockpit.store.ownership import Owner, Ownership, Turns
from cockpit.store.store import Store, run_key
from cockpit.text.progress_lines import last_step
from cockpit.watch.common_causes import (
    Pair,
    PlatformOf,
    find_full_disks,
    find_outages,
    pairs_of,
    sharers_of,
)
from cockpit.watch.reports import owner_of
from cockpit.watch.runstate import Rows, RunState
from cockpit.watch.store_writer import Shared, StoreWriter
from cockpit.watch.sweep import watched_paths


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
