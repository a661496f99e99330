"""Launches, stops and saves of jobs on Iris (SPEC A)."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from cockpit.model.jobs import Accepted, LaunchState, LiveJob, LookUp, Submission
from cockpit.model.lineage import keys_of, tag_of
from cockpit.model.observed import Phase
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import resolved
from cockpit.platforms.iris import spelling
from cockpit.platforms.iris.answers import Job, job_of, phase_of, request_of
from cockpit.platforms.iris.jobs import CONTROL, IrisJobs
from cockpit.platforms.iris.lineage import SUBMITTED, submitted
from cockpit.platforms.iris.lookup import LOOKUP_WITHIN, IrisLookUps, NamedIrisJob, find
from cockpit.platforms.iris.memory import OFFERS
from cockpit.platforms.iris.rpc import Controller
from cockpit.platforms.iris.spelling import (
    Spelled,
    failure_text,
    is_usage,
    parts_of,
    spelled,
    submitted_id,
    with_variables,
)
from cockpit.platforms.iris.trees import LAUNCH_ID, LINEAGE, belongs_to, is_closing, is_job_id
from cockpit.platforms.local.programs import SUBMITS
from cockpit.platforms.protocol import EndingJobs
from cockpit.runtime.http import HttpError, LostAnswerError, server_message
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed, run_command
from cockpit.text.scrub import shown

SUBMIT: Final = 180.0
"""Seconds that the command is given: it may have to set up its environment first."""
FILES: Final = 10.0
OUTPUT: Final = 1 << 20
RUN: Final = "COCKPIT_RUN"
NONCE: Final = "COCKPIT_SUBMISSION"
"""Tells two submissions of one launch id apart: one of them made the job."""
ANY_ADMIN: Final = "admin"
HEADER: Final = "X-Levanter-Training-Control"
REQUEST: Final = "request-checkpoint"
NONE: Final = "the trainer offers no training control: it cannot be asked for a checkpoint"


class _Ready(NamedTuple):
    """A command as it is run: words, folder, and what is added to our own environment."""

    words: tuple[str, ...]
    folder: str
    env: Mapping[str, str]


class IrisLaunches(IrisLookUps):
    """What acts on the jobs of Iris controllers.

    What keeps "at most once" here is a job's name, which is the launch id.
    """

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if a job can be named by it."""
        return spelling.name_for(launch_id)

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words with the job's name and user, which the client would make up."""
        return spelling.formed(words, run, launch_id)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against an Iris command (SPEC A-2)."""
        return spelling.command_checks(run, words)

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what ends these jobs and what is below them, by their workers' own word."""
        return EndingIrisJobs(run, jobs, self._jobs)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that the trainer offers no training control, if so."""
        return None if job.handle.get(CONTROL) else NONE

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask the trainer to save after its current step."""
        offering = job.handle.get(CONTROL)
        if not offering:
            raise CannotError(NONE)
        try:
            controller = await self._jobs.acting(run)
            answer = await controller.post(
                f"proxy/{page_of(offering)}/checkpoint", {HEADER: REQUEST}
            )
        except LostAnswerError as error:
            raise LostError(f"cannot tell whether {offering} was asked to save: {error}") from None
        except (HttpError, TimeoutError) as error:
            raise CannotError(f"{offering} was not asked to save: {error}") from None
        if answer.status not in (200, 202):  # what the trainer did not take in it will not do
            text = f"{offering} was not asked to save: {answer.host} answered {answer.status}"
            raise CannotError(f"{text}{server_message(answer.body)}")

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Draw a nonce that tells whose a job is; nothing is sent before ``go``."""
        nonce, meant = secrets.token_hex(8), spelled(run, submission.launch_id, submission.command)
        return Accepted(id=meant.job_id, submission=submission, handle={NONCE: nonce})

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Run the command and return the id of its job; raises as ``Platform.go`` does."""
        submission, nonce = accepted.submission, accepted.handle.get(NONCE, "")
        launch_id = submission.launch_id
        ready = await self._ready(run, submission, nonce)
        meant = spelled(run, launch_id, submission.command)
        done = await run_command(
            ready.words, deadline=SUBMIT, cwd=ready.folder, env=ready.env, cap=OUTPUT
        )
        job_id = await self._outcome(run, submission, meant, nonce, done)
        await self._first(run, launch_id, job_id)
        return job_id

    async def _ready(self, run: RunSpec, submission: Submission, nonce: str) -> _Ready:
        """Return the command as it is run here; raises ``CannotError`` for what is missing."""
        for_job = {LAUNCH_ID: submission.launch_id, RUN: submission.run, LINEAGE: tag_of(run)}
        for_job |= {NONCE: nonce, **submission.env}
        given = {**submission.env, SUBMITS: submission.launch_id}
        own = run.job.workdir if run.job is not None else None
        own = own or run.workdir
        folder = submission.workdir or (None if own is None else own.path) or os.getcwd()  # noqa: PTH109
        words = with_variables(submission.command, for_job)
        full = resolved(words, given)
        if not parts_of(words).calls_iris:  # a script takes its variables from ours
            given |= for_job
        try:
            await offload(_check_program, full, folder, deadline=FILES)
        except TimeoutError as error:
            raise CannotError(f"the folder {shown(folder, 200)} does not answer") from error
        return _Ready(full, folder, given)

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """See that the command can be run and that its name is free; raises ``CannotError``."""
        launch_id = submission.launch_id
        if not keys_of(run):
            raise CannotError("no output root and no W&B id in cockpit.toml to guard the run by")
        if launch_id in self._closed:
            raise CannotError(f"{launch_id} was looked up and closed: it is never started")
        await self._ready(run, submission, "")
        meant = spelled(run, launch_id, submission.command)
        controller = await self._jobs.acting(run)
        async with asyncio.timeout(LOOKUP_WITHIN):
            user, role = await controller.user()
            wanted = meant.job_id.split("/")[1]
            if role != ANY_ADMIN and user != wanted:
                text = f"the controller knows us as {user} and would not let us launch as {wanted}"
                raise CannotError(f"not started: {text}")
            seen = await find(controller, run, launch_id, [meant])
            if seen is None and not meant.own:
                seen = await _of_fixed_name(controller, meant)
        if seen is not None and is_closing(seen.request):
            raise CannotError(f"{launch_id} was looked up and closed: it is never started")
        if seen is not None:
            word = seen.job.state.removeprefix("JOB_STATE_")
            raise CannotError(f"not started: the name is taken: {seen.job.id} is {word}")

    async def _outcome(
        self, run: RunSpec, submission: Submission, meant: Spelled, nonce: str, done: Completed
    ) -> str:
        """Return the id of the job that a command has made; raises as ``Platform.go`` does."""
        launch_id, err = submission.launch_id, done.err.decode("utf-8", "replace")
        if done.timed_out:
            text = f"the command did not end within {SUBMIT:g} s and was killed"
            raise LostError(_with_words(text, err, done.text))
        if done.ok:
            job_id = submitted_id(done.text, err, meant)
            if job_id is None:
                raise LostError("the command ended well and named no job of this launch")
            return job_id
        said = _with_words(f"the command ended with {done.rc}", err, done.text)
        if is_usage(done.rc, err):
            raise CannotError(said)
        found = await self.look_up(run, launch_id)
        if found.found is LaunchState.UNKNOWN:
            raise LostError(f"{said}; {found.text}")
        if found.found is LaunchState.ABSENT or found.job_id is None:
            raise CannotError(f"{said}; {found.text}")
        return await self._whose(run, found, nonce, said)

    async def _whose(self, run: RunSpec, found: LookUp, nonce: str, said: str) -> str:
        """Return a job's id if this submission made it; raises ``CannotError`` if another did."""
        assert found.job_id is not None
        try:
            controller = await self._jobs.acting(run)
            async with asyncio.timeout(LOOKUP_WITHIN):
                document = await controller.status(found.job_id)
        except (HttpError, TimeoutError) as error:
            raise LostError(f"{said}; whose {found.job_id} is cannot be told: {error}") from None
        if request_of(document).variables.get(NONCE) == nonce:
            return found.job_id
        raise CannotError(f"another submission has made {found.job_id}: {said}")

    async def _first(self, run: RunSpec, launch_id: str, job_id: str) -> None:
        """End our own job if another launch of the lineage was there before it.

        Two cockpits that do not see each other may give out two launch ids at one moment: both
        look once their own job is there, and by the controller's order the later one ends itself.
        """
        live = (await self.live([run]))[run.name]
        mine = next((job for job in live.jobs if job.id == job_id), None)
        others = [job for job in live.jobs if job.id != job_id and job.launch_id is not None]
        if mine is None or not others:
            return
        ahead = [job for job in others if _order(job.handle, job.id) < _order(mine.handle, job_id)]
        if not ahead:
            return
        try:
            controller = await self._jobs.acting(run)
            await controller.terminate(job_id)
        except (HttpError, TimeoutError) as error:
            text = f"{ahead[0].id} was there first, and whether {job_id} has ended is not known"
            raise LostError(f"{text}: {shown(error)}") from None
        raise CannotError(f"{ahead[0].id} was launched first: {launch_id} was ended again")


