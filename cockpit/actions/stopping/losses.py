"""What a stop would cost and cancel: unsaved steps, saves on request, successors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from cockpit.actions.checks.jobs import QUEUED, job_name, queued_jobs
from cockpit.actions.core.action import (
    ActionContext,
    Execution,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    plural,
    safe,
)
from cockpit.actions.core.execution import STOPS, ids_in, order
from cockpit.model import check_rows as rows
from cockpit.model.clock import Clock
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import CheckpointState
from cockpit.model.place import SSH
from cockpit.model.plan import Check, Loss
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.model.wording import duration, steps
from cockpit.runtime.moment import Awake
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Anew, nothing_there
from cockpit.text.checks import blocked, passed, warned

LOST: Final = "lost"
"""The fact that says what was really lost, measured when the job had ended."""
GAPS: Final = 5
"""How many of the last gaps between checkpoints tell how far apart they are."""


def lost_of(report: RunReport) -> Loss | None:
    """Return what has been done since the last complete checkpoint, in steps and about in time.

    A step that only a checkpoint tells is no count of those after it: then how many is not said.
    """
    progress, value = report.progress, report.facets.checkpoints.value
    step, source = progress.step, progress.step_source or ""
    saved = None if value is None else value.latest_complete
    if step is None or not report.facets.checkpoints.known:
        return None
    since = f"since step {steps(saved)}" if saved is not None else "all: nothing is complete"
    if saved is not None and (step < saved or source.startswith("checkpoints")):
        text = f"what came after step {steps(saved)} (no step seen since)"
        return Loss(count=0, text=text, worth=worth_of(report))
    return loss_of(report, step if saved is None else step - saved, since)


def loss_of(report: RunReport, count: int, since: str) -> Loss:
    """Return so many lost steps as a loss: with their time, and a checkpoint's worth beside."""
    return Loss(count=count, text=counted(report, count, since), worth=worth_of(report))


