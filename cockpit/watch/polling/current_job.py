"""Which job is the run's current one (INTERFACE, "The current job")."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cockpit.model.run import RunSpec
from cockpit.model.told import ADOPTED, LAUNCHED
from cockpit.platforms.base import Platform
from cockpit.watch.runstate import RunState

_LAUNCH: Final = re.compile(r"(?P<run>.+)-i\d{1,6}")


class _Named(NamedTuple):
    """A job that somebody has named: when, which, and who says so.

    ``file_id`` is what the run file named then; ``None``: not known.
    """

    at: float
    job_id: str
    who: str
    file_id: str | None = None


def with_current_job(
    run: RunSpec, state: RunState, platform: Platform | None
) -> tuple[RunSpec, str | None]:
    """Return the run with its newest job id, and who named it (``None``: the run file).

    The newest of the last launch or adoption and of the monitor's state file wins over
    ``job.id``, unless that was edited after that launch: then the run file names the newest. When
    they name another job than ``job.id``, the text says so. A launch of another run, told in a
    logbook that both write to, is none of this one's.
    """
    if run.job is None or platform is None or platform.found_by_files:
        return run, None
    started, newest = _started(state), _newest(state)
    if newest is None or newest.job_id == run.job.id:
        return run, None
    if started is not None and _edited(run.job.id, started):
        return run, f"the run file, edited after {started.who} ({started.job_id})"
    who = newest.who
    said = f"{who} ({run.job.id} in the run file)" if run.job.id is not None else who
    job = run.job.model_copy(update={"id": newest.job_id})
    return run.model_copy(update={"job": job}), said


def _edited(job_id: str | None, started: _Named) -> bool:
    """Tell whether ``job.id`` is another one than when a job was last started or adopted."""
    return job_id is not None and started.file_id is not None and job_id != started.file_id


def _of(run: str, launch_id: str) -> bool:
    """Tell whether a launch may be a run's: its id begins with the run's name (SPEC A)."""
    made = _LAUNCH.fullmatch(launch_id)
    return made is None or made["run"] == run


def _started(state: RunState) -> _Named | None:
    """Return the last job that a cockpit started or adopted, as the store or the records say."""
    found = []
    launch = state.shared.launch
    if launch is not None:
        what = "launch" if launch.launch_id else "adoption"
        who = f"the last {what} in the store"
        found.append(_Named(launch.at, launch.job_id, who, launch.file_id))
    for told in state.told:
        job = told.value if told.what == ADOPTED else told.parts.get("job")
        launched = told.what == LAUNCHED and _of(state.spec.name, told.value)
        adopted = told.what == ADOPTED and told.parts.get("run") == state.spec.name
        if job and (launched or adopted):
            what = "a launch" if launched else "an adoption"
            found.append(
                _Named(told.at, job, f"{what} by {told.typed_by}, told in the {told.source}")
            )
    return max(found, key=lambda each: (round(each.at, 2), each.file_id is not None), default=None)


def _newest(state: RunState) -> _Named | None:
    started, monitor = _started(state), state.facets.monitor.value
    if monitor is None or not monitor.job_id or monitor.last_update is None:
        return started
    if monitor.job_id == monitor.retired and started is not None:
        return started  # it goes on writing, and has not heard of the relaunch yet
    told = _Named(monitor.last_update, monitor.job_id, "the monitor's state file")
    return told if started is None or told.at > started.at else started
