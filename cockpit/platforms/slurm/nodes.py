"""The host facet of Slurm runs: how the machine is that a job runs on, as far as Slurm tells.

That is its load. The free memory that Slurm tells counts the page cache as used, and is a
whole machine's, not the job's; of disks and GPUs it tells nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import HostValue
from cockpit.platforms.slurm.ask import Run, parts
from cockpit.platforms.slurm.jobs import where_of
from cockpit.platforms.slurm.script import new_mark, nodes_script
from cockpit.platforms.slurm.trouble import Trouble, trouble_of
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_NODE: Final = re.compile(r"^NodeName=(\S+)(.*?)(?=^NodeName=|\Z)", re.M | re.S)
_LOAD: Final = re.compile(r"\bCPULoad=(\d+(?:\.\d+)?)")
_STATE: Final = re.compile(r"^\s+State=(\S+)", re.M)
_REASON: Final = re.compile(r"^\s+Reason=(.+)$", re.M)
_OUT: Final = re.compile(r"DRAIN|DOWN|FAIL|MAINT|INVAL|NOT_RESPONDING|[*$]")
"""Words and signs of a node's state on which nothing new is started."""
NODE_LOST: Final = "NODE_FAIL"


class Nodes:
    """Observes the machines that jobs run on: one question to each cluster; never raises."""

    def __init__(self, clock: Clock, run: Run) -> None:
        self._clock = clock
        self._run = run

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run, by run name."""
        groups: dict[str | None, list[Query]] = {}
        for query in queries:
            if query.run.job is not None:
                groups.setdefault(query.run.job.host, []).append(query)
        answers = await asyncio.gather(*(self._of(host, own) for host, own in groups.items()))
        return {name: facet for answer in answers for name, facet in answer.items()}

    async def _of(self, host: str | None, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        wanted = sorted({node for query in queries if (node := _node(query)) is not None})
        where, now = where_of(host), self._clock.now()
        told = await self._ask(host, wanted) if wanted else {}
        if isinstance(told, Trouble):
            return {query.name: unknown(told.kind, told.line, where, now) for query in queries}
        return {query.name: self._facet(where, query, told) for query in queries}

    async def _ask(self, host: str | None, nodes: Sequence[str]) -> dict[str, str] | Trouble:
        mark, where = new_mark(), where_of(host)
        found = await parts(self._run, host, where, mark, nodes_script(mark, nodes))
        if isinstance(found, Trouble):
            return found
        said = found.get("nodes.out", "")
        told = {name: text for name, text in _NODE.findall(said)}
        if not told:
            return trouble_of(where, said, 1)
        return told

    def _facet(self, where: str, query: Query, told: dict[str, str]) -> Facet[HostValue]:
        now, node = self._clock.now(), _node(query)
        if query.job is None:
            text = "its machine is unknown, since its job is"
            return unknown(ErrorKind.NOT_FOUND, text, where, now)
        if node is None:
            return known(HostValue(), f"{where}: the job is on no machine now", now)
        text = told.get(node, "")
        load, state = _LOAD.search(text), _STATE.search(text)
        word = clean(state[1], 60) if state is not None else "not listed"
        value = HostValue(
            load=float(load[1]) if load is not None else None,
            out_of_service=_out_of_service(node, word, _REASON.search(text)),
        )
        return known(value, f"{where}: {clean(node, 100)} {word}", now)


def _out_of_service(node: str, state: str, reason: re.Match[str] | None) -> str | None:
    """Return why nothing new starts on a node, and who says so: Slurm's own words."""
    if reason is None and _OUT.search(state) is None:
        return None
    why = "" if reason is None else f": {reason[1]}"
    return scrub(clean(f"node {node} is {state}{why}", 300))


def _node(query: Query) -> str | None:
    """Return the machine of a living job, or the one that was lost under it."""
    job = query.job
    there = job is not None and (job.phase.lives or job.state == NODE_LOST)
    return job.node if job is not None and there else None