def worth_of(report: RunReport) -> int | None:
    """Return how many steps lie between two checkpoints: as seen, else by the save interval."""
    value, spec = report.facets.checkpoints.value, report.spec.checkpoints
    done = [item.step for item in (value.items if value is not None else ()) if item.step]
    gaps = [late - early for early, late in pairwise(sorted(set(done))) if late > early][-GAPS:]
    if gaps:
        return sorted(gaps)[len(gaps) // 2]
    usual = report.usual_step_s
    every = spec.save_every if spec is not None else None
    return max(1, round(every / usual)) if every and usual else None


def counted(report: RunReport, count: int, since: str) -> str:
    """Return steps and, where their usual pace is known, about how long they take."""
    usual = report.usual_step_s
    about = f" (≈ {duration(count * usual)})" if usual and count else ""
    return f"{plural(count, 'step')} {since}{about}"


HERE_EVERY: Final = 0.5
HOST_EVERY: Final = 3.0
BUCKET_EVERY: Final = 10.0
"""Seconds between two looks: each is a listing that somebody pays for."""
LIVES_EVERY: Final = 10.0
"""Seconds between two looks at whether what was asked to save still lives."""

Known = Mapping[tuple[str, float | None], int]
"""Complete checkpoints by place and time, with their steps."""


class SavesUnknownError(Exception):
    """What is complete cannot be told just now; the text is one line."""


class NoSaveError(Exception):
    """No new checkpoint came; the text is one line."""


class Saves:
    """The complete checkpoints of one run, looked at again and again through one listing."""

    def __init__(self, run: RunSpec, clock: Clock) -> None:
        self._roots = run.checkpoints.path if run.checkpoints is not None else ()
        self._anew = Anew(run, clock)
        self._clock = clock
        by_signal = run.job is not None and run.job.save_signal is not None
        self._doubt = "does it know the signal?" if by_signal else "did that end it?"

    @property
    def every(self) -> float:
        """Seconds after which to look again: gentler the farther the roots are."""
        pace = (
            HERE_EVERY if root.here else HOST_EVERY if root.scheme == SSH else BUCKET_EVERY
            for root in self._roots
        )
        return max(pace, default=HERE_EVERY)

    async def complete(self) -> Known:
        """Return the complete checkpoints by place and time, with their steps.

        Raises ``SavesUnknownError``; roots that do not exist (yet) hold none.
        """
        if not self._roots:
            return {}
        try:
            value = await self._anew.look(alive=None)
        except (OSError, ValueError, TimeoutError, ListingError) as error:
            if nothing_there(error):
                return {}
            raise SavesUnknownError(safe(error)) from error
        done = [item for item in value.items if item.state is CheckpointState.COMPLETE]
        return {(item.path, item.saved_at): item.step for item in done if item.step is not None}

    async def new(self, before: Known, within: float, lives: Callable[[], Awaitable[bool]]) -> int:
        """Return the step of a complete checkpoint that was none ``before``.

        Raises ``NoSaveError`` after ``within`` seconds, and soon after nothing ``lives`` any more:
        a trainer that does not know the signal dies of it.
        """
        until = Awake(within, within / 2, self._clock.monotonic)
        begun = self._clock.monotonic()
        ended, unseen, due = False, "", begun + LIVES_EVERY
        while until.left() > 0 and not ended:
            if self._clock.monotonic() >= due:
                ended, due = not await lives(), self._clock.monotonic() + LIVES_EVERY
            step, unseen = await self._newest(before)
            if step is not None:
                return step
            await self._clock.sleep(min(self.every, max(0.1, until.left())))
        if ended:
            waited = duration(self._clock.monotonic() - begun)
            text = f"the job ended within {waited} of being asked to save ({self._doubt})"
            raise NoSaveError(f"{text}; no new checkpoint is complete{unseen}")
        text = f"no new checkpoint was complete within {duration(within)}{unseen}"
        raise NoSaveError(f"{text}; nothing was stopped: try again, or without saving first")

    async def _newest(self, before: Known) -> tuple[int | None, str]:
        """Return the newest step that was not complete ``before``, or why that cannot be told."""
        try:
            now = await self.complete()
        except SavesUnknownError as error:
            return None, f" (the last look: {error})"
        return max((now[each] for each in now.keys() - before.keys()), default=None), ""


SUCCESSORS: Final = "successors"
"""The option of a stop, and the fact that holds the ids of what is cancelled."""
OPTION: Final = f"--{SUCCESSORS} yes"


def to_cancel(context: ActionContext, *, wanted: bool) -> tuple[LiveJob, ...]:
    """Return what is cancelled with the job: what can be, where that is asked for.

    Waiting tasks of the very array that is stopped always: its number means all of them.
    """
    return tuple(
        job
        for job in queued_jobs(context)
        if (wanted or goes_with_it(context, job)) and why_not(job) is None
    )


def left_alone(context: ActionContext, *, wanted: bool) -> tuple[LiveJob, ...]:
    """Return what starts by itself after the stop."""
    ends = {job.id for job in to_cancel(context, wanted=wanted)}
    return tuple(job for job in queued_jobs(context) if job.id not in ends)


def only_these(facts: Mapping[str, str]) -> bool:
    """Tell whether a stop ends nothing that runs: only what would start by itself."""
    return bool(facts.get(SUCCESSORS)) and facts[SUCCESSORS] == facts.get(STOPS)


def goes_with_it(context: ActionContext, job: LiveJob) -> bool:
    """Tell whether a queued job is a part of one that lives, and ends when that is stopped."""
    return job.part_of is not None and job.part_of in {each.id for each in context.live.jobs}


def may_cancel(context: ActionContext) -> bool:
    """Tell whether there is something to cancel, and all of it can be."""
    queued = queued_jobs(context)
    return bool(queued) and all(why_not(job) is None for job in queued)


def why_not(job: LiveJob) -> str | None:
    """Return why a queued job cannot be cancelled from here; ``None``: it can."""
    return job.beyond if job.beyond or job.handle else "end it yourself"


def checks(context: ActionContext, *, wanted: bool) -> Iterator[Check]:
    """Yield what is said of each that starts by itself after the job."""
    facet = context.report.facets.job
    if wanted and facet.error is not None:
        text = f"cannot tell what starts by itself after it: {facet.error.message}"
        yield blocked(rows.QUEUED, text)
        return
    queued = queued_jobs(context)
    if wanted and not queued:
        yield passed(rows.QUEUED, "nothing starts by itself after it")
    for job in queued:
        why, what = why_not(job), f"{job_name(job)} ({job.why})"
        if wanted and why is not None:
            yield blocked(rows.QUEUED, f"{what} cannot be cancelled from here: {why}")
        elif wanted:
            yield passed(rows.QUEUED, f"{what} is cancelled first", value=job.id)
        elif why is None and goes_with_it(context, job):
            text = f"{what} is cancelled too: a stop of {job.part_of} ends all of its tasks"
            yield warned(rows.QUEUED, text, value=job.id)
        else:
            ends = why or f"{OPTION} cancels it too"
            text = f"{what} starts by itself after it, and is not stopped by this; {ends}"
            if job.needs_success:
                text = f"{what} waits for its success: it never starts once this is stopped; {ends}"
            yield warned(rows.QUEUED, text, value=job.id)
    named = " ".join(job.why for job in queued)
    for job in context.live.jobs:
        if job.starter is not None and job.starter not in named:
            text = f"{job_name(job)} was started by {job.starter}; if that starts it again,"
            yield warned(rows.QUEUED, f"{text} end that first", value=job.id)


def facts(context: ActionContext, *, wanted: bool) -> dict[str, str]:
    """Return, for steps and records, what is cancelled and what starts by itself afterwards."""
    cancelled = to_cancel(context, wanted=wanted)
    told = {SUCCESSORS: "\n".join(job.id for job in cancelled)} if cancelled else {}
    names = _starting(left_alone(context, wanted=wanted))
    return told | ({QUEUED: names} if names else {})


def _starting(jobs: Iterable[LiveJob]) -> str:
    """Return the names of those that start once the job is stopped."""
    return safe(", ".join(job_name(job) for job in jobs if not job.needs_success))


async def cancel(execution: Execution) -> str:
    """Cancel what waits behind the job, the last first; nothing is stopped if one is left."""
    found, came = await _waiting(execution)
    if came:
        await execution.note(**{QUEUED: _starting(came)})
    if not found:
        raise SkipStep("none of them is waiting any more")
    await order(execution, found)
    run, platform = execution.context.spec, execution.context.acting_platform
    assert platform is not None
    for job in reversed(found):
        await platform.stop(run, [job])
    left, _ = await _waiting(execution)
    if left:
        names = ", ".join(map(job_name, left))
        raise StepError(f"still there after it was cancelled: {names}; the job was not stopped")
    names = ", ".join(map(job_name, found))
    return f"{plural(len(found), 'job')} cancelled that would have started by itself: {names}"


async def cancelled(execution: Execution) -> str | None:
    """Return that none of what was to be cancelled waits any more, if that is so."""
    found, _ = await _waiting(execution)
    return None if found else "nothing that was to be cancelled is waiting"


async def _waiting(execution: Execution) -> tuple[tuple[LiveJob, ...], tuple[LiveJob, ...]]:
    """Return what of the plan waits now, and what has come to wait since."""
    facet = (await execution.context.parts.look(execution.context.spec.name)).facets.job
    if facet.error is not None or facet.value is None:
        why = "no job is told of" if facet.error is None else facet.error.message
        raise StepUnknownError(f"cannot tell now what starts by itself: {why}")
    wanted = ids_in(execution.plan.facts, SUCCESSORS)
    ours = tuple(job for job in facet.value.queued if job.id in wanted)
    return ours, tuple(job for job in facet.value.queued if job.id not in wanted)


CANCEL: Final = Step(SUCCESSORS, cancel, seen=cancelled)
"""The step of a stop that comes before the job is told to end, where that is asked for."""
