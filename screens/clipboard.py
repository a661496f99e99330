"""Copying to the person's own clipboard, through tmux and ssh."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Final

from cockpit.model.report import RunReport
from cockpit.runtime.shell import run_command
from cockpit.text.scrub import scrub

MOST: Final = 74_000
"""Characters of base64 that terminals still take in one sequence."""
DEADLINE: Final = 2.0


def identity(report: RunReport) -> str:
    """Return what names a run: its name, job, W&B run, newest checkpoint, next action."""
    job, tracker = report.facets.job.value, report.facets.tracker.value
    spec = report.spec
    lines = [f"run {report.name}: {report.verdict.value}"]
    job_id = (job.id if job is not None else None) or (spec.job.id if spec.job else None)
    if job_id:
        lines.append(f"job {job_id}")
    if tracker is not None and tracker.id:
        place = "/".join(part for part in (tracker.entity, tracker.project, tracker.id) if part)
        lines.append(f"wandb {tracker.url or place}")
    pick = report.facets.checkpoints.value
    if pick is not None and pick.relaunch_from is not None:
        lines.append(f"checkpoint {pick.relaunch_from.path}")
    return scrub("\n".join([*lines, f"next {report.next_action}"]))


async def copy_text(text: str, write: Callable[[str], object]) -> str:
    """Copy ``text`` and return which way it went; ``write`` sends a sequence to the terminal.

    tmux drops a bare OSC 52 by default, so inside it tmux itself is asked.
    """
    if os.environ.get("TMUX"):
        asked = await run_command(
            ["tmux", "load-buffer", "-w", "-"], deadline=DEADLINE, stdin=text.encode()
        )
        if asked.rc == 0:
            return "copied through tmux"
    code = base64.b64encode(text.encode()).decode()
    if len(code) > MOST:
        return "too long for the terminal's clipboard; nothing was copied"
    write(f"\x1b]52;c;{code}\x07")
    return "sent to the terminal's clipboard (OSC 52)"
