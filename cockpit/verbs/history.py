"""``cockpit history``: who did what to a run, when, on what evidence (from the store)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from cockpit.actions.core.confirming import refreshed
from cockpit.model.acts import AgentAct, AgentCalls
from cockpit.model.answers import HeardAnswer
from cockpit.model.base import Frozen, Instant, rfc3339
from cockpit.model.clock import SystemClock
from cockpit.model.goodput import Goodput, JobStart, Looks, sentences
from cockpit.model.history import History, Then
from cockpit.model.observed import Row
from cockpit.model.plan import Basis, Level
from cockpit.model.report import FleetReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.shared_facts import SharedFact, name_in
from cockpit.model.trend import Trend
from cockpit.model.wording import moment
from cockpit.model.wording import step as told_step
from cockpit.records.lease.state import looked_after
from cockpit.rules.goodput import goodput
from cockpit.rules.metrics.numerics import advance
from cockpit.runtime.offload import offload
from cockpit.sources.records import Records
from cockpit.sources.told import Remotes
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.answers import Answers
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.launches import AgentRecords
from cockpit.store.memory import LaunchedJob, Observation, RunMemory
from cockpit.store.store import Store, StoreError, run_key
from cockpit.text.times import read_moment
from cockpit.verbs.common import (
    OK,
    UsageError,
    helps,
    opened_store,
    put_answer,
    run_file,
    run_named,
)
from cockpit.verbs.table import fleet_lines
from cockpit.watch.past import past_at

READ_WITHIN = 60.0
NO_TIMES = "time unknown: its rows have no time"


class Past(Frozen):
    """What the store knows of a run up to ``until``, oldest first."""

    run: str
    until: Instant | None
    actions: tuple[JournalEntry, ...]
    alerts: tuple[Kept, ...]
    launches: tuple[LaunchedJob, ...]
    observation: Observation | None
    then: Then | None = None
    """The run as it was at ``until``; ``None`` where no moment is asked for."""
    goodput: Goodput | None = None
    told: tuple[SharedFact, ...] = ()
    """What others told in logbook and output root, oldest first; not what stands in the journal."""
    agents: tuple[AgentAct, ...] = ()
    """What agents planned and sent; what began of it stands in ``actions`` too."""
    calls: tuple[AgentCalls, ...] = ()
    """How agents used their tools on it, by the hour."""
    answers: tuple[HeardAnswer, ...] = ()
    """What was answered from a phone; what was done for it stands in ``actions`` too."""


HELP = """
Prints what was known, decided and done, from the store: every guarded action with its checks,
approvals and steps, every alert with who acknowledged it. With --at also the run as it was at that
moment: verdict, step, loss, alerts with their evidence, checkpoints, sources; what is not known of
it says why. --json is the export.

run_name
--at TIME: the run as it was then, and only what was known by then: 03:12 (UTC), '2h ago' or RFC \
3339
--config --json

example: cockpit history my-run --at 2026-03-11T08:57:00Z --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``history`` takes."""
    helps(parser, HELP, at={"type": past_instant})


def run(args: argparse.Namespace) -> int:
    """Print the history; return 0. Raises ``UsageError`` for a run that is not there."""
    file = run_file(args.config)
    spec = run_named(file, args.run_name)
    try:
        with opened_store(read_only=True) as store:
            past = asyncio.run(known_past(store, file, spec, args.at))
    except (StoreError, TimeoutError) as error:
        raise UsageError(str(error)) from error
    put_answer(args.json, partial(document, past), lambda: _history_lines(past))
    return OK


async def known_past(
    store: Store | None, file: CockpitFile, spec: RunSpec, until: float | None
) -> Past:
    """Return what is known of a run's past, here and from others; raises ``StoreError``.

    Without a store it is only what other cockpits reported. Raises ``TimeoutError`` for a store
    that hangs.
    """
    past = Past(run=spec.name, until=until, actions=(), alerts=(), launches=(), observation=None)
    if store is not None:
        kept = partial(_past_of, store, run_key(file.path, spec.name), spec, until)
        past = await offload(kept, deadline=READ_WITHIN)
    acts = await refreshed(past.actions, spec.records.logbook)
    # The facts that cockpits share about a run; bounded, changes nothing
    clock = SystemClock()
    found = (await Records(clock, None, Remotes(clock)).observe([spec]))[spec.name].value
    told = _facts_of_others(() if found is None else found.told, past)
    return past.model_copy(update={"told": told, "actions": acts})


def _past_of(store: Store, key: str, spec: RunSpec, until: float | None) -> Past:
    """Return what the store has of a run's past, as it was at a moment too if one is asked for."""
    past = read(store, key, spec, until)
    if until is None:
        return past
    return past.model_copy(update={"then": past_at(store, key, spec, until)})


def _facts_of_others(told: Sequence[SharedFact], past: Past) -> tuple[SharedFact, ...]:
    """Return what this store did not do itself, oldest first, up to the time that is asked for."""
    limit = float("inf") if past.until is None else past.until
    own = {(entry.operator, round(entry.begun_at, 3)) for entry in past.actions}
    mine = [e for e in told if e.at <= limit and (e.typed_by, round(e.at, 3)) not in own]
    return tuple(reversed(mine))


