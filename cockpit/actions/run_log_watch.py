"""What a watch writes into a run's HPC run log: how each job ended, once (SPEC S-12, J)."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.alert import Severity
from cockpit.model.clock import Clock
from cockpit.model.observed import JobValue, Phase
from cockpit.model.report import RunReport
from cockpit.model.words import number
from cockpit.records.run_logs import run_log_of
from cockpit.text.scrub import scrub

ENDED: Final = "C-01"


async def write_end(report: RunReport, clock: Clock) -> str | None:
    """Append the end of the present job to ``## Status``; return what stands in the way, if so.

    Success and failure are ends; a stop that was ordered has its own line already. A run log
    that says the end of this job, in whatever words, stays as it is.
    """
    job = report.facets.job.value
    if report.spec.records.run_log is None or job is None or not _ended(report, job):
        return None
    from cockpit.records.run_logs import with_status
    from cockpit.records.saver import Saver

    at = job.ended_at or report.checked_at
    told, text = re.compile(rf"\({re.escape(_name(job))}\)\s*$", re.M), end_text(report, job)

    def edit(data: bytes) -> bytes:
        known = told.search(data.decode("utf-8", "replace"))
        return data if known or not data.strip() else with_status(data, at, text)

    try:
        path = run_log_of(report.spec.records.run_log, report.name, at)
    except OSError as error:
        return f"{report.spec.records.run_log}: {error.strerror or error}"
    done = await Saver(clock).save(path, edit, f"{report.name}: log the end of a job")
    return None if done.lasting else f"{path}: {done.trouble}"


def end_text(report: RunReport, job: JobValue) -> str:
    """Return one line with its evidence: how it ended, at which step, with which loss."""
    how = "completed" if job.phase is Phase.SUCCEEDED else "failed"
    tracker = report.facets.tracker.value
    parts = [
        how,
        *([f"exit code {job.exit_code}"] if job.exit_code is not None else []),
        f"step {report.progress.text}",
        *([f"loss {number(tracker.loss)}"] if tracker is not None and tracker.loss else []),
    ]
    return scrub(f"{', '.join(parts)} ({_name(job)})")


def _ended(report: RunReport, job: JobValue) -> bool:
    """Tell whether there is an end to write: a success, or one that opened a critical alert."""
    if not report.facets.job.known or job.id is None:
        return False
    failed = any(a.id == ENDED and a.severity is Severity.CRITICAL for a in report.alerts)
    return job.phase is Phase.SUCCEEDED or (job.phase is Phase.FAILED and failed)


def _name(job: JobValue) -> str:
    return f"{job.launch_id}, {job.id}" if job.launch_id else f"{job.id}"
