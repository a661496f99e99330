"""A run's goodput: how its wall time was spent, by recorded facts (``cockpit.model.goodput``).

The steps' own times show when training moved (``Stepping``). Each time without steps is split by
the phase that the job was seen in. Time that nobody watched and no system dates is *unwatched*.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from cockpit.model import wording
from cockpit.model.facet import Attempt
from cockpit.model.goodput import (
    UNWATCHED,
    Break,
    Goodput,
    Looks,
    Restarts,
    Split,
    Stepping,
)
from cockpit.model.history import History, PhaseMark
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.rules.metrics.progress import current_step
from cockpit.rules.present import (
    CLOCK_SKEW,
    TASKS_CHANGED,
    accelerators_of,
    job_of,
    patience,
    phase_of,
    seen_after_end,
    seen_at,
    tasks_changed,
)

HOUR = 3600.0
LATE = 3
"""Times the steps between two rows from which on a first step is none of a first attempt."""
UNTRAINED = -1
"""The step before a time in which none has been trained yet."""


class Begin(NamedTuple):
    """When an execution of the run began, under which id, and whether a cockpit started it.

    ``again``: the run had been trained before.
    """

    at: float
    job_id: str | None
    ours: bool
    again: bool


class Spell(NamedTuple):
    """One phase of one job, from ``since`` to ``until``, known to have lasted until ``known``.

    Its system dates its begin, so up to when it was first seen it is known however late that was.
    """

    since: float
    until: float
    phase: Phase
    known: float
    accelerators: int | None = None


class Held(NamedTuple):
    """How long jobs held their machines in a time: what ``Goodput``'s fields of these names say."""

    held_s: float
    unseen_s: float
    accelerator_hours_held: float | None
    held_untold_s: float
    held_as: tuple[int, ...]


def goodput(run: RunSpec, history: History) -> Goodput | None:
    """Return the account up to now (a run that succeeded: its end), ``None`` without a start."""
    marks = _phases_in_order(history)
    stepping, doubt = _placed(history, marks)
    since, until = _since(history, marks, stepping), _until(run, history, stepping)
    if since is None or until <= since:
        return None
    spells = _spells(marks, until)
    held = _held(run, history, stepping, marks, (since, until))
    if _blind(history, stepping):
        spells = [each._replace(phase=_unless_running(each.phase)) for each in spells]
    begins = begins_of(history, marks)
    untold = _unread_restarts(history, stepping, begins)
    spent: defaultdict[str, float] = defaultdict(float)
    for hole in _holes(stepping, since, until):
        _split(hole, spells, history.looks, spent, untold[-1].at if untold else since)
    spent["productive_s"] += stepping.productive_s + stepping.open_s
    spent["rework_s"] += stepping.rework_s
    spent["spoilt_s"] += stepping.spoilt_s
    spent["stalled_s"] += stepping.slow_s + stepping.pauses_s
    spent["unwatched_s"] += stepping.unlisted_s
    account = _account(run, history, Split(**spent), (since, until), _restarts(history, begins))
    evidence = [*([doubt] if doubt else []), *_evidence(history, stepping, account.split, marks)]
    account = account.model_copy(update={"evidence": tuple(evidence), **held._asdict()})
    traceless = max(0, _unseen(history, stepping) - len(untold))
    return _without_unknown(account, run, history, len(untold), traceless)


def _held(
    run: RunSpec,
    history: History,
    stepping: Stepping,
    marks: Sequence[PhaseMark],
    span: tuple[float, float],
) -> Held:
    """Return how long jobs held their machines in a time, and for how long that is not known.

    While steps came they did. A rented machine is held between its jobs, too.
    """
    rented = run.teardown is not None and run.teardown.stops_meter
    spells = _spells(marks, span[1])
    if spells:
        held_to = _held_until(history, marks[-1], rented=rented)
        spells[-1] = spells[-1]._replace(known=max(spells[-1].known, min(held_to, span[1])))
    held: defaultdict[int | None, float] = defaultdict(float)
    unseen, at = 0.0, span[0]
    inside = (each._replace(since=max(each.since, span[0]), until=min(each.until, span[1]))
              for each in _holes(stepping, *span)
              if each.since < span[1] and each.until > span[0])  # fmt: skip
    for hole in (*inside, Break(span[1], span[1], UNTRAINED, False)):
        stepped = max(0.0, hole.since - at)
        for spell, since, until in _parts(spells, at, hole.since):
            held[spell.accelerators] += until - since
            stepped -= until - since
        held[None] += max(0.0, stepped)
        at = max(at, hole.until)
        left = hole.until - hole.since
        for spell, since, until in _parts(spells, hole.since, hole.until):
            left -= until - since
            seen = _seen(spell, since, until, history.looks)
            over = spell.phase.terminal or spell.phase is Phase.WAITING
            if spell.phase is Phase.RUNNING or (rented and over):
                held[spell.accelerators] += seen
            known = spell.phase is Phase.RUNNING or over
            unseen += until - since - (seen if known else 0.0)
        unseen += max(0.0, left)
    told = tuple(sorted(count for count in held if count is not None))
    hours = _hours_held(held, accelerators_of(run, history)[0])
    hours = None if tasks_changed(history) else hours
    return Held(sum(held.values()), unseen, hours, held.get(None, 0.0), told)


