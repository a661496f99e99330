"""The health of the node that a run's driver is on, as the dashboard of its head has gathered it.

One request for all nodes. The dashboard answers with what it has, however old, and only then
gathers again: a summary that is older than ``STALE`` is asked for again after a moment, and is
unknown if it is still old (so it is for good where the head's GCS hangs).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, Gpu, HostValue
from cockpit.platforms.ray.answers import figure, mapping
from cockpit.platforms.ray.head import Head
from cockpit.platforms.ray.jobs import currents_of, failed
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean

STALE: Final = 120.0
"""Seconds after which a node's summary is too old to tell its health."""
GATHERING: Final = 2.5
"""Seconds after which a dashboard that was not asked for long has newer figures."""
_MOST_DISKS: Final = 8
_MOST_GPUS: Final = 64


class RayHosts:
    """Reads the nodes of heads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def observe(self, head: Head, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run of one head, by run name."""
        try:
            nodes = await _nodes(head, queries)
            wanted = {node for node in nodes.values() if node is not None}
            summaries = await self._summaries(head, wanted) if wanted else {}
        except HttpError as error:
            facet = failed(error, head.name, self._clock.now())
            return {query.name: facet for query in queries}
        now = self._clock.now()
        return {
            name: _unplaced(head, now)
            if node is None
            else _facet(head, node, summaries.get(node), now)
            for name, node in nodes.items()
        }

    async def _summaries(
        self, head: Head, wanted: Collection[str]
    ) -> dict[str, Mapping[str, object]]:
        """Return the summaries by node, asked for twice where those that are wanted are old."""
        found = {_id(each): each for each in await head.summaries()}
        ages = [_age(head, found[node], self._clock.now()) for node in wanted if node in found]
        if any(age is not None and age > STALE for age in ages):
            await self._clock.sleep(GATHERING)
            found = {_id(each): each for each in await head.summaries()}
        return found


async def _nodes(head: Head, queries: Sequence[Query]) -> dict[str, str | None]:
    """Return the node of each run's job, by the job as it is known, else by the head's list."""
    nodes = {query.name: query.job.node for query in queries if query.job is not None}
    unknown_jobs = [query.run for query in queries if query.job is None]
    if unknown_jobs:
        current = currents_of(unknown_jobs, await head.recent_jobs())
        nodes |= {name: job.node if job is not None else None for name, job in current.items()}
    return nodes


def _unplaced(head: Head, now: float) -> Facet[HostValue]:
    return unknown(ErrorKind.NOT_FOUND, "the job's node is unknown", head.name, now)


def _facet(
    head: Head, node: str, summary: Mapping[str, object] | None, now: float
) -> Facet[HostValue]:
    short = clean(node, 12)
    if summary is None:
        text = f"{head.name} tells nothing of node {short}: it left the cluster, or never answered"
        return unknown(ErrorKind.NOT_FOUND, text, head.name, now)
    state = mapping(summary.get("raylet")).get("state")
    if state is not None and state != "ALIVE":
        text = f"{head.name} says that node {short} is {clean(state, 40)}"
        return unknown(ErrorKind.NOT_FOUND, text, head.name, now)
    age = _age(head, summary, now)
    if age is None or age > STALE:
        old = "of unknown age" if age is None else f"{age:.0f} s old"
        text = f"what {head.name} tells of node {short} is {old}: nothing newer has come from it"
        return unknown(ErrorKind.TIMEOUT, text, head.name, now)
    return known(
        value_of(summary), f"{head.name}, node {clean(summary.get('ip'), 60) or short}", now
    )


def _age(head: Head, summary: Mapping[str, object], now: float) -> float | None:
    at = figure(summary.get("now"))
    return None if at is None else now - head.on_our_clock(at)


def value_of(summary: Mapping[str, object]) -> HostValue:
    """Return the health that a node's summary tells."""
    return HostValue(
        disks=tuple(_disks(mapping(summary.get("disk")))),
        mem_frac=_memory(summary),
        load=_load(summary.get("loadAvg")),
        gpus=tuple(_gpus(summary.get("gpus"))),
    )


def _id(summary: Mapping[str, object]) -> str:
    return str(mapping(summary.get("raylet")).get("nodeId") or "")


def _disks(disks: Mapping[str, object]) -> list[Disk]:
    """Return each disk once: Ray reports its own folder besides the disk that holds it."""
    found: dict[tuple[float, float], Disk] = {}
    for mount, raw in list(disks.items())[:_MOST_DISKS]:
        free, percent = figure(mapping(raw).get("free")), figure(mapping(raw).get("percent"))
        if free is not None and percent is not None:
            disk = Disk(mount=clean(mount, 200), free=int(free), used_frac=percent / 100)
            found.setdefault((free, percent), disk)
    return list(found.values())


def _memory(summary: Mapping[str, object]) -> float | None:
    """Return the share of memory that is used: of the container's where it has a limit."""
    figures = summary.get("mem")
    if not isinstance(figures, list) or len(figures) < 2:
        return None
    total, available = figure(figures[0]), figure(figures[1])
    if not total or available is None:
        return None
    return max(0.0, 1.0 - available / total)


def _load(value: object) -> float | None:
    absolute = value[0] if isinstance(value, list) and value else None
    return figure(absolute[0]) if isinstance(absolute, list) and absolute else None


def _gpus(value: object) -> list[Gpu]:
    found = []
    for number, raw in enumerate(map(mapping, value if isinstance(value, list) else [])):
        if number >= _MOST_GPUS:
            break
        index, util = figure(raw.get("index")), figure(raw.get("utilizationGpu"))
        used, total = figure(raw.get("memoryUsed")), figure(raw.get("memoryTotal"))
        found.append(
            Gpu(
                index=number if index is None else int(index),
                name=clean(raw.get("name"), 80),
                util_frac=None if util is None else util / 100,
                mem_frac=None if used is None or not total else used / total,
            )
        )
    return found
