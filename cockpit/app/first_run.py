"""Where there is no run file: what lies around here that one can be made from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from cockpit.config.file import config_dir
from cockpit.model.clock import Clock
from cockpit.runtime.offload import offload
from screens.welcome import Around

LOOKED_WITHIN: Final = 10.0
"""Seconds that the folder has to answer."""


def config_place() -> str:
    """Return the user's config folder as a person reads it."""
    place, home = str(config_dir()), str(Path.home())
    return f"~{place[len(home) :]}" if place.startswith(f"{home}/") else place


async def look_around(folder: Path, clock: Clock) -> AsyncIterator[Around]:
    """Yield what lies in a folder, then this user's jobs of each system at hand; never raises.

    What does not answer is reported as that, not as nothing.
    """
    # behind the first paint: the platforms are many
    from cockpit.init.sources import SourceError, at_hand, here, listed, own_jobs

    try:
        found = await offload(lambda: list(here(folder)), deadline=LOOKED_WITHIN)
        yield Around(tuple((each.what, each.text) for each in found))
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "did not answer"
        yield Around((), f"this folder: {str(why).lower()}")
    for job in at_hand():
        try:
            jobs = listed(job, await own_jobs(job, clock))
            yield Around(tuple((each.what, each.text) for each in jobs))
        except SourceError as error:
            said = str(error)
            yield Around((), said if said.startswith(job.kind) else f"{job.kind}: {said}")