def _held_until(history: History, mark: PhaseMark, *, rented: bool) -> float:
    """Return until when the newest phase is sure to have held its machines, watched or not.

    A job that its system dates ran ever since that start, if it still runs. A rented box that
    answers after its job was there meanwhile.
    """
    job, host = job_of(history), history.facets.host
    if job is None or (job.id, job.phase) != (mark.job_id, mark.phase):
        return -math.inf
    if job.phase is Phase.RUNNING and history.facets.job.known:
        dated = job.started_at is not None and job.started_at <= mark.began + CLOCK_SKEW
        return seen_at(history.facets.job, history.now) if dated else -math.inf
    stays = rented and job.phase.terminal and seen_after_end(host, history)
    return seen_at(host, history.now) if stays else -math.inf


def held_in(run: RunSpec, history: History, since: float, until: float) -> Held:
    """Return how long jobs held their machines in a time, which may end after the account."""
    marks = _phases_in_order(history)
    stepping, _ = _placed(history, marks)
    return _held(run, history, stepping, marks, (since, until))


def _hours_held(held: Mapping[int | None, float], present: int | None) -> float | None:
    """Return it in accelerator-hours; where a job told none, it is taken to have as many as now."""
    counted = [(present if count is None else count, time) for count, time in held.items()]
    if not held or any(count is None and time > 0 for count, time in counted):
        return None
    return sum((count or 0) * time for count, time in counted) / HOUR


def _placed(history: History, marks: Sequence[PhaseMark]) -> tuple[Stepping, str]:
    """Return the steps with their times by our clock, and what is doubtful about those.

    No step was made in the future: a clock that says so is ahead, by so much at least. Where it
    cannot have been all the time (steps before the job began), nobody can tell when they were.
    """
    stepping = history.trend.stepping
    if stepping.first_at is None or stepping.at is None:
        return stepping, ""
    ahead = stepping.at - history.now
    if ahead <= CLOCK_SKEW:
        return stepping, ""
    first, last, words = stepping.first_at - ahead, stepping.at - ahead, wording.span(ahead)
    if any(first < mark.began - CLOCK_SKEW for mark in marks[:1] if mark.since is not None):
        return Stepping(), f"steps are dated up to {words} in the future: they are not counted"
    breaks = (each._replace(since=each.since - ahead, until=each.until - ahead)
              for each in stepping.breaks)  # fmt: skip
    placed = {"first_at": first, "at": last, "breaks": tuple(breaks)}
    told = f"steps are dated up to {words} in the future: all are taken as so much earlier"
    return stepping.model_copy(update=placed), told


def _account(
    run: RunSpec, history: History, split: Split, span: tuple[float, float], restarts: Restarts
) -> Goodput:
    stepping = history.trend.stepping
    watched = split.wall_s - split.unwatched_s
    count, by = accelerators_of(run, history)
    untold = by if count is None else TASKS_CHANGED if tasks_changed(history) else None
    return Goodput(
        since=span[0],
        until=span[1],
        share=split.productive_s / watched if watched > 0 else None,
        split=split,
        restarts=restarts,
        steps_lost=stepping.steps_again + stepping.steps_spoilt,
        accelerators=count,
        accelerators_by=None if count is None else by,
        accelerator_hours_lost=None if count is None or untold else split.held_s * count / HOUR,
        accelerators_why=untold,
    )


