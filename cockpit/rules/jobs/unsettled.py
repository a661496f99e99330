"""C-02, a launch whose outcome nobody knows: its answer was lost, or its cockpit died (SPEC A)."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History, UnsettledLaunch
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec
from cockpit.rules.present import job_of


def launch_unsettled(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-02: it is not known what became of a launch; info where its job is seen."""
    job = job_of(history)
    for launch in history.unsettled:
        seen = job is not None and history.facets.job.known and job.launch_id == launch.launch_id
        yield Alert(
            id="C-02",
            key=f"C-02:{run.name}:launch:{launch.launch_id}",
            severity=Severity.INFO if seen else Severity.ALERT,
            title=_title(launch, job if seen else None),
            since=launch.since,
            evidence=tuple(_evidence(history, launch, job if seen else None)),
            confidence="sure",
            next_action=wait_for(run, launch),
        )


def awaited(history: History) -> UnsettledLaunch | None:
    """Return the launch that may have started a job which nobody has seen."""
    job = job_of(history)
    seen = None if job is None or not history.facets.job.known else job.launch_id
    return next((each for each in history.unsettled if each.launch_id != seen), None)


def wait_for(run: RunSpec, launch: UnsettledLaunch) -> str:
    """Return what is safe while a launch is unknown."""
    who = f"cockpit watch {run.name} or an open cockpit looks {launch.launch_id} up"
    return f"start nothing else: {who} every {wording.duration(run.cadence)}"


def _title(launch: UnsettledLaunch, job: JobValue | None) -> str:
    if job is not None:
        return f"{launch.launch_id} is job {job.id}: its launch was interrupted and not recorded"
    return f"Launch {launch.launch_id} unknown: it may run"


def _evidence(
    history: History, launch: UnsettledLaunch, job: JobValue | None
) -> Iterator[Evidence]:
    sent = f"{launch.action} by {launch.by} began to start it {wording.moment(launch.since)}"
    yield Evidence(text=f"{sent}; what became of it is not written down", source="journal")
    if launch.text:
        yield Evidence(text=launch.text, source="journal")
    facet, seen = history.facets.job, job_of(history)
    for held in () if seen is None else seen.held:
        if seen is not None and held.launch_id == launch.launch_id:
            yield Evidence(text=f"{held.id}: {held.why}", source=seen.rivals_source)
    if job is not None:
        yield Evidence(text=f"job {job.id} is {job.state}", source=facet.source)
    elif facet.error is not None:
        yield Evidence(text=f"asked for it: {facet.error.message}", source=facet.source)
    else:
        yield Evidence(text="asked for it: no job of it is listed so far", source=facet.source)
