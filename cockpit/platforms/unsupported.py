"""A kind of job that this version knows by name only: every question is answered *unsupported*.

What is known of such a kind without asking it anything (the fields it reads, how it spells a
launch id, what a command of its must say) stands in its own package already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Accepted, LaunchState, Live, LiveJob, LookUp, Query, Submission
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding, Platform
from cockpit.sources.logs.source import Logs

LOOK_THERE: Final = "check there by hand: this version reads jobs and files of this machine"


class Unsupported(Platform):
    """Answers *unsupported*; a log that is a file, here or over ssh, is read all the same."""

    def __init__(self, clock: Clock, logs: Logs) -> None:
        self._clock = clock
        self._logs = logs

    def endpoint(self, run: RunSpec) -> str:
        """Return the address that the run file names, with the kind before it."""
        job = run.job
        named = job and (job.controller_url or job.cluster or job.address or job.host)
        return f"{self.kind} {named or 'here'}"

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Say that its jobs are not read."""
        message = f"reading {self.kind} jobs is not supported yet"
        now = self._clock.now()
        facet = unknown(ErrorKind.UNSUPPORTED, message, self.kind, now)
        return {query.name: facet for query in queries}

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Read the log file that the run file names, here or over ssh."""
        return await self._logs.observe(queries)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Say that its hosts are not read."""
        message = f"reading the hosts of {self.kind} jobs is not supported yet"
        now = self._clock.now()

        def where(run: RunSpec) -> str:
            return (run.job.host if run.job is not None else None) or self.kind

        return {
            query.name: unknown(ErrorKind.UNSUPPORTED, message, where(query.run), now)
            for query in queries
        }

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Say, once for each system, that this version does not ask it."""
        named: dict[str, list[str]] = {}
        for run in runs:
            named.setdefault(self.endpoint(run), []).append(run.name)
        text = f"{self.kind} jobs are not supported yet"
        return [
            EndpointFinding(endpoint=where, text=f"{text}: {', '.join(names)}", remedy=LOOK_THERE)
            for where, names in named.items()
        ]

    # Acting.

    def name_for(self, launch_id: str) -> str:
        """Return the launch id as it is."""
        return launch_id

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words as they are."""
        return tuple(words)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Say that this cannot be told."""
        text = f"reading {self.kind} jobs is not supported yet"
        return {run.name: Live(unknown=text) for run in runs}

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Say that this cannot be told."""
        text = f"looking up {self.kind} jobs is not supported yet"
        return LookUp(found=LaunchState.UNKNOWN, text=text)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Raise ``CannotError``."""
        self._refuse()

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Raise ``CannotError``."""
        self._refuse()

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Raise ``CannotError``."""
        self._refuse()

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Say that it cannot be asked."""
        return f"acting on {self.kind} jobs is not supported yet"

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Raise ``CannotError``."""
        self._refuse()

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return nothing: there is nobody to ask."""
        return {}

    def _refuse(self) -> NoReturn:
        raise CannotError(f"acting on {self.kind} jobs is not supported yet")
