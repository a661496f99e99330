"""What ``doctor`` says of an Iris controller: each is asked once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.iris.access import remedy_of
from cockpit.platforms.iris.backends import why_open
from cockpit.platforms.iris.rpc import ANYBODY, Controller
from cockpit.platforms.iris.trees import is_job_id, user_of
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean

SKEW: Final = 60.0
OCTOBER: Final = "of October 2026 or later"
JUNE: Final = "of June 2026"
REMEDIES: Final = {
    ErrorKind.FORBIDDEN: "ask for access to the cluster, or use another account's token",
    ErrorKind.NOT_FOUND: "set job.controller_url to the controller, as http://127.0.0.1:10000",
    ErrorKind.TIMEOUT: "check whether the tunnel is up: iris --cluster NAME cluster dashboard",
    ErrorKind.REFUSED: "open the tunnel: iris --cluster NAME cluster dashboard",
    ErrorKind.DNS: "check the name in job.controller_url, and the network",
    ErrorKind.RATE_LIMITED: "wait, or ask less often: a longer cadence",
}
OTHERWISE: Final = "open the address in a browser: is it an Iris controller?"


def remedy_for(kind: ErrorKind, job: JobSpec) -> str:
    """Return what a person can do about a controller that gave no answer."""
    return remedy_of(job) if kind is ErrorKind.UNAUTHORIZED else REMEDIES.get(kind, OTHERWISE)


async def finding(
    controller: Controller, endpoint: str, runs: Sequence[RunSpec], clock: Clock
) -> EndpointFinding:
    """Return whether a controller answers, as whom, of which generation, and how its clock is."""
    names = ", ".join(run.name for run in runs[:5])
    names += f" and {len(runs) - 5} more" if len(runs) > 5 else ""
    job = next(run.job for run in runs if run.job is not None)
    try:
        user, role = await controller.user()
        generation, lost = await _generation(controller), await _lost(controller)
    except HttpError as error:
        text = clean(f"{error} ({names})", 400)
        return EndpointFinding(endpoint=endpoint, text=text, remedy=remedy_for(error.kind, job))
    text = f"answers as {user} ({role}), {generation}; for {names}; {lost}"
    off = 0.0 if controller.server_date is None else controller.server_date - clock.now()
    others = sorted({_owner(run) for run in runs} - {user, ""})
    if abs(off) >= SKEW:
        way = "ahead of" if off > 0 else "behind"
        text += f"; its clock is {abs(off):.0f} s {way} ours"
        remedy = "set the clocks by NTP; its times are corrected by that much until then"
        return EndpointFinding(endpoint=endpoint, text=text, remedy=remedy)
    if others and user != ANYBODY:
        text += f"; jobs of {', '.join(others)} are read, and are not {user}'s to act on"
        return EndpointFinding(endpoint=endpoint, text=text, remedy=f"act as {others[0]}")
    return EndpointFinding(endpoint=endpoint, text=text)


async def _generation(controller: Controller) -> str:
    return OCTOBER if await controller.has_endpoint_service() else JUNE


async def _lost(controller: Controller) -> str:
    """Return how a launch whose answer was lost is settled there."""
    why = await why_open(controller)
    if why is None:
        return "a launch that is lost is closed by a job that never runs"
    return f"a launch that is lost is settled by a minute of answers ({why})"


def _owner(run: RunSpec) -> str:
    job_id = (run.job.id if run.job is not None else None) or ""
    return user_of(job_id) if is_job_id(job_id) else ""
