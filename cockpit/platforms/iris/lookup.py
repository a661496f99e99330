"""Looks up a launch id on a controller, and closes it with a job that never runs (SPEC A)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LookUp
from cockpit.model.lineage import related, tag_of
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.base import LostError
from cockpit.platforms.command import Tokens
from cockpit.platforms.iris import answers
from cockpit.platforms.iris.jobs import PATIENT, IrisJobs
from cockpit.platforms.iris.rpc import COMMAND, Controller, MissingMethodError
from cockpit.platforms.iris.spelling import Spelled, spellings, user_for
from cockpit.platforms.iris.trees import CLOSES, LAUNCH_ID, LINEAGE, is_closing, launch_id_of
from cockpit.platforms.local.census import census
from cockpit.platforms.local.programs import SUBMITS
from cockpit.platforms.protocol import NO_ANSWER, LaunchingPlatform, absent, looked_up
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.moment import Awake
from cockpit.runtime.offload import offload
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

KEEP: Final = 90.0
"""Seconds that a connection outlives a look: three of the slowest cadence."""
WORKERS: Final = "worker-daemon"
"""How a controller calls workers of its own."""
KUBERNETES: Final = "kubernetes"
_SAID_NO: Final = (ErrorKind.FORBIDDEN, ErrorKind.BAD_ANSWER, ErrorKind.NOT_FOUND)


async def why_open(controller: Controller) -> str | None:
    """Return why no name may be closed there by a job that never runs; ``None`` if one may.

    Raises ``HttpError`` where the controller gave no answer: another look may have one.
    """
    try:
        return await _why(controller)
    except HttpError as error:
        if error.kind not in _SAID_NO:
            raise
        return f"what places its tasks is unknown: {error}"


async def _why(controller: Controller) -> str | None:
    try:
        kinds = await controller.backends()
    except MissingMethodError:
        # A controller that does not know the question.
        if await controller.has_endpoint_service():
            return "it is of a release that does not tell what places its tasks"
        return f"its tasks are placed by {KUBERNETES}" if await controller.on_kubernetes() else None
    others = sorted({clean(kind, 40) or "nobody named" for kind in kinds if kind != WORKERS})
    if others or not kinds:
        return f"its tasks are placed by {', '.join(others) or 'nobody named'}"
    peers = await controller.peers()
    return f"it hands jobs on to {clean(', '.join(peers[:3]), 120)}" if peers else None


NEVER: Final = "cockpit-closed"
TASKS: Final = 7
HELD: Final = 86_400.0
"""Seconds for which a name is held."""


class TakenError(Exception):
    """A job has the name already."""


async def close(controller: Controller, job_id: str, launch_id: str, now: float) -> bool:
    """Take a job's name by one that never runs; false where the controller may not, or will not.

    ``now`` is in seconds since the epoch. Raises ``TakenError`` and ``HttpError``.
    """
    if await why_open(controller) is not None:
        return False
    answer = await controller.change("LaunchJob", _body(job_id, launch_id, now))
    if answer.status == 409:
        raise TakenError
    got = answer.json() if answer.status == 200 else None
    return isinstance(got, dict) and got.get("jobId") == job_id


def _body(job_id: str, launch_id: str, now: float) -> dict[str, Any]:
    never = {"key": NEVER, "op": "CONSTRAINT_OP_EQ", "value": {"stringValue": launch_id}}
    return {
        "name": job_id,
        "entrypoint": {"runCommand": {"argv": ["sleep", f"{HELD:.0f}"]}},
        "environment": {"envVars": {CLOSES: launch_id}},
        "resources": {"cpuMillicores": 1},
        "replicas": TASKS,
        "coscheduling": {"groupBy": NEVER},
        "constraints": [never],
        "schedulingTimeout": {"milliseconds": f"{HELD * 1000:.0f}"},
        "existingJobPolicy": "EXISTING_JOB_POLICY_ERROR",
        "priorityBand": "PRIORITY_BAND_BATCH",
        "clientRevisionDate": time.strftime("%Y-%m-%d", time.gmtime(now)),
    }


LOOKUP_WITHIN: Final = 20.0
"""Seconds that one look at a controller may take."""
QUIET: Final = 60.0
"""Seconds for which a controller must answer before a launch that was given up is held for lost."""
RETRY_EVERY: Final = 5.0
"""Seconds between two looks for a job that may still come."""
TABLE: Final = 10.0
"""Seconds that a look at the processes of this machine may take."""


class NamedIrisJob(NamedTuple):
    """A job under the name of a launch, and what it was submitted with."""

    job: answers.Job
    request: answers.Request


class IrisLookUps(LaunchingPlatform):
    """Looks launch ids up; ``_closed`` are those of which it has said that nothing can come."""

    kind: ClassVar[str] = "iris"
    definite_within: ClassVar[float] = 90.0

    def __init__(self, clock: Clock, logs: Logs, http: Http | None = None) -> None:
        super().__init__(clock, logs)
        http = Http(clock, deadline=PATIENT, keep=KEEP) if http is None else http
        self._jobs = IrisJobs(clock, http, Tokens(clock, COMMAND))
        self._closed: set[str] = set()

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return the job that has the name of a launch; raises ``HttpError`` and the like."""
        controller = await self._jobs.acting(run)
        async with asyncio.timeout(LOOKUP_WITHIN):
            seen = await find(controller, run, launch_id, spellings(run, launch_id))
        return "the controller has no such job" if seen is None else _lookup_of(launch_id, seen)

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """Take the name of a launch by a job that never runs, or wait until nothing can come."""
        meant = spellings(run, launch_id)
        controller = await self._jobs.acting(run)
        closed = all(each.own and each.certain for each in meant)
        async with asyncio.timeout(LOOKUP_WITHIN):
            try:
                for each in meant:
                    if each.own:
                        now = self._clock.now()
                        closed &= await close(controller, each.job_id, launch_id, now)
            except TakenError:  # it has come meanwhile
                seen = await find(controller, run, launch_id, meant)
                if seen is None:
                    text = "the controller says that the name is taken, and lists no such job"
                    raise LostError(text) from None
                return _lookup_of(launch_id, seen)
        text = f"the controller has no job {launch_id}, and the name is closed: none can come"
        if not closed:
            came = await self._quiet(controller, run, launch_id)
            if came is not None:
                return came
            text = f"the controller has answered for {QUIET:g} s, and no job {launch_id} came"
        self._closed.add(launch_id)
        return absent(text)

    async def used_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids that the controller has jobs of; it forgets a job after a week."""
        controller = await self._jobs.acting(run)
        async with asyncio.timeout(LOOKUP_WITHIN):
            listed = await controller.jobs(f"/{user_for(run)}/{run.name}-i", pages=1)
        ids = {launch_id_of(job.id) for job in listed if job.id.count("/") == 2}
        return frozenset(each for each in ids if each and each.startswith(f"{run.name}-i"))

    async def _quiet(self, controller: Controller, run: RunSpec, launch_id: str) -> LookUp | None:
        """Watch for a minute, with no client of ours at it; ``None``: nothing came.

        A machine that sleeps meanwhile has not watched: only what was awake is counted.
        """
        meant, until = (
            spellings(run, launch_id),
            Awake(QUIET, 2 * RETRY_EVERY, self._clock.monotonic),
        )
        while until.left() > 0:
            if await _submits(launch_id):
                raise LostError("its client still runs on this machine")
            async with asyncio.timeout(LOOKUP_WITHIN):
                seen = await find(controller, run, launch_id, meant)
            if seen is not None:
                return _lookup_of(launch_id, seen)
            await self._clock.sleep(RETRY_EVERY)
        return None


async def find(
    controller: Controller, run: RunSpec, launch_id: str, meant: Sequence[Spelled]
) -> NamedIrisJob | None:
    """Return the job of a launch, a closing job included; ``None``: the controller has none.

    Raises ``HttpError``. A job that another user has been given is found by its lineage.
    """
    states = await controller.states([each.job_id for each in meant])
    for each in meant:
        if each.job_id in states:
            seen = await _job_named(controller, each.job_id)
            if each.own or seen.request.variables.get(LAUNCH_ID) == launch_id:
                return seen
    for name in dict.fromkeys(each.name for each in meant):
        for job in await controller.jobs_named(name):
            seen = await _job_named(controller, job.id)
            told = seen.request.variables
            if told.get(LAUNCH_ID) == launch_id and related(tag_of(run), told.get(LINEAGE, "")):
                return seen
    return None


async def _job_named(controller: Controller, job_id: str) -> NamedIrisJob:
    document = await controller.status(job_id)
    return NamedIrisJob(answers.job_of(document.get("job")), answers.request_of(document))


async def _submits(launch_id: str) -> bool:
    """Tell whether a client that submits this launch runs on this machine.

    Raises ``LostError`` where the machine does not tell: one that runs may submit yet.
    """
    try:
        processes = await offload(census, deadline=TABLE)
    except OSError as error:  # a Mac lists no processes
        text = "whether its client still runs on this machine cannot be seen"
        raise LostError(f"{text}: {error.strerror or NO_ANSWER}") from None
    return any(one.variable(SUBMITS) == launch_id for one in processes.values())


def _lookup_of(launch_id: str, seen: NamedIrisJob) -> LookUp:
    """Return what a job under the name of a launch says of it."""
    job, phase = seen.job, answers.phase_of(seen.job)
    if is_closing(seen.request):
        return absent(f"the name {launch_id} was closed by a look-up: no job can come under it")
    waits, reason = phase is Phase.WAITING, ""
    if waits:
        reason = (
            answers.waiting_of(job).text if job.state == answers.PENDING else answers.counted(job)
        )
    more = job.error if phase.terminal else reason
    text = f"{job.id} is {job.state.removeprefix('JOB_STATE_')}" + (f": {more}" if more else "")
    why = shown(reason or "waiting for the scheduler") if waits else None
    lives, bundle = not phase.terminal, seen.request.bundle or None
    return looked_up(job.id, shown(text), lives=lives, waits_for=why, bundle=bundle)
