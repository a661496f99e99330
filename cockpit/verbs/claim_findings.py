"""What ``doctor`` says of the claims under output roots in buckets; it only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.plan import Level
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.records.lease.store_claim import StoreClaim
from cockpit.runtime.account import login_name
from cockpit.runtime.buckets import BUCKETS
from cockpit.verbs.findings import DoctorFinding

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
    guard = StoreClaim(clock, lambda: login_name() or "unknown")
    return list(await asyncio.gather(*(_finding(guard, run) for run in asked)))


async def _finding(guard: StoreClaim, run: RunSpec) -> DoctorFinding:
    claim = await guard.survey(run)
    if claim.level == Level.WARN.value:
        return DoctorFinding(
            name="claim", level="note", text=claim.text, remedy=NO_CLAIM, run=run.name
        )
    heeds = guard.heeded(run)
    seen = "the store honours conditional puts (seen)" if heeds else (
        "whether the store honours conditional puts shows when the first claim is taken"
    )  # fmt: skip
    return DoctorFinding(name="claim", level="ok", text=f"{claim.text}; {seen}", run=run.name)
