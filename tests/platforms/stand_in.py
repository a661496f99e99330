"""A platform for tests, whose jobs are whatever a test's subclass says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from cockpit.model.clock import SystemClock
from cockpit.model.facet import Facet, not_configured
from cockpit.model.jobs import Accepted, LaunchState, Live, LiveJob, LookUp, Query, Submission
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, Platform
from cockpit.sources.logs.source import Logs


class StandIn(Platform):
    """Acts on jobs of kind ``local``, of which there are none; reads nothing."""

    kind: ClassVar[str] = "local"
    fields: ClassVar[frozenset[str]] = frozenset()
    private: ClassVar[tuple[str, ...]] = ()
    acts: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    look_every: ClassVar[float] = 0.5
    shared: ClassVar[bool] = False
    lives = Live()

    def __init__(self) -> None:
        super().__init__(SystemClock(), Logs(SystemClock()))

    def endpoint(self, run: RunSpec) -> str:
        return HERE

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        return {query.name: not_configured("it") for query in queries}

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        return {query.name: not_configured("it") for query in queries}

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        return {query.name: not_configured("it") for query in queries}

    def name_for(self, launch_id: str) -> str:
        return launch_id

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        return tuple(words)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        return {run.name: self.lives for run in runs}

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        return LookUp(found=LaunchState.ABSENT, text="never")

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        return Accepted(id=submission.launch_id, submission=submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        raise AssertionError("nothing here submits")

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        raise CannotError("nothing here stops")

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        told = run.job is not None and (run.job.save_signal or run.job.save_command)
        return None if told else "it has no way to save"

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        raise CannotError("it has no way to save")

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        return {}
