"""What is written down of a launch: store, state file, logbook, issue; each at most once in effect.

All of these steps may be done again after a crash: they rest on the journal's facts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from cockpit.actions.action import Doing, SkipStep, Step, StepError
from cockpit.actions.launch_words import FIRST_CHECK, job_of, launch_comment, launch_event
from cockpit.actions.recording import (
    comment_step,
    event_name,
    instance_step,
    log_step,
)
from cockpit.actions.snapshot import instance_fields
from cockpit.actions.submitting import snapshot_in, submitted_at
from cockpit.model.history import FormerFailure
from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.model.run import RunSpec
from cockpit.sources.offload import offload
from cockpit.store.followups import Followup, FollowupStore
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.outcomes import Failures
from cockpit.store.snapshots import Snapshot, Snapshots
from cockpit.store.store import Store, unpack
from cockpit.watch.statefile import restarted

FAILURE: Final = "failure"
RESUMES_FROM: Final = "resumes_from"
FAILED_STEP: Final = "failed_step"
STOPPED: Final = "stopped"
STATE_FILE: Final = "state_file"
RESTARTS: Final = "restarts"
DEADLINE: Final = 10.0
RunOf = Callable[[Doing], RunSpec]


def own_key(doing: Doing) -> str:
    """Return the key of the run that the action is about."""
    return doing.ground.key


def own_run(doing: Doing) -> RunSpec:
    """Return the run that the action is about."""
    return doing.ground.spec


def record_steps(
    name: str,
    word: str,
    key: Callable[[Doing], str] = own_key,
    run: RunOf = own_run,
    *,
    instance: bool = True,
) -> tuple[Step, ...]:
    """Return the steps that write a launch of run ``name`` down; ``word`` is what it is called.

    ``key`` gives the key in the store of the run that was launched, ``run`` that run;
    ``instance``: it is an instance of the run whose logbook is written.
    """

    async def remember(doing: Doing) -> str:
        used, at = snapshot_in(doing), submitted_at(doing)
        launch = LaunchedJob(at=at, job_id=job_of(doing), launch_id=doing.entry.launch_id)
        await _stored(doing, lambda store: _remember(store, key(doing), launch, used))
        return f"{launch.launch_id} is {launch.job_id}"

    async def follow(doing: Doing) -> str:
        followup = _followup(doing, run(doing))
        await _stored(doing, lambda store: FollowupStore(store).add(key(doing), followup))
        return f"first check after {FIRST_CHECK}"

    message = f"{name}: log {word}"
    steps = (
        Step("record-launch", remember, records=True),
        Step("failure", _record_failure, records=True),
        Step("state-file", _state_file, records=True),
        Step("follow", follow, records=True),
        *((instance_step(_instance, message),) if instance else ()),
        log_step(launch_event(word), message),
    )
    return (*steps, comment_step(event_name, launch_comment(word)))


def trouble_step(name: str, word: str) -> Step:
    """Return the step that logs an action which failed before anything was started."""

    def entry(doing: Doing) -> EventEntry:
        stopped = bool(doing.facts.get(STOPPED))
        return EventEntry(
            title=f"{word} did not happen",
            at=doing.entry.begun_at,
            status="nothing is known to have been started"
            + ("; the job was stopped" if stopped else ""),
            evidence=doing.trouble or "",
            decision=f"{word} was ordered by {doing.entry.operator}",
            next="look at the journal, then plan again",
        )

    step = log_step(entry, f"{name}: log failed {word}", after_failure=True)

    async def run(doing: Doing) -> str | None:
        if doing.trouble is None or doing.job_id is not None:
            raise SkipStep("there is no trouble to log")
        return await step.run(doing)

    return replace(step, name="log-trouble", run=run)


def _remember(store: Store, key: str, launch: LaunchedJob, used: Snapshot) -> None:
    with store.writing():
        RunMemory(store).add_launch(key, launch)
        Snapshots(store).add(key, used.model_copy(update={"at": launch.at}))


async def _stored(doing: Doing, write: Callable[[Store], None]) -> None:
    """Write into the store, off the loop; raises ``StoreError``."""
    store = doing.ground.parts.store
    if store is None:
        raise StepError("there is no store to remember it in")
    kept = store
    await offload(lambda: write(kept), deadline=DEADLINE)


async def _record_failure(doing: Doing) -> str:
    failure = unpack(FormerFailure, doing.facts.get(FAILURE, ""))
    if failure is None:
        raise SkipStep("there is no failure to recover from")
    key = doing.ground.key
    kept = failure
    await _stored(doing, lambda store: Failures(store).add(key, kept))
    return f"recovers from {failure.name}"


async def _state_file(doing: Doing) -> str:
    """Count the restart and name the new job in the monitor's state file, if there is one."""
    path = doing.facts.get(STATE_FILE)
    if not path:
        raise SkipStep("the run has no monitor state file")
    restarts = int(doing.facts.get(RESTARTS) or 0)
    now = doing.ground.parts.clock.now()
    try:
        await offload(restarted, Path(path), job_of(doing), restarts, now, deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        raise StepError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return f"restart_count {restarts}, job_id {job_of(doing)}"


def _number(doing: Doing, name: str) -> int | None:
    text = doing.facts.get(name, "")
    return int(text) if text.isdigit() else None


def _followup(doing: Doing, run: RunSpec) -> Followup:
    return Followup(
        run=run.name,
        launch_id=doing.launch_id,
        job_id=job_of(doing),
        action=doing.plan.action,
        operator=doing.entry.operator,
        at=submitted_at(doing),
        entry=doing.entry.number,
        resumes_from=_number(doing, RESUMES_FROM),
        failed_step=_number(doing, FAILED_STEP),
    )


def _instance(doing: Doing) -> InstanceEntry:
    used = snapshot_in(doing)
    approved = next(
        (f"approved by {check.approved.by}" for check in doing.plan.checks
         if check.id == "C-15" and check.approved is not None), "",
    )  # fmt: skip
    fields = instance_fields(doing.ground.spec, used, approved)
    return InstanceEntry(launch_id=doing.launch_id, at=submitted_at(doing), fields=fields)
