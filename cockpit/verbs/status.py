"""The one line that ``watch`` prints for a run at every cadence, even when nothing changed."""

from __future__ import annotations

from datetime import UTC, datetime

from cockpit.model.report import RunReport
from cockpit.verbs.table import checkpoint_text, job_text, loss_text, monitor_text, rate_text


def status_line(run: RunReport) -> str:
    """Return ``TIME RUN VERDICT JOB STEP loss … · worst alert``, without a line break."""
    return " ".join(
        (
            datetime.fromtimestamp(run.checked_at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            run.name,
            run.verdict.value,
            job_text(run),
            run.progress.text,
            f"loss {loss_text(run)}",
            f"rate {rate_text(run)}",
            f"ckpt {checkpoint_text(run)}",
            f"monitor {monitor_text(run)}",
            *_worst(run),
        )
    )


def _worst(run: RunReport) -> list[str]:
    if run.worst is None:
        return []
    more = len(run.alerts) - 1
    taken = " (acknowledged)" if run.worst.acknowledged is not None else ""
    others = f" and {more} more" if more else ""
    return [f"· {run.worst.id} {run.worst.title}{taken}{others} · next: {run.next_action}"]
