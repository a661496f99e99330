"""What happens before and when jobs are stopped: evidence, a last checkpoint, the stop (A-5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.action import Doing, SkipStep, StepError, StepUnknownError
from cockpit.actions.backend import Backend, CannotError
from cockpit.actions.evidence import archive
from cockpit.actions.saying import plural, safe
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import CheckpointState
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.model.words import duration, steps
from cockpit.sources.checkpoints import list_checkpoints
from cockpit.sources.offload import offload

STOPS: Final = "stops"
SAVED_WITHIN: Final = 120.0
LOOK_EVERY: Final = 0.5
DEADLINE: Final = 15.0


def can_save(run: RunSpec) -> bool:
    """Return whether the run file names a way to ask the trainer for a checkpoint."""
    job = run.job
    return job is not None and (job.save_signal is not None or job.save_command is not None)


async def evidence(doing: Doing) -> str:
    """Archive log, orchestrator's answer and device state before anything is stopped (SPEC A)."""
    ground, jobs = doing.ground, await _mine(doing)
    live = ground.live.model_copy(update={"jobs": jobs})
    archived = await archive(ground.spec, ground.report, _backend(doing), live)
    await doing.note(evidence=safe(archived.path or "none could be kept"))
    return archived.text


async def save_first(doing: Doing) -> str:
    """Ask for a checkpoint and wait until one is complete; without it nothing is stopped."""
    if doing.facts.get("save-first") != "yes":
        raise SkipStep("not asked for")
    run = doing.ground.spec
    before = await _complete(run)
    for job in await _mine(doing):
        await _backend(doing).save(run, job)
    clock = doing.ground.parts.clock
    until = clock.monotonic() + SAVED_WITHIN
    while clock.monotonic() < until:
        now = await _complete(run)
        new = [now[each] for each in now.keys() - before.keys()]
        if new:
            await doing.note(saved=steps(max(new)))
            return f"a checkpoint was saved at step {steps(max(new))}"
        await clock.sleep(LOOK_EVERY)
    wait = duration(SAVED_WITHIN)
    raise StepError(f"no new checkpoint was complete within {wait}; nothing was stopped")


async def stop(doing: Doing) -> str:
    """Stop exactly the jobs of the plan that still live, and see that they are gone."""
    run, jobs = doing.ground.spec, await _mine(doing)
    if not jobs:
        raise SkipStep("they ended by themselves meanwhile")
    await doing.note(**{STOPS: "\n".join(job.id for job in jobs)})
    backend = _backend(doing)
    await backend.stop(run, jobs)
    after = await backend.live(run)
    left = [job.name for job in after.jobs if job.id in {each.id for each in jobs}]
    if left:
        raise StepError(f"still alive after the stop: {', '.join(left)}")
    if after.unknown is not None:
        raise StepUnknownError(f"stopped, but whether it is gone is not known: {after.unknown}")
    return f"{plural(len(jobs), 'job')} stopped: {', '.join(job.name for job in jobs)}"


async def _mine(doing: Doing) -> tuple[LiveJob, ...]:
    """Return the jobs of the plan that are alive now: nothing that appeared since."""
    wanted = doing.plan.facts.get(STOPS, "").split("\n")
    live = await _backend(doing).live(doing.ground.spec)
    if live.unknown is not None:
        raise StepError(f"which jobs are alive is not known: {live.unknown}")
    return tuple(job for job in live.jobs if job.id in wanted)


def _backend(doing: Doing) -> Backend:
    found = doing.ground.backend
    if found is None:
        raise CannotError("this version has no way to act on this kind of job")
    return found


async def _complete(run: RunSpec) -> dict[tuple[str, float | None], int]:
    """Return the complete checkpoints by place and time, with their steps."""
    spec = run.checkpoints
    paths: Sequence[str] = (
        () if spec is None else [place.path for place in spec.path if _there(place)]
    )
    if spec is None or not paths:
        return {}
    try:
        value = await offload(
            lambda: list_checkpoints(paths, spec.layout, spec.custom, now=0.0), deadline=DEADLINE
        )
    except (OSError, ValueError, TimeoutError):
        return {}
    done = [item for item in value.items if item.state is CheckpointState.COMPLETE]
    return {(item.path, item.saved_at): item.step for item in done if item.step is not None}


def _there(place: Place) -> bool:
    return place.here and Path(place.path).expanduser().is_dir()
