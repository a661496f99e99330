"""Which system answers for a facet of a run: runs of one system are asked in one request."""

from __future__ import annotations

from cockpit.model.place import HERE
from cockpit.model.run import RunSpec


def system_of(facet: str, run: RunSpec) -> str:
    """Return the name of the system behind a facet, ``here`` for this machine."""
    if facet == "job":
        return _orchestrator(run)
    if facet in ("log", "host"):
        return _host(run)
    if facet == "tracker":
        return _tracker(run)
    if facet == "checkpoints":
        roots = run.checkpoints.path if run.checkpoints is not None else ()
        return roots[0].endpoint if roots else HERE
    return HERE


def _host(run: RunSpec) -> str:
    return (run.job.host if run.job is not None else None) or HERE


def _orchestrator(run: RunSpec) -> str:
    job = run.job
    if job is None or job.kind == "local":
        return HERE
    where = job.controller_url or job.cluster or job.address or job.host or HERE
    return f"{job.kind} {where}"


def _tracker(run: RunSpec) -> str:
    if run.wandb is None or run.wandb.dir is not None:
        return _host(run)
    return run.wandb.base_url or "wandb"
