"""Which disks of a machine press on several runs at once: one cause, however many runs. Pure.

The first run that finds it out tells of it, and names the others; what each of them says of the
same disk follows from that (SPEC C, "One cause opens one alert"; C-22). A network file system is
one disk, whichever machines have mounted it, and wherever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from cockpit.model.history import FullDisk
from cockpit.model.observed import Disk
from cockpit.model.place import HERE
from cockpit.rules.jobs.host import beyond, disk_key
from cockpit.watch.outages import PlatformOf
from cockpit.watch.polling.places import places_of
from cockpit.watch.runstate import RunState

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
        key = min(group, key=_rank).key
        machines = _named(sorted({short.machine for short in group}))
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


def _named(machines: list[str]) -> str:
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


def _rank(short: _Short) -> tuple[bool, float, float, str]:
    """Return the order in which runs tell of a disk: the one that does already comes first."""
    kept, spec = short.state.open.get(short.key), short.state.spec
    tells = kept is not None and kept.alert.caused_by is None
    opened = kept.opened_at if kept is not None else float("inf")
    return not tells, opened, spec.cadence, spec.name
