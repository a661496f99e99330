"""One job of Slurm, the same whichever version and command has told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from cockpit.model.observed import Phase

MOST_TASKS: Final = 4_000_001
"""Slurm's own limit of an array's highest index (``MaxArraySize``)."""

_PHASES: Final = {
    Phase.RUNNING: ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"),
    Phase.WAITING: (
        *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"),
        *("SPECIAL_EXIT", "SUSPENDED"),
    ),
    Phase.SUCCEEDED: ("COMPLETED",),
    Phase.FAILED: (
        *("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    ),
    Phase.CANCELLED: ("CANCELLED",),
}
PHASE_OF: Final = {word: phase for phase, words in _PHASES.items() for word in words}
"""SPEC J. A word that is not in it, and REVOKED, is unknown."""


@dataclass(frozen=True, slots=True)
class Record:
    """What Slurm tells of one job, one task of an array, or the tasks that still wait.

    ``id`` is how people call it: ``12``, ``20_3``, ``20_[2-5%2]``, ``23+1``; ``raw`` is the number
    of the record itself and ``base`` that of the array or the heterogeneous job it belongs to
    (``kind``). Instants are seconds since the epoch. ``expected`` is when the scheduler means to
    start it, ``until`` when its time limit ends it, ``preempted`` when it was told to make room for
    another one. ``exit`` is (code, signal).
    """

    id: str
    raw: str
    base: str
    state: str
    kind: str = ""
    tasks: str = ""
    throttle: int | None = None
    reason: str = ""
    name: str = ""
    comment: str = ""
    uid: str = ""
    submitted: float | None = None
    eligible: float | None = None
    started: float | None = None
    ended: float | None = None
    suspended: float | None = None
    expected: float | None = None
    until: float | None = None
    preempted: float | None = None
    restarts: int | None = None
    exit: tuple[int, int] | None = None
    dependency: str = ""
    command: str = ""
    script: str = ""
    """The batch script with its arguments, or the program of an srun; empty for ``--wrap``."""
    workdir: str = ""
    output: str = ""
    error_output: str = ""
    node: str = ""
    accelerators: int | None = None
    said_by: str = ""
    steps: tuple[tuple[str, str], ...] = field(default=())
    """The steps that did not succeed, by accounting: (name, state word)."""

    @property
    def word(self) -> str:
        """The state without what stands behind it: of ``CANCELLED by 1000`` the first word."""
        return _word_of(self.state)

    @property
    def phase(self) -> Phase:
        """The state in one of six words."""
        return _phase_of(self.state)

    @property
    def waits_for_tasks(self) -> bool:
        """True of the one record that stands for an array's tasks that have not begun."""
        return self.kind == "array" and not self.tasks.isdecimal()


@lru_cache(maxsize=512)
def _word_of(state: str) -> str:
    """Return the one word of several that counts: what still ends has not ended."""
    words = state.replace("+", ",").split(",")
    plain = [word.split()[0] for word in words if word.split()]
    told = next((word for word in plain if word in ("COMPLETING", "SPECIAL_EXIT")), None)
    return told or (plain[0] if plain else "")


@lru_cache(maxsize=512)
def _phase_of(state: str) -> Phase:
    return PHASE_OF.get(_word_of(state), Phase.UNKNOWN)


def task_numbers(tasks: str) -> list[range]:
    """Return the index ranges of ``2-5%2`` or ``0,4-8:2``; what cannot be read is left out."""
    found = []
    for part in tasks.partition("%")[0].strip("[]").split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        numbers = (first, last or first, step or "1")
        if not all(each.isdecimal() and len(each) < 8 for each in numbers):
            continue
        low, high, by = map(int, numbers)
        if high < MOST_TASKS and by > 0:
            found.append(range(low, high + 1, by))
    return found


def count_of(record: Record) -> int:
    """Return how many tasks a record stands for."""
    if not record.waits_for_tasks:
        return 1
    return sum(len(each) for each in task_numbers(record.tasks)) or 1
