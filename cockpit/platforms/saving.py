"""Asking a trainer to save by ``job.save_command``: its words, and how they run here (SPEC A-5)."""

from __future__ import annotations

import os
import re
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.run import Command, RunSpec
from cockpit.platforms.base import CannotError, CommandError, LostError
from cockpit.platforms.command import words_of
from cockpit.platforms.local.launcher.supervisor import expand
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

WITHIN: Final = 120
"""Seconds for the command: it asks, the save itself is waited for elsewhere."""
NO_WAY: Final = "the trainer has no way to save on request (job.save_signal, job.save_command)"
_PLACE: Final = re.compile(r"(?<!\$)\{(\w+)\}")
"""A placeholder; ``${NAME}`` is a variable, and resolves where the command runs."""


def save_words(
    run: RunSpec, command: Command, live: LiveJob, job_id: str | None = None
) -> list[str]:
    """Return a save command's words with their placeholders filled; raises ``CannotError``.

    ``job_id`` is what its own tools call the job, where that is not ``live.id``.
    """
    known = {
        "run": run.name,
        "launch_id": live.launch_id,
        "output_root": None if run.output_root is None else run.output_root.seen_from(run.job),
        "wandb_id": None if run.wandb is None else run.wandb.id,
        "job_id": job_id or live.id,
        "pid": live.handle.get("pid"),
    }

    def fill(match: re.Match[str]) -> str:
        value = known.get(match[1])
        if value is None:
            raise CannotError(f"job.save_command: {{{match[1]}}} is not known here")
        return value

    try:
        return [_PLACE.sub(fill, word) for word in words_of(command, "job.save_command")]
    except CommandError as error:
        raise CannotError(str(error)) from error


async def save_here(run: RunSpec, live: LiveJob) -> None:
    """Run ``job.save_command`` on this machine; raises ``CannotError`` and ``LostError``."""
    assert run.job is not None and run.job.save_command is not None
    words = save_words(run, run.job.save_command, live)
    try:
        words = expand(words, os.environ)
    except KeyError as error:
        raise CannotError(f"job.save_command uses ${error.args[0]}, which is not set") from error
    workdir = run.job.workdir or run.workdir
    folder = None if workdir is None else workdir.path
    done = await run_command(words, deadline=WITHIN, cwd=folder)
    if done.timed_out:
        raise LostError(f"job.save_command did not end within {WITHIN} s")
    if not done.ok:
        raise ended(done.rc, done.err)


def ended(status: int, said: bytes) -> CannotError:
    """Return that the command has refused, in its own last words."""
    words = scrub(clean(said.decode("utf-8", "replace").strip()[-300:]))
    return CannotError(f"job.save_command ended with {status}: {words}")
