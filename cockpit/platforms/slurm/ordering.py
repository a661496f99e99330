"""What a scheduler does with a submitted job on request: hold, release, requeue, a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.jobs import LiveJob, SchedulerOrder
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.model.wording import duration
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.ask import CONTROLLER, Run, Trouble, last_words, new_mark
from cockpit.platforms.slurm.book import Book, is_held, is_held_by_person, never_let_go
from cockpit.platforms.slurm.jobs import SlurmJobs, where_of
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.stopping import KILL_WAIT, is_same, job_now, target_of
from cockpit.platforms.slurm.submitting import (
    PERHAPS,
    SLACK,
    acted,
    host_of,
    order_script,
)
from cockpit.runtime.moment import Awake
from cockpit.text.safe import clean

SHOWN_WITHIN: Final = 20.0
"""Seconds in which a controller that has accepted an order shows what it did."""
MINUTE: Final = 60.0
"""Slurm keeps a time limit in whole minutes."""


class OrderRow(NamedTuple):
    """One order: the words for scontrol, the states it is for, and what shows that it was done."""

    words: tuple[str, ...]
    states: tuple[str, ...]
    why_not: Callable[[Record, SchedulerOrder], str | None]
    shown: Callable[[Record, LiveJob, SchedulerOrder], bool]
    done: str
    within: float = SHOWN_WITHIN


def _not_to_hold(record: Record, order: SchedulerOrder) -> str | None:
    if record.phase is not Phase.WAITING:
        return f"it is {record.word}: only a job that waits can be held"
    return "it is held already" if _held(record) else None


def _not_to_release(record: Record, order: SchedulerOrder) -> str | None:
    if not _held(record):
        return f"it is {record.word}, and not held"
    if record.said_by != "scontrol":
        return "scontrol does not list it: whether a launch ever released it is unknown"
    if never_let_go(record):
        return "a launch submitted it and never released it: its outcome decides, not this verb"
    if record.reason.startswith("JobHeldAdmin"):
        return "an administrator holds it: ask them"
    return None


def _not_to_requeue(record: Record, order: SchedulerOrder) -> str | None:
    if record.word != "RUNNING":
        return f"it is {record.word}: only a running job is requeued"
    if record.may_requeue is False:
        return "it was submitted with --no-requeue, or the cluster's default says so"
    return None


def _not_to_extend(record: Record, order: SchedulerOrder) -> str | None:
    if not record.phase.lives:
        return f"it is {record.word}"
    if record.limit is None:
        return "no time limit of it is known that could be lengthened"
    if order.limit is None or order.limit <= record.limit:
        return f"its time limit is {duration(record.limit)}: this would not lengthen it"
    return None


def _held(record: Record) -> bool:
    return is_held(record) or is_held_by_person(record)


def _begun_anew(record: Record, job: LiveJob, order: SchedulerOrder) -> bool:
    """Tell whether a job that ran waits again, or has begun since."""
    if record.phase is Phase.WAITING:
        return True
    began, before = record.started, job.started_at
    return record.word == "RUNNING" and None not in (began, before) and began > before + 1  # type: ignore[operator]


def _has_limit(record: Record, job: LiveJob, order: SchedulerOrder) -> bool:
    limit, asked = record.limit, order.limit
    return limit is not None and asked is not None and abs(limit - asked) < MINUTE


ORDERS: Final = {
    "hold": OrderRow(
        ("uhold",), ("PENDING",), _not_to_hold, lambda record, *_: _held(record), "is held"
    ),
    "release": OrderRow(
        ("release",), ("PENDING",), _not_to_release, lambda record, *_: not _held(record),
        "is released",
    ),
    "requeue": OrderRow(
        ("requeue",), ("RUNNING",), _not_to_requeue, _begun_anew, "is requeued", KILL_WAIT
    ),
    "extend": OrderRow(
        ("update",), ("PENDING", "RUNNING", "SUSPENDED"), _not_to_extend, _has_limit,
        "has its new time limit",
    ),
}  # fmt: skip
"""What scontrol is asked for, by the verb of the action. Its ``hold`` by an operator is a hold
that the owner of the job may not undo: ``uhold`` is one that they may."""


class Ordering:
    """Gives one order about one job, once, and reads back what the controller made of it."""

    def __init__(self, clock: Clock, ask: Run, cluster: SlurmJobs, every: float) -> None:
        self._clock = clock
        self._ask = ask
        self._cluster = cluster
        self._every = every

    async def why_not(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str | None:
        """Return why the controller would not do that with the job as it is; ``None``: it may."""
        row = ORDERS.get(order.verb)
        if row is None:
            return "Slurm has no such order"
        try:
            return row.why_not(await self._record(run, job), order)
        except (CannotError, LostError) as error:
            return str(error)

    async def give(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str:
        """Give the order and wait until it shows; raises ``CannotError``, ``LostError``."""
        row, target, host, mark = ORDERS[order.verb], target_of(job), host_of(run), new_mark()
        script = order_script(mark, target, row.states, _words(row, target, order))
        try:
            why = row.why_not(await self._record(run, job), order)
        except LostError as error:
            raise CannotError(str(error)) from error
        if why is not None:
            raise CannotError(f"job {job.id}: {why}")
        found = await acted(self._ask, host, script, mark, 2 * CONTROLLER + SLACK)
        if "other" in found:
            now = last_words(found["other"]) or "not listed any more"
            raise CannotError(f"job {job.id} is {now} now: nothing was ordered")
        said, code = found.get("said", ""), found.get("rc", "").strip()
        if code != "0" and (code == "124" or PERHAPS.search(said)):
            raise LostError(f"{where_of(host)} did not answer in time: {last_words(said)}")
        if code != "0":
            raise CannotError(f"{where_of(host)}: {last_words(said) or f'scontrol ended {code}'}")
        return await self._await(run, job, order)

    async def shown(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str | None:
        """Return that the order shows at the controller; ``None`` where it does not.

        Raises ``CannotError``, ``LostError``.
        """
        row = ORDERS[order.verb]
        record = await self._record(run, job)
        limit = "" if order.limit is None else f" of {duration(order.limit)}"
        return f"job {job.id} {row.done}{limit}" if row.shown(record, job, order) else None

    async def _await(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str:
        within = ORDERS[order.verb].within + (run.job.grace if run.job is not None else 0.0)
        until, trouble = Awake(within, within / 2, self._clock.monotonic), ""
        while True:
            try:
                said = await self.shown(run, job, order)
            except (CannotError, LostError) as error:
                said, trouble = None, f": {error}"
            if said is not None:
                return said
            if until.left() <= 0:
                text = f"{order.verb} of job {job.id} was accepted, and does not show"
                raise LostError(f"{text} after {duration(within)}{trouble}")
            await self._clock.sleep(self._every)

    async def _record(self, run: RunSpec, job: LiveJob) -> Record:
        seen = await self._cluster.ask_cluster(host_of(run), [run])
        if isinstance(seen, Trouble):
            raise LostError(seen.line)
        book: Book = seen[1]
        now = job_now(book, job)
        if now is None or not is_same(job, now):
            raise CannotError(f"job {clean(job.id, 60)} is not listed any more")
        if len(now.records) > 1:
            raise CannotError(
                f"job {job.id} has {len(now.records)} tasks or parts: name one (job.id)"
            )
        return now.main


def _words(row: OrderRow, target: str, order: SchedulerOrder) -> tuple[str, ...]:
    if order.limit is None:
        return (*row.words, target)
    return (*row.words, f"JobId={target}", f"TimeLimit={round(order.limit / MINUTE)}")