def read(store: Store, key: str, run: RunSpec, until: float | None) -> Past:
    """Return a run's past up to ``until``; raises ``StoreError``."""
    limit = float("inf") if until is None else until
    memory = RunMemory(store)
    seen = [each for each in memory.observations(key) if each.at <= limit]
    journal = Journal(store)
    acts = [entry for entry in journal.entries(key) if entry.begun_at <= limit]
    return Past(
        run=run.name,
        until=until,
        actions=tuple(_act_then(each, limit) for each in looked_after(acts, journal.place)),
        alerts=tuple(_alerts_then(Alerts(store).all(key), limit)),
        launches=tuple(one for one in memory.launches(key) if one.at <= limit),
        observation=seen[-1] if seen else None,
        goodput=_goodput(memory, key, run, seen, until),
        agents=tuple(a.known_by(limit) for a in AgentRecords(store).acts(key) if a.at <= limit),
        calls=tuple(each for each in _calls(store, key) if each.last_at <= limit),
        answers=tuple(each for each in _answers(store, key) if each.at <= limit),
    )


def _act_then(entry: JournalEntry, limit: float) -> JournalEntry:
    """Return an action as it was known at a moment: one that ended later was under way."""
    if entry.ended_at is not None and entry.ended_at <= limit:
        return entry
    known: dict[str, object] = {"steps": tuple(each for each in entry.steps if each.at <= limit)}
    if entry.ended_at is not None:
        known |= {"outcome": None, "ended_at": None, "message": "", "at_it": True}
    return entry.model_copy(update=known)


def _alerts_then(found: Sequence[Kept], limit: float) -> Iterator[Kept]:
    """Yield the alerts that were known at a moment, as they were: what came later is left out."""
    for kept in found:
        later = kept.closed_at is not None and kept.closed_at > limit
        if kept.opened_at > limit or (later and kept.passed):
            continue
        taken = kept.alert.acknowledged
        if taken is not None and taken.at > limit:
            alert = kept.alert.model_copy(update={"acknowledged": None})
            kept = kept.model_copy(update={"alert": alert})
        yield kept.model_copy(update={"closed_at": None, "seen": False}) if later else kept


def _calls(store: Store, key: str) -> tuple[AgentCalls, ...]:
    """Return the calls of agents about a run, and those about no run alone."""
    records, (file, _, _) = AgentRecords(store), key.rpartition("#")
    return (*records.calls(key), *records.calls(f"{file}#"))


def _answers(store: Store, key: str) -> tuple[HeardAnswer, ...]:
    """Return the answers about a run, and those that nobody knows what they are about."""
    answers, (file, _, _) = Answers(store), key.rpartition("#")
    return (*answers.of(key), *answers.of(f"{file}#"))


def _goodput(
    memory: RunMemory, key: str, run: RunSpec, seen: Sequence[Observation], until: float | None
) -> Goodput | None:
    """Return what the last report says of it; of an earlier time what was noted once a cadence."""
    report = memory.report(key) if until is None else None
    if report is not None and report.goodput is not None:
        return report.goodput
    if not seen:
        return None
    now = seen[-1].at if until is None else until
    looks = Looks()
    for each in seen:
        looks = looks.with_one(each.at, run.cadence)
    rows = tuple(Row(each.step, each.at, each.loss, bar=True) for each in seen)
    starts = tuple(JobStart(one.at, one.job_id) for one in memory.launches(key) if one.at <= now)
    found = goodput(
        run,
        History(
            now=now,
            trend=advance(Trend(), rows, run),
            phases=memory.phases(key),
            looks=looks,
            starts=starts,
        ),
    )
    source = f"{len(seen)} observations, one a cadence: what came and went in between is not seen"
    return None if found is None else found.model_copy(update={"evidence": (source,)})


def document(past: Past) -> dict[str, Any]:
    """Return the export: INTERFACE's plan and result of each action, and the alerts."""
    return {
        "schema": 1,
        "run": past.run,
        "at": None if past.until is None else rfc3339(past.until),
        **({} if past.then is None else {"then": past.then.document()}),
        "observation": None if past.observation is None else past.observation.to_json(),
        "goodput": None if past.goodput is None else past.goodput.document(),
        "launches": [launch.to_json() for launch in past.launches],
        "actions": [_action(entry) for entry in past.actions],
        "alerts": [_alert(kept) for kept in past.alerts],
        "told": [each.to_json() for each in past.told],
        "agents": {
            "acts": [act.to_json() for act in past.agents],
            "calls": [each.to_json() for each in past.calls],
        },
        "answers": [each.to_json() for each in past.answers],
    }


