"""What a scheduler does with a submitted job on request: hold, release, requeue, a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cockpit.model.jobs import LiveJob, SchedulerOrder
from cockpit.model.observed import Phase
from cockpit.model.wording import duration
from cockpit.platforms.slurm.book import is_held, is_held_by_person, never_let_go
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.stopping import KILL_WAIT

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


def order_words(row: OrderRow, target: str, order: SchedulerOrder) -> tuple[str, ...]:
    """Return what scontrol is given for one order about a job."""
    if order.limit is None:
        return (*row.words, target)
    return (*row.words, f"JobId={target}", f"TimeLimit={round(order.limit / MINUTE)}")
