"""Stops exactly the jobs that are named (SPEC A)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.protocol import EndingJobs
from cockpit.platforms.slurm.ask import CONTROLLER, Run
from cockpit.platforms.slurm.book import Book, Job
from cockpit.platforms.slurm.jobs import SlurmJobs, host_of, where_of
from cockpit.platforms.slurm.record import Record, task_numbers
from cockpit.platforms.slurm.scripts import SLACK, acted, cancel_script, not_cancelled
from cockpit.text.safe import clean

KILL_WAIT: Final = 120.0
"""Seconds beyond ``job.grace`` for the cluster's own KillWait, its epilog and a busy controller."""
SAME_WITHIN: Final = 30.0
"""Seconds by which the submit time of one job may seem to differ between two looks."""
_STOPPABLE: Final = re.compile(r"(\d{1,12})(_\d{1,8}|_\[[\d,:-]+\]|\+\d{1,4})?")
"""What scancel may be given: a job, a task, some tasks, a part: ``70_[3-7]``."""


class EndingSlurmJobs(EndingJobs):
    """Jobs of one cluster that are cancelled until none of them runs, waits or is ending.

    Those that only were accepted and never let go are not touched once they are.
    """

    slack: ClassVar[float] = KILL_WAIT

    def __init__(
        self, run: RunSpec, jobs: Sequence[LiveJob], ask: Run, cluster: SlurmJobs, every: float
    ) -> None:
        self._spec = run
        self._ids = {job.id: target_of(job) for job in jobs}
        self._left = list(jobs)
        self._ask = ask
        self._cluster = cluster
        self._book = Book({})
        self.every = every

    async def left(self) -> Sequence[str]:
        """Return those that the cluster lists as living."""
        self._book = await self._cluster.book(self._spec, [self._spec])
        self._left = _living(self._book, self._left)
        return [f"{job.id} ({_state_word(self._book, job)})" for job in self._left]

    async def tell(self, *, late: bool) -> None:
        """Cancel those that are not ending, one that has come back by itself too."""
        again = [job for job in self._left if not _is_ending(job, self._book)]
        if not again:
            return
        host, self.told = host_of(self._spec), True
        held = all("held" in job.handle for job in again)
        script = cancel_script([self._ids[job.id] for job in again], pending=held)
        try:
            why = not_cancelled(await acted(self._ask, host, script, CONTROLLER + SLACK))
        except CannotError as error:
            raise LostError(str(error)) from error
        if why is not None and "denied" in why:
            raise CannotError(f"{where_of(host)}: {why}")
        if why is not None:
            raise LostError(why)


def target_of(job: LiveJob) -> str:
    """Return what scancel is given for a job: its number, exact; raises ``CannotError``."""
    told = re.sub(r"%\d+(?=\])", "", job.handle.get("job", ""))
    found = _STOPPABLE.fullmatch(told)
    if found is None:
        raise CannotError(f"{clean(job.id, 60)} is not a Slurm job")
    part = found[2] or ""
    return found[1] if part.startswith("+") else told


def job_now(book: Book, job: LiveJob) -> Job | None:
    """Return what stands under the job's number now; ``None`` where nothing does."""
    found = book.find(job.handle["job"])
    if found is None:  # a task that stood for others may be a record of its own by now
        wanted = target_of(job).partition("_")[0]
        rest = tuple(each for each in book.records.values() if _same_tasks(each, job, wanted))
        found = Job(job.id, rest) if rest else None
    return found


def is_same(job: LiveJob, now: Job) -> bool:
    """Tell whether a number still is the same job's; raises ``LostError`` where that is not known.

    One that was requeued is: it was submitted anew under its number.
    """
    submitted = job.handle.get("submitted")
    times = {each.submitted for each in now.records}
    if submitted is None or None in times:
        return True
    if any(at is not None and abs(at - float(submitted)) <= SAME_WITHIN for at in times):
        return True
    restarts = [each.restarts for each in now.records]
    if not any(restarts) and None in restarts:
        text = "was submitted at another time than before: cannot tell whether it is the same job"
        raise LostError(f"{job.id} {text}")
    return any(restarts)


def _same_tasks(record: Record, job: LiveJob, base: str) -> bool:
    """Tell whether a living record is, or stands for, one of the tasks that a job names."""
    wanted = task_numbers(target_of(job).partition("_")[2])
    if record.base != base or record.kind != "array" or not record.phase.lives:
        return False
    return any(
        max(mine.start, its.start) < min(mine.stop, its.stop)
        for mine in wanted
        for its in task_numbers(record.tasks)
    )


def _living(book: Book, jobs: Iterable[LiveJob]) -> list[LiveJob]:
    """Return those that still live; of what was never let go only while it still is not."""
    found = []
    for job in jobs:
        now = job_now(book, job)
        if now is None or not now.lives or not is_same(job, now):
            continue
        if "held" in job.handle and now.main.phase is Phase.RUNNING:
            raise CannotError(f"job {job.id} runs: it was released; it was not touched")
        found.append(job)
    return found


def _is_ending(job: LiveJob, book: Book) -> bool:
    now = job_now(book, job)
    return now is not None and all(
        each.word == "COMPLETING" or not each.phase.lives for each in now.records
    )


def _state_word(book: Book, job: LiveJob) -> str:
    now = job_now(book, job)
    return "gone" if now is None else now.main.word