def _order(handle: Mapping[str, str], job_id: str) -> tuple[float, str]:
    try:
        return float(handle.get(SUBMITTED, "")), job_id
    except ValueError:
        return float("inf"), job_id


async def _of_fixed_name(controller: Controller, meant: Spelled) -> NamedIrisJob | None:
    """Return the job that has a fixed name, if it lives: one that ended is replaced."""
    if meant.job_id not in await controller.states([meant.job_id]):
        return None
    document = await controller.status(meant.job_id)
    job = job_of(document.get("job"))
    lives = phase_of(job).lives or phase_of(job) is Phase.UNKNOWN
    return NamedIrisJob(job, request_of(document)) if lives else None


def _with_words(text: str, err: str, out: str) -> str:
    said = shown(failure_text(err, out), 400)
    return f"{text}: {said}" if said else text


def _check_program(words: Sequence[str], folder: str) -> None:
    """Raise ``CannotError`` if the folder or the program is not there. Blocking."""
    if not Path(folder).is_dir():
        raise CannotError(f"the working folder {shown(folder, 200)} does not exist")
    program = words[0]
    found = Path(folder, program) if "/" in program else shutil.which(program)
    if found is None or not os.access(found, os.X_OK):
        raise CannotError(f"{shown(program, 200)} is no program that can be run from {folder}")