def _phases_in_order(history: History) -> tuple[PhaseMark, ...]:
    """Return the phases in the order in which they began, the present job's own dates with them."""
    marks = [mark for mark in history.phases if mark.at <= history.now]
    job, seen = job_of(history), history.facets.job.observed_at
    if job is not None and seen is not None:
        known = {mark.phase for mark in marks if mark.job_id == job.id}
        at, dates = min(history.now, seen), job.dates
        marks += [
            PhaseMark(at=at, phase=phase, job_id=job.id, since=dates.get(phase))
            for phase in dict.fromkeys((*dates, job.phase))
            if phase not in known
        ]
        if job.accelerators is not None:
            now = {"accelerators": job.accelerators}
            marks = [m if m.job_id != job.id else m.model_copy(update=now) for m in marks]
    return tuple(sorted(marks, key=lambda mark: mark.began))


def _since(history: History, marks: Sequence[PhaseMark], stepping: Stepping) -> float | None:
    """Return when the lineage began; where its first rows are not read, when the others begin."""
    if _unread(history) > 0:
        return stepping.first_at
    known = [mark.began for mark in marks[:1]]
    known += [start.at for start in history.starts[:1]]
    known += [stepping.first_at] if stepping.first_at is not None else []
    return min(known, default=None)


def _unread(history: History) -> float:
    """Return the share of the rows before the first one folded."""
    return history.log_from if history.trend is history.log_trend else history.rows_from


def _until(run: RunSpec, history: History, stepping: Stepping) -> float:
    """Return up to when it counts: the end of success, the newest step while steps come.

    Else the last look, unless nobody has looked for long.
    """
    job, phase = job_of(history), phase_of(history)
    looked = history.looks.last
    now = history.now
    if looked is not None and 0 <= now - looked <= UNWATCHED * run.cadence:
        now = looked
    if phase is Phase.SUCCEEDED and job is not None:
        ended = job.ended_at if job.ended_at is not None else stepping.at
        return now if ended is None else max(ended, stepping.at or ended)
    last = stepping.at
    if phase is not Phase.RUNNING or last is None or job is None:
        return now
    begun = job.started_at is None or last >= job.started_at - CLOCK_SKEW
    return last if begun and history.now - last <= patience(run, history) else now


def _holes(stepping: Stepping, since: float, until: float) -> Iterator[Break]:
    """Yield the times without steps: before the first, the listed breaks, after the last."""
    if stepping.first_at is None or stepping.at is None:
        yield Break(since, until, UNTRAINED, False)
        return
    if stepping.first_at > since:
        yield Break(since, stepping.first_at, UNTRAINED, False)
    yield from stepping.breaks
    if until > stepping.at:
        yield Break(stepping.at, until, stepping.step or 0, False)


def _spells(marks: Sequence[PhaseMark], until: float) -> list[Spell]:
    """Return the phases one after the other.

    A phase is known to have lasted to its end where the system dates the next one of the same
    job, or the job was over: nothing but another job's start ends that.
    """
    found = []
    for at, mark in enumerate(marks):
        after = marks[at + 1] if at + 1 < len(marks) else None
        end = until if after is None else after.began
        same = after is not None and after.job_id == mark.job_id
        dated = after is not None and after.since is not None and (same or mark.phase.terminal)
        known = end if dated else min(mark.at, end)
        found.append(Spell(mark.began, end, mark.phase, known, mark.accelerators))
    return found


def _split(
    hole: Break,
    spells: Sequence[Spell],
    looks: Looks,
    spent: defaultdict[str, float],
    told_from: float,
) -> None:
    """Add a time without steps to what it went to.

    Before ``told_from`` attempts ran whose steps are not known.
    """
    left = hole.until - hole.since
    for spell, since, until in _parts(spells, hole.since, hole.until):
        seen = _seen(spell, since, until, looks)
        untold = spell.phase is Phase.RUNNING and spell.until <= told_from + CLOCK_SKEW
        spent["unwatched_s" if untold else _kind(spell, hole)] += seen
        spent["unwatched_s"] += until - since - seen
        left -= until - since
    spent["unwatched_s"] += max(0.0, left)


def _parts(
    spells: Sequence[Spell], since: float, until: float
) -> Iterator[tuple[Spell, float, float]]:
    """Yield the phases of a time, each with the part of the time that it takes."""
    first = bisect_right(spells, since, key=lambda spell: spell.since)
    for spell in spells[max(0, first - 1) :]:
        if spell.since >= until:
            break
        begin, end = max(spell.since, since), min(spell.until, until)
        if end > begin:
            yield spell, begin, end


def _seen(spell: Spell, since: float, until: float, looks: Looks) -> float:
    """Return for how much (s) of a part of a phase it is known that the phase lasted."""
    known = min(until, max(since, spell.known))
    return known - since + _watched(looks, known, until)


