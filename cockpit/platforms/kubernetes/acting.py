"""How jobs of a cluster are acted on: the launch protocol, on its notes and its objects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from cockpit.model.clock import Clock
from cockpit.model.jobs import Accepted, LiveJob, LookUp, Submission
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kubernetes.launching import Launches
from cockpit.platforms.kubernetes.manifest import command_checks
from cockpit.platforms.kubernetes.objects import name_of
from cockpit.platforms.kubernetes.stopping import (
    EndingObjects,
    describe,
    gather,
    save,
    target_of,
    why_no_save,
)
from cockpit.platforms.kubernetes.view import Namespace
from cockpit.platforms.protocol import NOTHING_STARTED, EndingJobs, LaunchingPlatform
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs


class KubernetesActing(LaunchingPlatform):
    """The acting half of the platform."""

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._launched: dict[Namespace, Launches] = {}

    @abstractmethod
    def space_of(self, run: RunSpec) -> Namespace:
        """Return the namespace that a run is in."""

    def _launches(self, run: RunSpec) -> Launches:
        space = self.space_of(run)
        return self._launched.setdefault(space, Launches(space, self._clock))

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids that have a note; raises ``CannotError``."""
        try:
            return await self._launches(run).launch_ids(run)
        except HttpError as error:
            raise CannotError(str(error)) from None

    def name_for(self, launch_id: str) -> str:
        """Return the launch id as the name of an object."""
        return name_of(launch_id)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against the object that the recorded words create."""
        return command_checks(run, words)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that the server would take the object in, and keep it from starting."""
        try:
            await self._launches(run).try_start(run, submission)
        except HttpError as error:
            raise CannotError(f"{error}; {NOTHING_STARTED}") from None

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return what the note and the object of a launch id tell."""
        return await self._launches(run).find(run, launch_id, handle)

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """Close a launch id in its note, and delete what is held under it."""
        return await self._launches(run).close(run, launch_id, handle)

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """See that the id has no note but that of this very launch."""
        await self._launches(run).check_unused(run, submission)

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Write the note, and create the object, held."""
        try:
            return await self._launches(run).offer(run, submission)
        except HttpError as error:
            raise CannotError(f"{error}; {NOTHING_STARTED}") from None

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Let the object go, once, unless a look-up has closed it."""
        return await self._launches(run).release(run, accepted)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Let an accepted job run; where that cannot be, delete what is held."""
        try:
            return await super().go(run, accepted)
        except CannotError:
            with suppress(CannotError, LostError, HttpError, TimeoutError):
                await self.close(run, accepted.submission.launch_id, accepted.handle)
            raise

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what deletes exactly these objects, and waits for their pods."""
        return EndingObjects(self.space_of(run), [target_of(job) for job in jobs])

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that there is no way to ask the trainer, if so."""
        return why_no_save(run)

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_command`` run here, or by a signal that `kubectl exec` sends."""
        try:
            await save(self.space_of(run), run, job)
        except HttpError as error:
            raise CannotError(str(error)) from None

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return the object, its pods and their events."""
        return await describe(self.space_of(run), job_id)

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return the objects, their pods, events and logs, secrets masked."""
        return await gather(self.space_of(run), jobs)
