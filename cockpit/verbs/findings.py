"""Findings of doctor: about a run's facets, about claims in buckets, and what helps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from cockpit.app.for_verbs import key_problems
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import address_of
from cockpit.model.plan import Level
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.records.lease.folder_seat import RootSeats
from cockpit.records.lease.lease import Lease
from cockpit.runtime.account import login_name
from cockpit.runtime.buckets import BUCKETS

REMEDIES = {
    ErrorKind.UNSUPPORTED: "check it yourself: this version cannot read it",
    ErrorKind.UNAUTHORIZED: "log in again, or set the variable named in cockpit.toml",
    ErrorKind.FORBIDDEN: "ask for access: the credentials work, the permission is missing",
    ErrorKind.NOT_FOUND: "check the path or id in cockpit.toml against what exists",
    ErrorKind.RATE_LIMITED: "wait: it is polled less often automatically",
    ErrorKind.TIMEOUT: "check whether the file system or host responds at all",
    ErrorKind.REFUSED: "check that the service is running, and its address in cockpit.toml",
    ErrorKind.DNS: "check the host name in cockpit.toml and the network",
    ErrorKind.TLS: "check the certificate and the machine's clock",
    ErrorKind.BAD_ANSWER: "check the file or service itself: its answer makes no sense",
    ErrorKind.PERMISSION: "give this user read permission",
    ErrorKind.NOT_CONFIGURED: "add it to cockpit.toml to see this facet",
}
ITS_JOB: Final = "its job"
"""In what a facet says that could be asked for only if the job were known."""
FindingLevel = Literal["ok", "note", "problem"]


class DoctorFinding(Frozen):
    """One thing that was looked at. ``remedy`` is ``None`` where all is well."""

    name: str
    level: FindingLevel
    text: str
    remedy: str | None = None
    run: str | None = None


def note(name: str, text: str, remedy: str | None, run: str | None = None) -> DoctorFinding:
    """Return what is worth knowing and no problem."""
    return DoctorFinding(name=name, level="note", text=text, remedy=remedy, run=run)


def problem(name: str, text: str, remedy: str | None, run: str | None = None) -> DoctorFinding:
    """Return what is wrong, and what helps."""
    return DoctorFinding(name=name, level="problem", text=text, remedy=remedy, run=run)


def facet_findings(
    run: RunReport, endpoints: Sequence[DoctorFinding], *, named: bool
) -> Iterator[DoctorFinding]:
    """Yield a finding for each facet; ``named`` says that the run file names a job of the run.

    What its endpoint or its job failed of has that one's remedy.
    """
    of_job = None
    for name, facet in run.facets.items():
        if facet.error is None:
            yield DoctorFinding(name=name, level="ok", text=facet.source, run=run.name)
            continue
        message = facet.error.message
        remedy = of_job if of_job is not None and ITS_JOB in message else None
        remedy = remedy or _of_endpoint(message, endpoints) or REMEDIES[facet.error.kind]
        asked = facet.configured or (name == "job" and named)
        text = f"{facet.error.kind.value}: {message}"
        yield (problem if asked else note)(name, text, remedy, run.name)
        if name == "job":
            of_job = remedy


def _of_endpoint(message: str, endpoints: Sequence[DoctorFinding]) -> str | None:
    """Return what helps with the endpoint that a message tells the trouble of."""
    bad = (each for each in endpoints if each.remedy is not None)
    told = (each.remedy for each in bad if each.text.startswith(message) or _repeats(message, each))
    return next(told, None)


def _repeats(message: str, finding: DoctorFinding) -> bool:
    return message.startswith(f"{finding.text}; {finding.remedy}")


def contradictions(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name the runs whose W&B address and W&B id are of two runs."""
    for run in file.runs:
        if run.wandb is None or run.wandb.id is None:
            continue
        other = address_of(run.wandb.url).run
        if other is not None and other != run.wandb.id:
            text = f"wandb.id is {run.wandb.id}, but wandb.url points to {other}: the id is used"
            yield problem("run file", text, "remove the wrong one", run.name)


def key_findings(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name what is wrong in ``[keys]``: the UI does not open with it."""
    remedy = "correct [keys]; `cockpit schema` and docs/keys.md have the action ids"
    return (problem("keys", text, remedy) for text in key_problems(file.keys))


NO_CLAIM: Final = (
    "until then only the logbook's remote keeps other machines out: set records.logbook in a"
    " repository with a remote, or fix this"
)


async def claim_findings(
    file: CockpitFile, names: Sequence[str], clock: Clock
) -> list[DoctorFinding]:
    """Return a finding for each run whose output root lies in a bucket; all are asked at once."""
    runs = [run for run in file.runs if not names or run.name in names]
    asked = [run for run in runs if run.output_root and run.output_root.scheme in BUCKETS]
    seats = RootSeats(clock)
    lease = Lease(clock, seats, lambda: login_name() or "unknown")
    return list(await asyncio.gather(*(_finding(lease, seats, run) for run in asked)))


async def _finding(lease: Lease, seats: RootSeats, run: RunSpec) -> DoctorFinding:
    claim = await lease.survey(run)
    if claim.level == Level.WARN.value:
        return note("claim", claim.text, NO_CLAIM, run.name)
    heeds = seats.in_bucket(run).heeds
    seen = "the store honours conditional puts (seen)" if heeds else (
        "whether the store honours conditional puts shows when the first claim is taken"
    )  # fmt: skip
    return DoctorFinding(name="claim", level="ok", text=f"{claim.text}; {seen}", run=run.name)
