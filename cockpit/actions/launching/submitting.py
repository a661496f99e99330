"""The steps that start a job and see that it lives: the same for every action that launches.

What is submitted is noted in the journal before it is sent, and what was accepted before it is
let go: whoever finds a cockpit dead between the two looks the launch id up, which ends what waits
under it. An answer that is lost is looked up, by the launch id; what that does not settle stays
unknown, and is never sent again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NoReturn

from cockpit.actions.core.action import Execution, Step, StepError, StepUnknownError
from cockpit.actions.core.execution import Pace, look_up, settled, where_to_look
from cockpit.actions.core.recovery import ACCEPTED, DIED, HANDLE, handle_in
from cockpit.model.jobs import LaunchState, LookUp, Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import LostError
from cockpit.store.memory import Snapshot
from cockpit.store.store import StoreError, unpack
from cockpit.text.scrub import shown

SNAPSHOT: Final = "snapshot"
SUBMITTED_AT: Final = "submitted_at"
FILE_ID: Final = "file_id"
"""The fact that holds ``job.id`` as the run file has it: one that is edited later is newer."""
UNSEEN: Final = "unseen"
BUNDLE: Final = "bundle"
WAITS: Final = "waits"
SEEN_WITHIN: Final = 60.0
"""Seconds in which a job that was accepted must be found by its launch id."""
LIVES_FOR: Final = 3.0
"""Seconds for which it is watched: what cannot start at all dies at once."""
TAIL: Final = 3
_UNWRITTEN: Final = "the journal could not be written"


def snapshot_in(execution: Execution) -> Snapshot:
    """Return what was noted; raises ``StepError`` if another version of the cockpit noted it."""
    used = unpack(Snapshot, execution.facts.get(SNAPSHOT, "{}"))
    if used is None:
        raise StepError("the journal's record of what was launched cannot be read")
    return used


def submitted_at(execution: Execution) -> float:
    """Return when the job was sent, to the second of the journal."""
    return float(execution.facts.get(SUBMITTED_AT) or execution.entry.begun_at)


async def submit(
    execution: Execution, run: RunSpec, words: Sequence[str], env: dict[str, str] | None = None
) -> str:
    """Start the job under the action's launch id; at most once, whatever becomes of the answer."""
    platform = execution.platform
    now = execution.context.parts.clock.now()
    try:
        named = (run.job.id if run.job is not None else None) or ""
        await execution.note(**{SUBMITTED_AT: f"{now:.3f}", FILE_ID: named})
    except StoreError as error:
        raise StepError(f"nothing was submitted: {_UNWRITTEN}: {error}") from error
    workdir = run.job.workdir if run.job is not None else None
    submission = Submission(
        run=run.name,
        launch_id=execution.launch_id,
        command=tuple(words),
        workdir=None if workdir is None else workdir.path,
        env=env or {},
    )
    try:
        await _still_held(execution)
        accepted = await platform.accept(run, submission)
        try:
            await execution.note(**{ACCEPTED: accepted.id, HANDLE: json.dumps(accepted.handle)})
        except StoreError as error:
            await _closed(execution, run, f"{_UNWRITTEN}: {error}")
        execution.at("submit:accepted")
        lost = await execution.held.lost()
        if lost is not None:
            await _closed(execution, run, lost)
        execution.job_id = await platform.go(run, accepted)
    except (LostError, TimeoutError) as error:
        execution.job_id = await _settle_by_look_up(execution, run, str(error))
    try:
        await execution.note()
    except StoreError as error:
        said = f"started {execution.launch_id}: {execution.job_id}, but {_UNWRITTEN}: {error}"
        raise StepUnknownError(said) from error
    return f"started {execution.launch_id}: {execution.job_id}"


async def _still_held(execution: Execution) -> None:
    """See that the run is still ours before anything is sent; raises ``StepError``."""
    lost = await execution.held.lost()
    if lost is not None:
        raise StepError(f"not started: {lost}")


