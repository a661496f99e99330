"""The end of a launch id: its name is taken by a job that never runs, so that no other can be.

Iris has no job that is held, and a launch whose answer was lost may come later. So the name is
asked for by a *closing job*, which the controller takes only where no job has the name yet
(``EXISTING_JOB_POLICY_ERROR``, in both released generations). While it waits, every launch of
that name is refused. It can never be placed and nothing is scaled up for it: it wants seven
tasks at once on workers that are grouped by what no worker has; machines come in powers of two.
The controller gives it up by itself after a day, which is longer than any client tries.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cockpit.platforms.iris.backends import why_open
from cockpit.platforms.iris.request import CLOSES
from cockpit.platforms.iris.rpc import Controller
from cockpit.runtime.http import Answer, HttpError, told

NEVER: Final = "cockpit-closed"
TASKS: Final = 7
HELD: Final = 86_400.0
"""Seconds for which a name is held."""
NEEDED: Final = 3_600.0
"""Seconds for which it must be held: a client tries for half an hour."""


class Fence(StrEnum):
    """What became of closing a launch id."""

    CLOSED = "closed"
    TAKEN = "taken"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Closing(NamedTuple):
    """What became of it, and on whose word."""

    fence: Fence
    text: str = ""


async def close(controller: Controller, job_id: str, launch_id: str, now: float) -> Closing:
    """Take a job's name, if no job has it; ``now`` in seconds since the epoch. Never raises."""
    try:
        why = await why_open(controller)
        if why is not None:
            return Closing(Fence.REFUSED, why)
        return _read(await controller.change("LaunchJob", _body(job_id, launch_id, now)), job_id)
    except HttpError as error:
        return Closing(Fence.UNKNOWN, str(error))


def _read(answer: Answer, job_id: str) -> Closing:
    """Return what the controller has answered; raises ``HttpError``."""
    if answer.status == 409:
        return Closing(Fence.TAKEN)
    if answer.status != 200:
        return Closing(Fence.REFUSED, f"{answer.host} answered {answer.status}{told(answer.body)}")
    got = answer.json()
    if not isinstance(got, dict) or got.get("jobId") != job_id:
        return Closing(Fence.REFUSED, "the controller gives our jobs to another user")
    return Closing(Fence.CLOSED)


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
