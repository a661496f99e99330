"""Which disks of a machine press on several runs at once: one cause, however many runs. Pure.

The first run that finds it out tells of it, and names the others; what each of them says of the
same disk follows from that (SPEC C, "One cause opens one alert"; C-22).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from cockpit.model.history import FullDisk
from cockpit.model.place import HERE
from cockpit.rules.jobs.host import beyond, disk_key
from cockpit.watch.outages import PlatformOf
from cockpit.watch.polling.places import places_of
from cockpit.watch.runstate import RunState


def find_full_disks(
    states: Collection[RunState], platform_of: PlatformOf
) -> dict[str, tuple[FullDisk, ...]]:
    """Return, by run name, the disks that are nearly full for that run and for others."""
    groups: dict[tuple[str, str], list[RunState]] = defaultdict(list)
    for state in states:
        for mount in _short(state):
            groups[_machine(state, platform_of), mount].append(state)
    found: dict[str, list[FullDisk]] = defaultdict(list)
    for (machine, mount), group in groups.items():
        if len(group) < 2:
            continue
        teller = min(group, key=lambda state: _rank(state, disk_key(state.spec, mount)))
        names = tuple(state.spec.name for state in group)
        disk = FullDisk(machine=machine, mount=mount, runs=names, key=disk_key(teller.spec, mount))
        for name in names:
            found[name].append(disk)
    return {name: tuple(each) for name, each in found.items()}


def _short(state: RunState) -> Iterator[str]:
    """Yield the disks that a living job's machine is short of, by the newest look or the alerts."""
    host, job = state.facets.host, state.facets.job.value
    if host.value is None or not state.may_judge or (job is not None and job.phase.terminal):
        return
    for disk in host.value.disks:
        is_open = disk_key(state.spec, disk.mount) in state.open
        if is_open or any(beyond(disk, state.spec.thresholds.disk_frac)):
            yield disk.mount


def _machine(state: RunState, platform_of: PlatformOf) -> str:
    job = state.facets.job.value
    if job is not None and job.node is not None:
        return job.node
    places = sorted(places_of("host", state.spec, platform_of(state.spec)))
    return ", ".join("this machine" if each == HERE else each for each in places)


def _rank(state: RunState, key: str) -> tuple[bool, float, float, str]:
    """Return the order in which runs tell of a disk: the one that does already comes first."""
    kept = state.open.get(key)
    tells = kept is not None and kept.alert.caused_by is None
    opened = kept.opened_at if kept is not None else float("inf")
    return not tells, opened, state.spec.cadence, state.spec.name
