"""What ``cockpit init`` can begin from on a cluster: this user's jobs, by one question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.jobs import OwnJob
from cockpit.model.observed import Phase
from cockpit.platforms.base import CannotError
from cockpit.platforms.slurm.ask import Run, ask
from cockpit.platforms.slurm.book import Job, book_of
from cockpit.platforms.slurm.command import script_words
from cockpit.platforms.slurm.jobs import where_of
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.trouble import Trouble
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_LAUNCH: Final = re.compile(r"(.+)-i\d{3,6}")


async def own_jobs(run: Run, host: str | None) -> Sequence[OwnJob]:
    """Return this user's jobs, living ones and then the newest first; raises ``CannotError``."""
    told = await ask(run, host, where_of(host), ())
    if isinstance(told, Trouble):
        raise CannotError(told.line)
    jobs = sorted(book_of(told).jobs, key=lambda job: (not job.lives, -_submitted(job)))
    return [_own(job) for job in jobs]


def _submitted(job: Job) -> float:
    return max(record.submitted or 0.0 for record in job.records)


def _own(job: Job) -> OwnJob:
    """Return a job as its records tell of it.

    Not where it writes: each job's ``StdOut`` is read by itself, and the next one has another.
    """
    main = job.main
    settings = {}
    if main.workdir.startswith("/"):
        settings["job.workdir"] = main.workdir
    resubmit = _resubmit(main)
    if resubmit is not None:
        settings["resubmit"] = resubmit
    launch = _LAUNCH.fullmatch(main.comment)
    reason = f" ({main.reason})" if main.reason and main.phase is Phase.WAITING else ""
    return OwnJob(
        id=clean(job.id, 80),
        name=_shown(main.name if launch is None else launch[1]),
        text=_shown(f"{main.state}{reason}"),
        settings={name: clean(value, 4096) for name, value in settings.items()},
    )


def _resubmit(main: Record) -> str | None:
    """Return how the job was submitted; without its whole line, its script and arguments."""
    line = main.command.removeprefix(main.script).strip()
    for words in (line.split(), ["sbatch", *main.script.split()]):
        if words[:1] == ["sbatch"] and script_words(words):
            text = " ".join(words)
            return text if scrub(text) == text else None
    return None


def _shown(text: str) -> str:
    return clean(scrub(text), 200)
