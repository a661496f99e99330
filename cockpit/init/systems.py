"""What the systems themselves tell of this user's jobs: one request for each system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.init.proposal import Clue
from cockpit.init.sources import WHERE, Found, named_by, spelled
from cockpit.init.state_file import SourceError
from cockpit.model.clock import Clock
from cockpit.model.jobs import OwnJob
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.table import Platforms
from cockpit.text.safe import clean

RAY_ADDRESS: Final = "RAY_ADDRESS"
"""Ray's own variable; it may name a port of the cluster instead of the dashboard's."""


async def own_jobs(named: JobSpec, clock: Clock) -> Sequence[OwnJob]:
    """Return this user's jobs at a system; raises ``SourceError``."""
    try:
        return await Platforms(clock).own_jobs(named)
    except CannotError as error:
        raise SourceError(str(error)) from None


async def job_clues(named: JobSpec, clock: Clock) -> tuple[list[Clue], list[Clue]]:
    """Return what its system tells of a job, and what it suggests.

    Raises ``SourceError``, for a job that the system does not list too.
    """
    for each in await own_jobs(named, clock):
        if each.id == named_by(named):
            source = clean(f"{named.kind} job {each.id}", 200)
            told = [
                Clue(tuple(key.split(".")), clean(value, 4096), source)
                for key, value in each.settings.items()
            ]
            return told, [Clue(("name",), clean(each.name, 200), source)]
    raise SourceError("it is not among your jobs listed there")


def listed(named: JobSpec, jobs: Sequence[OwnJob]) -> Iterator[Found]:
    """Yield each job as ``init`` would be asked for it."""
    where = getattr(named, WHERE[named.kind]) if named.kind in WHERE else None
    for job in jobs:
        what = f"{named.kind}:{spelled(named.kind, job.id)}" + (f"@{where}" if where else "")
        yield Found(clean(what, 300), clean(f"{job.name}, {job.text}", 200))


def at_hand() -> Iterator[JobSpec]:
    """Yield the systems that this machine and environment name by themselves."""
    if shutil.which("squeue"):
        yield JobSpec(kind="slurm")
    address = os.environ.get(RAY_ADDRESS, "")
    if address.startswith(("http://", "https://")):
        yield JobSpec(kind="ray", address=address)
