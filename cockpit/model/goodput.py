"""Goodput: which share of a run's wall time trained steps that counted (SPEC W), also by day."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pydantic import Field

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.wording import age, figure, lasts, share, steps, utc_minute

UNWATCHED: Final = 2
"""Cadences without a look after which nobody knows what was meanwhile (as C-02 counts them)."""
GAPS: Final = 128


class Break(NamedTuple):
    """A time without a step, after ``step``; ``back``: the next one was an earlier one."""

    since: float
    until: float
    step: int
    back: bool


class Stepping(Frozen):
    """The fold of all steps' times. Seconds are plain floats, as in all of a ``Trend``.

    ``high`` is the highest step so far: what is trained up to it after going back is rework.
    ``late``: the newest step was. ``open_*`` is the window that is not full yet. ``levels`` are
    those of the newest windows that were not slow, ``slow_run`` is how many in a row were.
    ``steps_spoilt`` are those whose loss is no number, but for what was trained again since;
    ``spoilt`` are the newest stretches of them (first and last step, ascending): of several
    writers, each counts only what none has spoilt before. ``spoilt_now``: the last loss that was
    told is no number.
    ``pauses_s`` are short breaks, which are not listed, ``unlisted_s`` long ones of which there
    were too many to list.
    """

    first_at: float | None = None
    at: float | None = None
    step: int | None = None
    high: int | None = None
    productive_s: float = 0.0
    rework_s: float = 0.0
    slow_s: float = 0.0
    pauses_s: float = 0.0
    unlisted_s: float = 0.0
    spoilt_s: float = 0.0
    steps_again: int = 0
    steps_spoilt: int = 0
    spoilt: tuple[tuple[int, int], ...] = ()
    spoilt_now: bool = False
    backs: int = 0
    breaks: tuple[Break, ...] = ()
    early: tuple[float, ...] = ()
    usual_step_s: float | None = None
    late: bool = False
    measured: bool = False
    open_s: float = 0.0
    open_steps: int = 0
    open_sum: float = 0.0
    open_sum_s: float = 0.0
    levels: tuple[float, ...] = ()
    paces: tuple[float, ...] = ()
    slow_run: int = 0


class Looks(Frozen):
    """When the job was looked at: from ``since`` to ``last``, but for the ``gaps``."""

    since: float | None = None
    last: float | None = None
    gaps: tuple[tuple[float, float], ...] = ()

    def with_one(self, at: float, cadence: float) -> "Looks":
        """Return them with a look at ``at``; after more than two cadences there was a gap.

        Of more gaps than are kept the oldest begin the watch anew.
        """
        if self.since is None or self.last is None:
            return Looks(since=at, last=at)
        if at <= self.last:
            return self
        if at - self.last <= UNWATCHED * cadence:
            return self.model_copy(update={"last": at})
        gaps = (*self.gaps, (self.last, at))
        since = self.since if len(gaps) <= GAPS else gaps[-GAPS - 1][1]
        return Looks(since=since, last=at, gaps=gaps[-GAPS:])


class JobStart(NamedTuple):
    """A job that a cockpit started for the run."""

    at: float
    job_id: str


class Split(Frozen):
    """What the time went to. All of it adds up to the wall time.

    ``rework_s``: steps trained again after going back. ``spoilt_s``: steps whose loss is NaN or
    infinite. ``down_s``: a job was over and no other
    there. ``waiting_s``: in a queue. ``starting_s``: from a job's start to its first step.
    ``stalled_s``: no step for long, or slow (evaluation and saving that hold training up count).
    ``unwatched_s``: nobody saw what the job did; neither productive nor lost.
    """

    productive_s: Seconds = 0.0
    rework_s: Seconds = 0.0
    spoilt_s: Seconds = 0.0
    down_s: Seconds = 0.0
    waiting_s: Seconds = 0.0
    starting_s: Seconds = 0.0
    stalled_s: Seconds = 0.0
    unwatched_s: Seconds = 0.0

    @property
    def wall_s(self) -> float:
        """All of it."""
        return float(sum(getattr(self, name) for name in type(self).model_fields))

    @property
    def held_s(self) -> float:
        """The time for which a job held its accelerators and trained nothing that counted."""
        return self.rework_s + self.spoilt_s + self.starting_s + self.stalled_s


class Restarts(Frozen):
    """How often training began again: by us, by the orchestrator, by nobody knows whom."""

    ours: int = 0
    requeues: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.ours + self.requeues + self.unknown


class Goodput(Frozen):
    """One run's account since its lineage's first launch (as far back as is known).

    ``share`` is that of the watched time, ``None`` while there is none, or where ``share_why``
    tells what is not known; then ``steps_lost`` is ``None``, too, unless the journal tells it.
    ``held_s`` is how long jobs are known to have held their machines, whatever they did with them,
    and ``accelerator_hours_held`` the same over all accelerators; ``unseen_s`` is for how long
    that is not known. ``held_as`` are the numbers of accelerators that jobs told while they held
    them; for ``held_untold_s`` none told one, it is taken to be the present one.
    ``accelerators_by`` tells whose word their number is.
    ``accelerator_hours_lost`` is what the job held without training a step that counted, ``None``
    where its system does not tell how many accelerators that were (``accelerators_why``).
    """

    since: Instant
    until: Instant
    share: float | None
    split: Split
    restarts: Restarts = Restarts.model_construct()
    steps_lost: int | None = 0
    held_s: Seconds = Field(default=0.0, exclude=True)
    unseen_s: Seconds = Field(default=0.0, exclude=True)
    held_untold_s: Seconds = Field(default=0.0, exclude=True)
    held_as: tuple[int, ...] = Field(default=(), exclude=True)
    accelerators: int | None = None
    accelerators_by: str | None = None
    accelerator_hours_held: float | None = None
    accelerator_hours_lost: float | None = None
    accelerators_why: str | None = None
    share_why: str | None = None
    evidence: tuple[str, ...] = ()

    @property
    def restarts_known(self) -> bool:
        """Whether no restart that was seen means that there was none."""
        told = self.share_why is None and self.steps_lost is not None
        return told or self.restarts.total > 0

    def document(self) -> dict[str, Any]:
        """Return ``goodput`` of ``check --json``."""
        plain = self.to_json()
        split = plain.pop("split")
        restarts = {**plain.pop("restarts"), "total": self.restarts.total}
        restarts["known"] = self.restarts_known
        return {**plain, "wall_s": self.split.wall_s, **split, "restarts": restarts}


PARTS: Final = {
    "productive_s": "productive", "rework_s": "trained again", "spoilt_s": "NaN or inf loss",
    "stalled_s": "stalled or slow", "starting_s": "starting", "waiting_s": "in queue",
    "down_s": "down", "unwatched_s": "unwatched",
}  # fmt: skip
"""What the time went to, the best first."""


def headline(found: Goodput, since: str = "") -> str:
    """Return ``goodput 92.3 % of 3d 04h since 2026-03-11 08:41 UTC``; ``since`` in other words."""
    watched = found.split.wall_s - found.split.unwatched_s
    since = since or utc_minute(found.since)
    if found.share is None:
        why = found.share_why or f"nobody saw what the job did since {since}"
        return f"goodput unknown: {why}"
    rest = f", {took(found.split.unwatched_s)} unwatched" if found.split.unwatched_s >= 1 else ""
    return f"goodput {share(found.share)} of {took(watched)} since {since}{rest}"


def took(seconds: float) -> str:
    """Return a time in the steps of an age, so that it does not tick: ``<15s``, ``3d 04h``."""
    return "<15s" if seconds < 15 else age(seconds)


def parts(found: Goodput) -> Iterator[tuple[str, str, float]]:
    """Yield name, words and seconds of each part that is at least a second."""
    for name, words in PARTS.items():
        seconds = getattr(found.split, name)
        if seconds >= 1.0:
            yield name, f"{words} {took(seconds)}", seconds


def losses(found: Goodput) -> str:
    """Return restarts and by whom, steps lost, and accelerator-hours lost."""
    count = found.steps_lost
    lost = f"{steps(count)} step{'' if count == 1 else 's'} lost"
    if count is None:
        lost = "steps lost: unknown"
    hours, why = found.accelerator_hours_lost, found.accelerators_why
    # That a system names no accelerators is no news.
    held = f"accelerator-hours lost: unknown ({why})" if why and found.accelerators else ""
    if hours is not None:
        held = f"{figure(hours)} accelerator-hours lost ({found.accelerators} held)"
    again = restarts(found.restarts) if found.restarts_known else "restarts: unknown"
    return " · ".join(filter(None, (again, lost, held)))


def restarts(found: Restarts) -> str:
    """Return how often training began again, and by whom."""
    if not found.total:
        return "no restart"
    by = ((found.ours, "ours"), (found.requeues, "requeued"), (found.unknown, "unknown"))
    named = ", ".join(f"{count} {who}" for count, who in by if count)
    return f"{found.total} restart{'' if found.total == 1 else 's'} ({named})"


def sentences(found: Goodput) -> tuple[str, ...]:
    """Return it in four lines: the share, the parts, what was lost, on what evidence."""
    split = ", ".join(words for _, words, _ in parts(found))
    return (headline(found), split, losses(found), "; ".join(found.evidence))


CELL: Final = 1800.0
"""Seconds of one cell."""
CELLS: Final = 48
WORST_LAST: Final = ".sfhuac"
"""Nobody watched, sealed, finished, healthy, unknown, attention, critical: what a cell tells."""
UNSEEN: Final = WORST_LAST[0]
_LETTERS: Final = {
    "sealed": "s", "finished": "f", "healthy": "h", "unknown": "u", "attention": "a",
    "critical": "c",
}  # fmt: skip


class Day(Frozen):
    """A letter of ``WORST_LAST`` for each cell, the newest last: the worst that was seen in it.

    ``end`` is when the newest cell ends, ``at`` when a verdict was seen last, and ``last`` that
    one's letter. A time longer than two cadences between two looks was watched by nobody.
    """

    end: float = 0.0
    cells: str = UNSEEN * CELLS
    at: float | None = None
    last: str = UNSEEN

    def until(self, now: float) -> str:
        """Return the cells of the 24 hours up to ``now``."""
        if not self.end:
            return UNSEEN * CELLS
        lasts(_end(now) - now)
        passed = int((_end(now) - self.end) // CELL)
        return (self.cells + UNSEEN * max(0, min(passed, CELLS)))[-CELLS:]

    def with_look(self, at: float, verdict: str, cadence: float) -> "Day":
        """Return it with a verdict seen at ``at``; the one before held until then, if watched."""
        if self.at is not None and at < self.at:
            return self
        end, cells = _end(at), list(self.until(at))
        seen = _LETTERS[verdict]
        if self.at is not None and at - self.at <= UNWATCHED * cadence:
            first = CELLS - 1 - int((end - _end(self.at)) // CELL)
            for place in range(max(0, first), CELLS - 1):
                cells[place] = _worse(cells[place], self.last)
        cells[-1] = _worse(cells[-1], seen)
        return Day(end=end, cells="".join(cells), at=at, last=seen)


def _end(at: float) -> float:
    return (at // CELL + 1) * CELL


def _worse(one: str, other: str) -> str:
    return max(one, other, key=WORST_LAST.index)