async def _closed(execution: Execution, run: RunSpec, lost: str) -> NoReturn:
    """End what was accepted and may not be let go: it is not ours any more, or not written down.

    Raises ``StepError`` when it is closed for good, ``StepUnknownError`` when that is not known.
    """
    found = await _settled(execution, run)
    if found.found is LaunchState.ABSENT:
        raise StepError(f"not started: {lost}; what was accepted is cancelled")
    raise StepUnknownError(f"not released: {lost}; looked up {execution.launch_id}: {found.text}")


async def _ask_platform(execution: Execution, run: RunSpec) -> LookUp:
    """Look the launch up by what the journal keeps of it; what never came is closed by looking."""
    platform, handle = execution.platform, handle_in(execution.facts)
    return await look_up(platform, run, execution.launch_id, handle)


async def _settled(execution: Execution, run: RunSpec) -> LookUp:
    """Look up until it is known, for a while: it may be starting at this very moment."""
    clock, handle = execution.context.parts.clock, handle_in(execution.facts)
    return await settled(execution.platform, run, execution.launch_id, clock, handle)


async def _settle_by_look_up(execution: Execution, run: RunSpec, why: str) -> str:
    found = await _settled(execution, run)
    said = f"the answer was lost ({why}); looked up {execution.launch_id}: {found.text}"
    if found.found is LaunchState.ABSENT:
        raise StepError(f"{said}; nothing was started")
    if found.found is LaunchState.UNKNOWN:
        accepted = execution.facts.get(ACCEPTED)
        where = where_to_look(execution.platform, run, execution.launch_id, accepted)
        raise StepUnknownError(f"{said}; {where}")
    return found.job_id or execution.launch_id


async def verify(execution: Execution, run: RunSpec) -> str:
    """See the job alive by its launch id, and that it does not die at once.

    One that was accepted and waits for its turn is a success too, however long it waits. Bad
    news is noted for the records first; ``confirm`` makes it the action's outcome.
    """
    clock, platform = execution.context.parts.clock, execution.platform
    pace = Pace(clock, platform)
    until = pace.until(SEEN_WITHIN)
    since: float | None = None
    found = LookUp(found=LaunchState.UNKNOWN, text="not looked up yet")
    while until.left() > 0:
        found = await _ask_platform(execution, run)
        if found.bundle and not execution.facts.get(BUNDLE):
            await execution.note(**{BUNDLE: shown(found.bundle)})
        if found.found is LaunchState.ENDED:
            return await _died(execution, found)
        if found.found is LaunchState.LIVE and found.waits:
            return await _waiting(execution, found)
        if found.found is LaunchState.LIVE:
            since = clock.monotonic() if since is None else since
            if clock.monotonic() - since >= LIVES_FOR:
                return f"it is alive: {found.text}"
        await pace.wait()
    text = f"no live job was found by its launch id: {found.text}"
    await execution.note(**{UNSEEN: shown(text)})
    return text


async def _waiting(execution: Execution, found: LookUp) -> str:
    text = f"accepted, waiting: {found.reason or found.text}"
    await execution.note(**{WAITS: shown(text)})
    return text


async def _died(execution: Execution, found: LookUp) -> str:
    report = await execution.context.parts.look(execution.context.spec.name)
    log = report.facets.log.value
    job = report.facets.job.value
    other = job is not None and job.id is not None and found.job_id not in (None, job.id)
    own = log if not other else None  # the look may still be at the job before
    lines = [line.plain for line in own.lines if line.plain.strip()][-TAIL:] if own else []
    text = f"it ended at once ({found.text})"
    text += f"; its log ends: {' | '.join(lines)}" if lines else ""
    await execution.note(**{DIED: shown(text, 2000)})
    return text


async def confirm(execution: Execution) -> str:
    """Make what ``verify`` saw the outcome, now that it is recorded."""
    if execution.facts.get(DIED):
        raise StepError(execution.facts[DIED])
    if execution.facts.get(UNSEEN):
        raise StepUnknownError(execution.facts[UNSEEN])
    if execution.facts.get(WAITS):
        return f"{execution.facts[WAITS]}; it is recorded"
    return "it is alive and recorded"


CONFIRM: Final = Step("confirm", confirm)
"""The last step of an action that launches."""