ASK_WITHIN: Final = 20.0
"""Seconds that telling one job to end may take."""
SLACK: Final = 60.0
"""Seconds beyond the job's grace within which its workers must have said that it ended."""
PAGES: Final = 3
NO_ANSWER: Final = "the controller did not answer in time"


class EndingIrisJobs(EndingJobs):
    """Jobs that are told to end, with what is below them, until their workers say that it ended."""

    slack: ClassVar[float] = SLACK
    every = 1.0

    def __init__(self, run: RunSpec, jobs: Sequence[LiveJob], cluster: IrisJobs) -> None:
        for job in jobs:
            if not is_job_id(job.id):
                raise CannotError(f"{shown(job.id, 80)} is not an Iris job")
        self._run = run
        self._left = list(jobs)
        self._due: list[str] = []
        self._heard: set[tuple[str, bool]] = set()
        self._cluster = cluster

    async def left(self) -> Sequence[str]:
        """Return what has not ended; a job that has another execution now has."""
        self._due = []
        left: list[tuple[LiveJob, str]] = []
        try:
            controller = await self._cluster.acting(self._run)
            for job in self._left:
                async with asyncio.timeout(ASK_WITHIN):
                    now = job_of((await controller.status(job.id)).get("job"))
                    # names are used again: by another execution this one has ended
                    told = job.handle.get(SUBMITTED)
                    same = not told or now.submitted_at is None or told == submitted(now)
                    why = await _living(controller, now) if same else ""
                if why:
                    left.append((job, why))
                    self._due += [] if phase_of(now).terminal else [job.id]
        except (HttpError, TimeoutError) as error:
            raise LostError(shown(error) or NO_ANSWER) from None
        self._left = [job for job, _ in left]
        return [why for _, why in left]

    async def tell(self, *, late: bool) -> None:
        """Tell each to end that has not ended by the controller's word.

        Once, and once more when its grace is over: a controller that began anew may have lost it.
        """
        for job_id in [each for each in self._due if (each, late) not in self._heard]:
            try:
                controller = await self._cluster.acting(self._run)
                await controller.terminate(job_id)
            except LostAnswerError as error:
                self.told = True
                text = f"cannot tell whether {job_id} was told to stop: {error}"
                raise LostError(text) from None
            except (HttpError, TimeoutError) as error:
                why = f"{job_id} was not told to stop: {shown(error) or NO_ANSWER}"
                raise self.unreached(why) from None
            self.told = True
            self._heard.add((job_id, late))


async def _living(controller: Controller, first: Job) -> str:
    """Return what of a job and all below it has not ended, empty if nothing; raises."""
    listed = await controller.jobs(f"{first.id}/", pages=PAGES)
    own = [first, *(job for job in listed if belongs_to(job.id, first.id))]
    lives = next((job for job in own if not phase_of(job).terminal), None)
    if lives is not None:
        return f"{lives.id} is {lives.state.removeprefix('JOB_STATE_')}"
    for job in own:
        for task in await controller.tasks(job.id):
            if task.placed and task.finished_at is None:
                return f"the worker of {task.id} has not said that it ended"
    return ""


def page_of(job_id: str) -> str:
    """Return the name of a job's training control behind the controller's proxy."""
    return job_id.strip("/").replace("/", ".") + OFFERS.replace("/", ".")