def _action(entry: JournalEntry) -> dict[str, Any]:
    return {
        "action": entry.action,
        "by": name_in(entry.operator),
        "typed_by": entry.operator,
        "on": entry.holder.label,
        "begun_at": rfc3339(entry.begun_at),
        "ended_at": None if entry.ended_at is None else rfc3339(entry.ended_at),
        "outcome": None if entry.outcome is None else entry.outcome.value,
        "message": entry.message,
        "recorded": entry.written.whole,
        "records": entry.written.value,
        "launch_id": entry.launch_id,
        "job_id": entry.job_id,
        "facts": entry.facts,
        "plan": entry.plan.document(),
        "steps": [step.to_json() for step in entry.steps],
    }


def _alert(kept: Kept) -> dict[str, Any]:
    closed = None if kept.closed_at is None else rfc3339(kept.closed_at)
    return {
        **kept.alert.to_json(),
        "opened_at": rfc3339(kept.opened_at),
        "closed_at": closed,
        "seen": kept.seen,
    }


def _history_lines(past: Past) -> Iterator[str]:
    dated = [
        *((entry.begun_at, list(_action_lines(entry))) for entry in past.actions),
        *((kept.opened_at, [_opened(kept)]) for kept in past.alerts if not kept.passed),
        *(
            (kept.closed_at, [_closed(kept, kept.closed_at)])
            for kept in past.alerts
            if kept.closed_at is not None
        ),
        *((each.at, [_fact_line(each)]) for each in past.told),
        *((one.at, [f"{moment(one.at)}  launched  {_ids(one)}"]) for one in past.launches),
        *((act.changed_at, [f"{moment(act.changed_at)}  {act.text}"]) for act in past.agents),
        *((each.last_at, [f"{moment(each.last_at)}  {each.text}"]) for each in past.calls),
        *((each.at, [f"{moment(each.at)}  {each.text}"]) for each in past.answers),
    ]
    if past.then is not None:
        yield from _then_lines(past.then)
    elif past.observation is not None:
        seen = past.observation
        yield f"last seen {moment(seen.at)}: {seen.verdict.value}, step {seen.step}"
    yield from () if past.goodput is None else filter(None, sentences(past.goodput))
    if not dated:
        yield f"nothing known about {past.run} here"
    for _, lines in sorted(dated, key=lambda pair: pair[0]):
        yield from lines


def _then_lines(found: Then) -> Iterator[str]:
    """Yield the run as it was: as ``check`` tells it, and how that is known."""
    report = found.report
    if report is None:
        yield f"{found.run} at {moment(found.at)}: not known"
    else:
        known = f"recorded {moment(found.recorded_at)}" if found.recorded_at else "reconstructed"
        yield f"{found.run} at {moment(found.at)} ({known}):"
        yield from fleet_lines(FleetReport(checked_at=found.at, runs=(report,)))
    yield from (f"  {each}" for each in found.lacks)


def past_instant(text: str) -> float:
    """Return epoch seconds of a moment (no zone means UTC); raises for argparse."""
    try:
        return read_moment(text, SystemClock().now(), ahead=True)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _action_lines(entry: JournalEntry) -> Iterator[str]:
    launch = "" if entry.launch_id is None else f"  {entry.launch_id}"
    yield f"{moment(entry.begun_at)}  {entry.action} by {entry.operator}: {entry.text}{launch}"
    if entry.message:
        yield f"    {entry.message}"
    yield from _evidence(entry)
    for step in entry.steps:
        note = f"  {step.note}" if step.note else ""
        yield f"    {moment(step.at)}  {step.name}: {step.state.value}{note}"


def _evidence(entry: JournalEntry) -> Iterator[str]:
    """Yield what was weighed: everything but plain passes, which the export holds."""
    for check in entry.plan.checks:
        if check.level is Level.PASS and check.basis is not Basis.INFERRED:
            continue
        by = "" if check.approved is None else f"; approved by {check.approved.whose}: "
        why = "" if check.approved is None else check.approved.reason
        yield f"    {check.level.value}  {check.id}: {check.text} [{check.basis.value}]{by}{why}"


def _opened(kept: Kept) -> str:
    taken = kept.alert.acknowledged
    who = "" if taken is None else f", acknowledged by {taken.by} at {moment(taken.at)}"
    alert = kept.alert
    return (
        f"{moment(kept.opened_at)}  opened  {alert.id} {alert.severity.value}: {alert.title}{who}"
    )


def _closed(kept: Kept, at: float) -> str:
    alert, span = kept.alert, kept.alert.span
    if not kept.passed or span is None:
        return f"{moment(at)}  closed  {alert.title}"
    steps = f"step {told_step(span.opened_step)} to {told_step(span.closed_step)}"
    since = f"since {moment(span.opened_at)}" if span.opened_at is not None else NO_TIMES
    what = f"{alert.id} {alert.severity.value}: {alert.title}"
    return f"{moment(at)}  closed unseen  {what}, {steps}, {since}"


def _fact_line(told: SharedFact) -> str:
    return f"{moment(told.at)}  {told.text}, typed by {told.typed_by}  [{told.source}]"


def _ids(launch: LaunchedJob) -> str:
    return " ".join(filter(None, (launch.launch_id, launch.job_id)))
