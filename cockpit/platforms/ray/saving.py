"""Asking a trainer on Ray to save now: by a command of the user's own, run on this machine.

Ray's API reaches no driver but to end it: a signal cannot be sent.
"""

from __future__ import annotations

import os
import re
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, CommandError, LostError
from cockpit.platforms.command import words_of
from cockpit.platforms.local.launcher.supervisor import expand
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

WITHIN: Final = 120.0
NO_WAY: Final = (
    "Ray sends a driver nothing but its end: name a command that asks the trainer, run here "
    "(job.save_command, with {job_id})"
)
_PLACE: Final = re.compile(r"(?<!\$)\{(\w+)\}")


def why_no_save(run: RunSpec) -> str | None:
    """Return why a trainer cannot be asked, ``None`` if it can."""
    return None if run.job is not None and run.job.save_command else NO_WAY


async def save(run: RunSpec, live: LiveJob) -> None:
    """Run ``save_command`` in ``workdir``; raises ``CannotError`` and ``LostError``."""
    if run.job is None or not run.job.save_command:
        raise CannotError(NO_WAY)
    workdir = run.job.workdir or run.workdir
    folder = None if workdir is None else workdir.path
    done = await run_command(filled(run, live), deadline=WITHIN, cwd=folder)
    if done.timed_out:
        raise LostError(f"job.save_command did not end within {WITHIN:g} s")
    if not done.ok:
        said = scrub(clean(done.err.decode("utf-8", "replace").strip()[-300:]))
        raise CannotError(f"job.save_command ended with {done.rc}: {said}")


def filled(run: RunSpec, live: LiveJob) -> list[str]:
    """Return the command's words, filled in; raises ``CannotError`` for what is not known."""
    assert run.job is not None and run.job.save_command is not None
    known = {
        "run": run.name,
        "job_id": live.id,
        "launch_id": live.launch_id,
        "output_root": None if run.output_root is None else run.output_root.seen_from(run.job),
        "wandb_id": None if run.wandb is None else run.wandb.id,
    }

    def fill(match: re.Match[str]) -> str:
        value = known.get(match[1])
        if value is None:
            raise CannotError(f"job.save_command: {{{match[1]}}} is not known here")
        return value

    try:
        words = words_of(run.job.save_command)
        return expand([_PLACE.sub(fill, word) for word in words], os.environ)
    except CommandError as error:
        raise CannotError(f"job.save_command: {error}") from error
    except KeyError as error:
        raise CannotError(f"job.save_command uses ${error.args[0]}, which is not set") from error
