"""Which job is the run's current one (INTERFACE, "The current job")."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.run import RunSpec
from cockpit.model.told import LAUNCHED
from cockpit.platforms.base import Platform
from cockpit.watch.runstate import RunState

_LAUNCH: Final = re.compile(r"(?P<run>.+)-i\d{1,6}")


def with_current_job(
    run: RunSpec, state: RunState, platform: Platform | None
) -> tuple[RunSpec, str | None]:
    """Return the run with its newest job id, and who named it (``None``: the run file).

    The newest of the last launch in the store and the monitor's state file wins; both beat
    ``job.id``. When they name another job than ``job.id``, the text says so. A launch of another
    run, told in a logbook that both write to, is none of this one's.
    """
    if run.job is None or platform is None or platform.found_by_files:
        return run, None
    named = sorted(_named(state), reverse=True)
    if not named or named[0][1] == run.job.id:
        return run, None
    _, job_id, who = named[0]
    said = f"{who} ({run.job.id} in the run file)" if run.job.id is not None else who
    job = run.job.model_copy(update={"id": job_id})
    return run.model_copy(update={"job": job}), said


def _of(run: str, launch_id: str) -> bool:
    """Tell whether a launch may be a run's: its id begins with the run's name (SPEC A)."""
    made = _LAUNCH.fullmatch(launch_id)
    return made is None or made["run"] == run


def _named(state: RunState) -> list[tuple[float, str, str]]:
    found: list[tuple[float, str, str]] = []
    launch = state.shared.launch
    if launch is not None:
        found.append((launch.at, launch.job_id, "the last launch in the store"))
    for told in state.told:
        job = told.parts.get("job")
        if told.what == LAUNCHED and job and _of(state.spec.name, told.value):
            where = f"a launch by {told.typed_by}, told in the {told.source}"
            found.append((told.at, job, where))
    monitor = state.facets.monitor.value
    if monitor is not None and monitor.job_id and monitor.last_update is not None:
        if monitor.job_id == monitor.retired and found:
            return found  # it goes on writing, and has not heard of the relaunch yet
        found.append((monitor.last_update, monitor.job_id, "the monitor's state file"))
    return found