def _blind(history: History, stepping: Stepping) -> bool:
    """Tell whether steps may be trained that nobody sees the time of: then a run does not start."""
    facets = history.facets
    shown = facets.tracker.known or facets.log.known
    untimed = current_step(history) is not None or not shown
    return stepping.first_at is None and untimed


def _unless_running(phase: Phase) -> Phase:
    return Phase.UNKNOWN if phase is Phase.RUNNING else phase


def _kind(spell: Spell, hole: Break) -> str:
    """Return what a time in a phase was, if no step was trained in it."""
    if spell.phase.terminal:
        return "down_s"
    if spell.phase is Phase.WAITING:
        return "waiting_s"
    if spell.phase is not Phase.RUNNING:
        return "unwatched_s"
    # A job that began after the last step, or a trainer that went back by itself, starts again.
    begun = hole.step == UNTRAINED or spell.since > hole.since + CLOCK_SKEW
    in_place = hole.back and spell.since <= hole.since and spell.until >= hole.until
    return "starting_s" if begun or in_place else "stalled_s"


def _watched(looks: Looks, since: float, until: float) -> float:
    """Return for how much of a time (s) somebody looked."""
    if looks.since is None or looks.last is None:
        return 0.0
    begin, end = max(since, looks.since), min(until, looks.last)
    blind = sum(max(0.0, min(end, b) - max(begin, a)) for a, b in looks.gaps)
    return max(0.0, end - begin - blind)


def begins_of(history: History, marks: Sequence[PhaseMark]) -> list[Begin]:
    """Return each begin that is known, oldest first: jobs that were seen to run, our launches.

    The first job that is seen to run after a launch, and before the next one, is that launch's.
    """
    running: list[PhaseMark] = []
    last: PhaseMark | None = None
    for mark in marks:
        goes_on = last is not None and (last.phase, last.job_id) == (Phase.RUNNING, mark.job_id)
        running += [mark] if mark.phase is Phase.RUNNING and not goes_on else []
        last = mark
    starts = sorted(start for start in history.starts if start.at <= history.now)
    found: list[tuple[float, str | None, bool]] = []
    for number, start in enumerate(starts):
        following = starts[number + 1].at if number + 1 < len(starts) else math.inf
        own = next((mark for mark in running if start.at - CLOCK_SKEW <= mark.began < following
                    and not (found and mark.began < found[-1][0])), None)  # fmt: skip
        running = [mark for mark in running if mark is not own]
        found.append((start.at if own is None else own.began, start.job_id, True))
    found += [(mark.began, mark.job_id, False) for mark in running]
    found.sort(key=lambda each: each[0])
    return [Begin(*each, again=at > 0 or _resumes(history)) for at, each in enumerate(found)]


def _resumes(history: History) -> bool:
    """Tell whether the first launch that is known goes on with a training: it is its only one."""
    launched = history.launched
    only = launched is not None and len(history.starts) == 1
    return only and launched is not None and launched.resumes_from is not None


def _unread_restarts(history: History, stepping: Stepping, begins: Sequence[Begin]) -> list[Begin]:
    """Return the restarts before the first row that is read: what ran before each is not known.

    Its rows are those of another W&B run, or of another log. An attempt that failed before its
    first step has none.
    """
    first, before, found = stepping.first_at, -math.inf, []
    for begin in begins:
        failed = [each for each in history.former_failures if before <= each.at <= begin.at]
        stepless = any(each.step is None for each in failed)
        slack = min(CLOCK_SKEW, (begin.at - before) / 2)  # of a short life less
        early = first is None or begin.at <= first + slack
        if begin.again and early and not stepless:
            found.append(begin)
        before = begin.at
    return found


def _unseen(history: History, stepping: Stepping) -> int:
    """Return how many restarts that the job's system counts have left no trace in the rows.

    Their log was overwritten. A restart within the rows is a time without steps, or a step
    that went back.
    """
    job, first = job_of(history), stepping.first_at
    if job is None or not job.restarts or first is None:
        return 0
    if job.started_at is not None and first < job.started_at - CLOCK_SKEW:
        return 0  # the rows reach back beyond the present attempt
    return max(0, job.restarts - len(stepping.breaks))


