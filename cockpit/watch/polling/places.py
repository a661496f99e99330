"""Which place answers for each facet of a run: its runs are asked there in one request.

A place is an endpoint: this machine (``HERE``), an ssh host, a controller, a bucket, a W&B
server. All that is read of one endpoint shares its fate (``cockpit.model.place``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.sources.checkpoints.source import endpoints as checkpoint_endpoints
from cockpit.sources.trackers import places as tracker_places


def _here(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return (HERE,)


def _platform(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return (HERE if platform is None else platform.endpoint(run),)


def _log(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    """Return this machine for a log that lies on it, whoever runs the job."""
    job = run.job
    if job is not None and job.host is None and job.log is not None and job.log.here:
        return (HERE,)
    return _platform(run, platform)


def _tracker(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return tracker_places(run) or (HERE,)


def _checkpoints(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return checkpoint_endpoints(run)


def _code(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    repo = run.code.repo if run.code is not None else None
    return (HERE if repo is None else repo.endpoint,)


PLACES: Final[Mapping[str, Callable[[RunSpec, Platform | None], tuple[str, ...]]]] = {
    "job": _platform,
    "log": _log,
    "tracker": _tracker,
    "checkpoints": _checkpoints,
    "monitor": _here,
    "host": _platform,
    "code": _code,
    "records": _here,
}
"""One row for each facet. The records are a file of this machine, though its issue is not."""


def places_of(facet: str, run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    """Return the endpoints that answer for a facet of a run; ``platform`` is its job's."""
    return PLACES[facet](run, platform)


def fate_of(place: str) -> str:
    """Return what a place shares its fate with: the projects of one web server fail together."""
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else place