def _without_unknown(
    account: Goodput, run: RunSpec, history: History, untold: int, unseen: int
) -> Goodput:
    """Return the account without what nobody can tell where former attempts have no rows here.

    ``untold`` of them were launches of their own, ``unseen`` ones of the present job.
    """
    if not untold and not unseen:
        why = _two_writers(history) or _goes_on(run, history)
        if why is not None:
            return account.model_copy(update={"share": None, "share_why": why, "steps_lost": None})
        others = _maybe_attempts(history)
        if not others:
            return account
        newest = ", ".join(each.id for each in others[:-4:-1])
        more = ", …" if len(others) > 3 else ""
        told = (
            f"{wording.plural(len(others), 'other run')} ended in its place before it began:"
            f" {newest}{more}; perhaps former attempts{_joined_by(run)}"
        )
        return account.model_copy(
            update={"steps_lost": None, "evidence": (*account.evidence, told)}
        )
    launched, lost = history.launched, None
    if untold == 1 and not unseen and launched is not None:
        came, back = launched.failed_step, launched.resumes_from
        lost = None if came is None or back is None else max(0, came - back)
    attempts = wording.plural(untold + unseen, "former attempt")
    why = f"the steps of {attempts} are not in the rows that are read"
    why += _joined_by(run)
    held = account.accelerator_hours_lost is not None
    return account.model_copy(
        update={
            "share": None,
            "share_why": why,
            "steps_lost": None if lost is None else (account.steps_lost or 0) + lost,
            "accelerator_hours_lost": None,
            "accelerators_why": why if held else account.accelerators_why,
        }
    )


def _two_writers(history: History) -> str | None:
    """Return that two launches write one W&B run: their rows cannot be distinguished (C-25)."""
    tracker = history.facets.tracker.value
    if tracker is None or not tracker.writers or history.trend is history.log_trend:
        return None
    return f"two jobs write to W&B run {tracker.id}: their rows cannot be told apart"


def _maybe_attempts(history: History) -> Sequence[Attempt]:
    """Return the runs beside the tracker's that may be former attempts of this one, oldest first.

    What ended before our own first launch, from scratch, is another training.
    """
    tracker, first = history.facets.tracker.value, min(history.starts, default=None)
    if tracker is None or history.trend is history.log_trend:
        return ()
    if first is None or _resumes(history):
        return tracker.earlier
    return [each for each in tracker.earlier if (each.at or math.inf) > first.at]


def _joined_by(run: RunSpec) -> str:
    """Return which setting makes one account of former attempts; nothing where none does."""
    table = next(iter(run.trackers), None)
    return "" if table is None else f" ({table}.former joins them)"


def _goes_on(run: RunSpec, history: History) -> str | None:
    """Return that the first row of all goes on from a step that no attempt known here has made."""
    pace, spec = history.trend.pace, run.checkpoints
    gaps = [later - step for (step, _), (later, _) in pairwise(pace.recent) if later > step]
    if pace.first_step is None or not gaps or _unread(history) > 0:
        return None
    if pace.first_step <= LATE * max(gaps) or (spec is not None and spec.initialize_from):
        return None
    step = wording.step(pace.first_step)
    return f"the first row that is read is step {step}: what ran before is not known"


def _restarts(history: History, begins: Sequence[Begin]) -> Restarts:
    """Count the starts after the first: by our journal, under one job's id again, or unknown.

    A step that went back tells of one that nobody saw.
    """
    job, known = job_of(history), set[str | None]()
    ours = requeues = mine = 0
    for begin in begins:
        again = begin.again and not begin.ours and begin.job_id in known
        requeues += again
        mine += again and job is not None and begin.job_id == job.id
        ours += begin.again and begin.ours
        known.add(begin.job_id)
    if job is not None and job.restarts:
        requeues += max(0, job.restarts - mine)
    backs = 0 if _two_writers(history) else history.trend.stepping.backs
    seen = max(sum(begin.again for begin in begins), backs)
    return Restarts(ours=ours, requeues=requeues, unknown=max(0, seen - ours - requeues))


def _evidence(
    history: History, stepping: Stepping, split: Split, marks: Sequence[PhaseMark]
) -> Iterator[str]:
    if stepping.first_at is None:
        yield "no source shows when a step was made"
    else:
        source = "log" if history.trend is history.log_trend else "tracker"
        yield f"steps by the {source} since {wording.moment(stepping.first_at)}"
    if _unread(history) > 0:
        unread = wording.percent(min(_unread(history), 0.99))
        yield f"first {unread} of the rows not read: not counted"
    if marks:
        jobs = len({mark.job_id for mark in marks})
        yield f"phases of {wording.plural(jobs, 'job')} as seen"
    if history.starts:
        count = len(history.starts)
        yield f"{count} launch{'' if count == 1 else 'es'} in the journal"
    if split.unwatched_s > 0:
        yield f"nobody saw what the job did for {wording.span(split.unwatched_s)}: not counted"
