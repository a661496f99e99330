"""One run judged: facets and folds in, alerts over time and a report out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Acknowledgement, Alert, Evidence, RowSpan, Severity
from cockpit.model.base import rfc3339
from cockpit.model.goodput import Goodput
from cockpit.model.history import History
from cockpit.model.observed import Row, Triage
from cockpit.model.report import FACETS, Facets, Progress, RunReport, Verdict
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import OwnerNow, SharedFact, owner_now, taken_in
from cockpit.model.standing import StandingOrder
from cockpit.model.trend import Trend
from cockpit.rules.cost import cost
from cockpit.rules.goodput import goodput
from cockpit.rules.judge import judge, worst_first
from cockpit.rules.lineage.lineages import with_lineages_marked, with_suspects_marked
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.metrics.progress import progress, with_baseline, with_final_step
from cockpit.rules.metrics.writers import without_the_other
from cockpit.rules.replay import SOURCE, Happened, Standing, judge_rows
from cockpit.rules.verdict import next_action, of_alerts, row_of, situation
from cockpit.store.alerts import Kept
from cockpit.watch.runstate import RunState


class Settled(NamedTuple):
    """The open alerts, those of them that the rows have ended, and what nobody saw open."""

    open: dict[str, Kept]
    ended: tuple[Kept, ...]
    unseen: tuple[Kept, ...]


def merged(over: Iterable[Happened], grace: float) -> list[Happened]:
    """Return events in their order; those of one key, ``grace`` (s) apart at most, are one."""
    found: list[Happened] = []
    newest: dict[str, int] = {}
    for each in over:
        place = newest.get(each.alert.key)
        former = None if place is None else found[place]
        if place is not None and former is not None and _soon(former, each.opened_at, grace):
            found[place] = former._replace(closed_step=each.closed_step, closed_at=each.closed_at)
            continue
        newest[each.alert.key] = len(found)
        found.append(each)
    return found


def _soon(former: Happened, opened_at: float | None, grace: float) -> bool:
    ended = former.closed_at
    return ended is not None and opened_at is not None and 0 <= opened_at - ended <= grace


def span_of(each: Happened, *, passed: bool) -> RowSpan:
    """Return where an event opened and closed; rows that all came at one time tell none."""
    begun, ended = each.opened_at, each.closed_at
    timed = begun is not None and (not each.over or (ended is not None and ended > begun))
    return RowSpan(
        opened_step=each.opened_step,
        opened_at=begun if timed else None,
        closed_step=each.closed_step,
        closed_at=ended if timed else None,
        passed=passed,
    )


def kept_of(each: Happened, now: float) -> Kept:
    """Return an event as it is kept: closed when its rows say, at the look where they do not."""
    span = span_of(each, passed=True)
    closed_at = now if span.closed_at is None else min(now, span.closed_at)
    opened_at = closed_at if span.opened_at is None else min(closed_at, span.opened_at)
    since = opened_at if span.opened_at is None else min(opened_at, each.alert.since)
    steps = f"step {wording.step(span.opened_step)} to {wording.step(span.closed_step)}"
    when = "" if span.opened_at is not None else "; its rows have no time"
    line = Evidence(text=f"ended by itself before anyone looked: {steps}{when}", source=SOURCE)
    changes = {"span": span, "since": since, "evidence": (*each.alert.evidence, line)}
    return Kept(
        alert=each.alert.model_copy(update=changes), opened_at=opened_at, closed_at=closed_at
    )


def with_spans(alerts: Sequence[Alert], standing: Iterable[Happened]) -> tuple[Alert, ...]:
    """Return the alerts with where the rows say that they opened, as far as these judge them."""
    spans = {each.alert.key: span_of(each, passed=False) for each in standing}
    return tuple(
        alert.model_copy(update={"span": spans[alert.key]}) if alert.key in spans else alert
        for alert in alerts
    )


def settle(
    known: Mapping[str, Kept],
    lately: Sequence[Kept],
    passed: Sequence[Kept],
    judged: Sequence[Alert],
    grace: float,
) -> Settled:
    """Hold what came and went against the ``known`` open alerts and those closed ``lately``.

    One that is the end of an alert which was seen open is no event of its own: it ends that one,
    and what holds now has opened again, if that was more than ``grace`` (s) later.
    """
    still = dict(known)
    holds = {alert.key: alert for alert in judged}
    ended: list[Kept] = []
    unseen: list[Kept] = []
    for each in passed:
        key = each.alert.key
        seen = still.get(key)
        if seen is None or not seen.is_same(each, grace):
            if not any(kept.is_same(each, grace) for kept in (*lately, *ended)):
                unseen.append(each)
            continue
        alert = seen.alert.model_copy(update={"span": _through(seen.alert.span, each)})
        over = seen.model_copy(update={"alert": alert})
        if key not in holds:
            still[key] = over  # closes as all do: when everything has been looked at
        elif _later(holds[key], each, grace) and not _goes_on(seen.alert, holds[key], grace):
            del still[key]
            ended.append(over.model_copy(update={"closed_at": each.closed_at}))
    return Settled(still, tuple(ended), tuple(unseen))


def _through(span: RowSpan | None, each: Kept) -> RowSpan | None:
    """Return where an alert opened, and where this event of it closed."""
    own = each.alert.span
    if span is None or own is None:
        return own if own is None else own.model_copy(update={"passed": False})
    ended = {"closed_step": own.closed_step, "closed_at": own.closed_at}
    return span.model_copy(update=ended)


def _goes_on(known: Alert, holds: Alert, grace: float) -> bool:
    """Tell whether an alert that is known stands for what holds now: the same rows opened both.

    So rows that an engine reads again do not end what the one before it had taken up.
    """
    mine, own = known.span, holds.span
    if mine is None or own is None or mine.opened_step != own.opened_step:
        return False
    times = (mine.opened_at, own.opened_at)
    return None in times or abs((times[0] or 0.0) - (times[1] or 0.0)) <= grace


def _later(alert: Alert, each: Kept, grace: float) -> bool:
    """Tell whether what holds now has opened long after an event was over."""
    span, own = alert.span, each.alert.span
    if span is None or own is None or span.opened_at is None or own.closed_at is None:
        return False
    return span.opened_at > own.closed_at + grace


SAME_WORD = 0.01
"""Seconds by which one word, in the store and as it was told, may differ: times are cut off."""


class Case(NamedTuple):
    """One run as it is at one moment; ``log_rows`` are to be folded into ``log_trend`` first."""

    spec: RunSpec
    history: History
    log_trend: Trend
    log_rows: tuple[Row, ...]
    triage: Triage | None = None
    standing: Standing = Standing()
    log_standing: Standing = Standing()
    asked: frozenset[str] = frozenset(FACETS)
    """The facets that had been asked for by then."""


class Judged(NamedTuple):
    """What the rules say of one run at one moment, before it is held against the past."""

    spec: RunSpec
    history: History
    alerts: tuple[Alert, ...]
    progress: Progress
    log_trend: Trend
    log_standing: Standing = Standing()
    log_over: tuple[Happened, ...] = ()
    """What opened and closed within the log's rows, where they are all the rows there are."""
    goodput: Goodput | None = None
    asked: frozenset[str] = frozenset(FACETS)


class Reconciled(NamedTuple):
    """The open alerts in the rules' order, the ones that just closed, and what to store."""

    open: tuple[Kept, ...]
    closed: tuple[Kept, ...]
    changed: tuple[Kept, ...]


def case_of(state: RunState, now: float) -> Case:
    """Return what the rules may look at; the log's new rows are handed over with it."""
    rows = state.rows
    history = History(
        now=now,
        facets=state.facets,
        trend=rows.trend,
        log_trend=state.log_trend,
        phases=tuple(state.phases),
        checkpoints=tuple(state.marks),
        rows_from=_unread(state),
        log_from=_log_unread(state.facets),
        job_named=state.spec.job is not None,
        stop_ordered_by=state.stop_ordered_by,
        former_failures=state.former_failures,
        restarts=state.restarts,
        launched=state.shared.launched,
        unsettled=state.shared.unsettled,
        sharers=state.sharers,
        outages=state.outages,
        full_disks=state.full_disks,
        looks=state.looks,
        starts=state.shared.starts,
        used=state.shared.used,
        settings=state.settings.present,
        former_settings=state.settings.former,
        partial_since=state.partial_since,
        host=state.host,
        open=tuple(kept.alert for kept in state.open.values()),
        attended=state.attended,
        sealed_by=state.shared.sealed,
        not_read_yet=state.not_read_yet,
    )
    new, state.log_rows = state.log_rows, ()
    dri = owner_of(state, state.facets).name
    spec = state.spec if dri == state.spec.dri else state.spec.model_copy(update={"dri": dri})
    standing = rows.standing if rows.complete else Standing()
    asked = frozenset(state.looked)
    case = Case(spec, history, state.log_trend, new, None, standing, state.log_standing, asked)
    return with_diagnosis(case, state)


def with_diagnosis(case: Case, state: RunState) -> Case:
    """Return a case with what is known of why its job ended or stands still."""
    return case._replace(triage=None if state.diagnosis is None else state.diagnosis.triage)


def _unread(state: RunState) -> float:
    """Return the share of the tracker's rows before the first one folded."""
    rows = state.rows
    if rows.complete or rows.any:
        return 0.0 if rows.complete else rows.skipped
    return 0.0 if state.rows_read else 1.0


def _log_unread(facets: Facets) -> float:
    log = facets.log.value
    return 0.0 if log is None or not log.size else min(1.0, log.rows_begin / log.size)


def judged(case: Case) -> Judged:
    """Judge one run by what is seen of it, and by why its job ended or stands still."""
    log = judge_rows(case.log_trend, case.log_standing, case.log_rows, case.spec)
    seen = _history_seen(case, log.trend)
    spec = with_final_step(case.spec, seen)
    history = seen.model_copy(update={"facets": _with_triage(seen.facets, case.triage)})
    tracked = case.history.trend.rows > 0
    standing = case.standing if tracked else log.standing
    alerts = with_spans(judge(spec, history), standing.open)
    how_far = progress(spec, history)
    # Of what stands still, or learns nothing any more, nobody knows the end.
    if any(alert.id in ("C-06", "C-09") for alert in alerts):
        how_far = how_far.model_copy(update={"eta_s": None})
    over = () if tracked else log.over
    account = goodput(spec, history)
    trend, still = log.trend, log.standing
    history = history.model_copy(update={"facets": without_the_other(spec, history)})
    return Judged(spec, history, alerts, how_far, trend, still, over, account, case.asked)


def view_of(case: Case) -> History:
    """Return what is seen, folds and all; the log's rows stand in for a tracker without any."""
    return _history_seen(case, advance(case.log_trend, case.log_rows, case.spec))


def _history_seen(case: Case, log_trend: Trend) -> History:
    history = case.history
    tracked = history.trend.rows > 0
    trend = history.trend if tracked else log_trend
    facets = with_baseline(history.facets, trend)
    history = history.model_copy(update={"facets": facets, "trend": trend, "log_trend": log_trend})
    if not tracked and log_trend.rows:
        history = history.model_copy(update={"rows_from": max(history.rows_from, history.log_from)})
    history = history.model_copy(update={"facets": with_suspects_marked(history)})
    return history.model_copy(update={"facets": with_lineages_marked(history)})


def reconcile(
    known: Mapping[str, Kept],
    lately: Sequence[Kept],
    judged: Sequence[Alert],
    now: float,
    *,
    grace: float,
    may_close: bool,
    looked_at: float | None = None,
) -> Reconciled:
    """Merge the rules' verdict with the ``known`` open alerts (by key) and ``lately`` closed ones.

    ``grace`` is the time (s) in which a closed alert that returns is reopened rather than new.
    Without ``may_close`` (something has not been looked at yet) nothing closes. ``looked_at`` is
    when the job was seen last: what another engine has opened since then is not closed by that.
    """
    back = {kept.alert.key: kept for kept in lately if now - (kept.closed_at or 0.0) <= grace}
    fresh = {alert.key: _merge(known, back, alert, now, grace) for alert in judged}
    gone = [kept for key, kept in known.items() if key not in fresh]
    held = {
        kept.alert.key: kept
        for kept in gone
        if not may_close or (looked_at is not None and looked_at < kept.opened_at <= now)
    }
    fresh |= held
    over = [kept for kept in gone if kept.alert.key not in held]
    closed = [kept.model_copy(update={"closed_at": now}) for kept in over]
    changed = [kept for key, kept in fresh.items() if kept != known.get(key)]
    return Reconciled(open=tuple(fresh.values()), closed=tuple(closed), changed=(*changed, *closed))


def current(taken: Acknowledgement | None, now: float) -> Acknowledgement | None:
    """Return an acknowledgement unless its time is over."""
    over = taken is not None and taken.until is not None and taken.until <= now
    return None if over else taken


def _merge(
    known: Mapping[str, Kept], back: Mapping[str, Kept], alert: Alert, now: float, grace: float
) -> Kept:
    former = known.get(alert.key) or back.get(alert.key)
    if former is None:
        return Kept(alert=alert.model_copy(update={"acknowledged": None}), opened_at=now)
    worse = alert.severity.rank > former.alert.severity.rank
    taken = None if worse else current(former.alert.acknowledged, now)
    since, bound = _since(former.alert, alert, grace)
    changes = {"since": since, "since_or_before": bound, "acknowledged": taken}
    kept = alert.model_copy(update=changes)
    return former.model_copy(update={"alert": kept, "closed_at": None})


def _since(former: Alert, alert: Alert, grace: float) -> tuple[float, bool]:
    """Return since when an alert holds, and whether that is only the latest that it can be.

    A first look may have read only the newest rows, or the log's in place of the tracker's: the
    whole history can show when it began. What a look at a part says then changes nothing more.
    """
    if former.since_or_before == alert.since_or_before:
        return min(former.since, alert.since), alert.since_or_before
    if alert.since_or_before:
        return former.since, False
    again = alert.since > former.since + grace  # it has come back since; what began it is not read
    return (former.since, True) if again else (alert.since, False)


def report_of(found: Judged, alerts: tuple[Alert, ...], state: RunState) -> RunReport:
    """Return the report of a judged run, with its alerts as they are kept over time."""
    watch, alerts = state.shared.owner, worst_first(alerts)
    owner = owner_of(state, found.history.facets)
    here = situation(found.spec, found.history, alerts)
    row = row_of(here)
    return RunReport(
        spec=found.spec,
        checked_at=found.history.now,
        verdict=row.verdict,
        verdict_reason=row.why(here),
        facets=_report_facets(found),
        progress=found.progress,
        alerts=alerts,
        closed=state.closed_alerts(),
        next_action=next_action(found.spec, found.history, alerts, row.verdict),
        next_check_at=state.next_check_at,
        watched_by=None if watch is None else watch.owner.label,
        agents=state.shared.agents,
        standing=standing_of(state, found.history.facets, found.history.now),
        owner=owner,
        goodput=found.goodput,
        cost=cost(found.spec, found.history, found.goodput, alerts),
        stopped_by=found.history.stop_ordered_by,
        looks=state.looks,
        not_read_yet=found.history.not_read_yet,
    )


def _report_facets(found: Case | Judged) -> Facets:
    """Return the facets; one that nobody had asked for by then is not said to be missing."""
    facets = found.history.facets
    if len(found.asked) == len(FACETS):
        return facets
    return facets.as_unasked(found.spec, found.asked)


def unruled(case: Case, state: RunState) -> RunReport:
    """Return the report of a run on which the rules fail: facets and open alerts, no verdict.

    The verdict from before would go on saying that it is well.
    """
    alerts = worst_first(kept.alert for kept in state.open.values())
    former = None if state.report is None else state.report.progress
    nothing = Progress(step=None, final_step=None, final_step_source=None, text="unknown/unknown")
    why = "an internal error keeps the rules from judging it: check it yourself"
    return RunReport(
        spec=case.spec,
        checked_at=case.history.now,
        verdict=of_alerts(alerts) or Verdict.UNKNOWN,
        facets=_report_facets(case),
        progress=nothing if former is None else former.model_copy(update={"eta_s": None}),
        alerts=alerts,
        closed=state.closed_alerts(),
        next_action=why,
        verdict_reason=why,
        next_check_at=state.next_check_at,
        agents=state.shared.agents,
        standing=standing_of(state, case.history.facets, case.history.now),
        looks=state.looks,
    )


def standing_of(state: RunState, facets: Facets, now: float) -> StandingOrder | None:
    """Return the standing order that is in force, by the store and by what other cockpits tell."""
    order, records = state.shared.standing, facets.records.value
    if order is None:
        return None
    order = order.known_with(() if records is None else records.told, now)
    return order if order.over is None else None


def owner_of(state: RunState, facets: Facets) -> OwnerNow:
    """Return who owns a run, by the run file and by the facts that cockpits share."""
    spec, records = state.spec, facets.records.value
    told = (*(() if records is None else records.told), *state.shared.handed)
    return owner_now(spec.name, spec.dri, told)


def taken_elsewhere(
    known: Mapping[str, Kept], told: Sequence[SharedFact], now: float
) -> dict[str, Kept]:
    """Return the open alerts with who acknowledged them, here or in another cockpit.

    The newest one counts; one about a lesser severity, or about an alert that had not opened
    then, does not.
    """
    return {key: _taken_over(kept, told, now) for key, kept in known.items()}


def _taken_over(kept: Kept, told: Sequence[SharedFact], now: float) -> Kept:
    alert = kept.alert
    found = taken_in(told, alert.key, alert.since)
    if found is None:
        return kept
    line, taken = found
    meant = [each for each in Severity if each.value == line.parts.get("severity")]
    own = alert.acknowledged
    if (own is not None and own.at >= taken.at - SAME_WORD) or (
        meant and meant[0].rank < alert.severity.rank
    ):
        return kept
    acknowledged = current(taken, now)
    return kept.model_copy(
        update={"alert": alert.model_copy(update={"acknowledged": acknowledged})}
    )


def _with_triage(facets: Facets, found: Triage | None) -> Facets:
    """Put the answer of a diagnosis into the log's facet (SPEC T)."""
    log = facets.log.value
    if log is None or log.triage == found:
        return facets
    value = log.model_copy(update={"triage": found})
    return facets.model_copy(update={"log": facets.log.model_copy(update={"value": value})})


Event = dict[str, Any]


def events(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    """Yield what is new, in this order: verdict, job, alerts, acknowledgements, agents.

    Each has ``schema``, ``at``, ``run`` and ``event``. Of a run that is seen for the first time
    everything is new but what is over. An alert that came and went between two looks is told as
    opened and as closed.
    """
    head = {"schema": 1, "at": rfc3339(new.checked_at), "run": new.name}
    found = (*_verdict(old, new), *_job(old, new), *_alerts(old, new), *_agents(old, new))
    yield from ({**head, **each} for each in found)


def _verdict(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before = None if old is None else old.verdict.value
    if before != new.verdict.value:
        yield {"event": "verdict", "from": before, "to": new.verdict.value}


def _job(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before, now = (None if old is None else old.facets.job.value), new.facets.job.value
    if now is not None and (before is None or (before.id, before.phase) != (now.id, now.phase)):
        yield {"event": "job", "phase": now.phase.value, "id": now.id, "reason": now.reason}


def _alerts(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before = {} if old is None else {each.key: each for each in old.alerts}
    now = {each.key: each for each in new.alerts}
    yield from (_alert("opened", each) for key, each in now.items() if key not in before)
    yield from (_alert("closed", each) for key, each in before.items() if key not in now)
    for each in _passed(old, new):
        yield from (_alert(event, each) for event in ("opened", "closed"))
    for key, each in now.items():
        taken, former = each.acknowledged, before.get(key)
        if taken is not None and (former is None or former.acknowledged != taken):
            yield {**_alert("acknowledged", each), "by": taken.by}


def _passed(old: RunReport | None, new: RunReport) -> Iterator[Alert]:
    """Yield the alerts that opened and closed within the run's rows since the former report."""
    if old is None:
        return
    known = {(each.alert.key, each.alert.since) for each in old.closed}
    for closed in reversed(new.closed):  # the newest first
        alert = closed.alert
        unseen = alert.span is not None and alert.span.passed
        if unseen and (alert.key, alert.since) not in known:
            yield alert


def _alert(event: str, alert: Alert) -> Event:
    severity = alert.severity.value
    told = {"id": alert.id, "key": alert.key, "severity": severity, "title": alert.title}
    return {"event": event, **told}


def _agents(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before = {} if old is None else {act.number: act.stage for act in old.agents}
    for act in new.agents:
        if before.get(act.number) is not act.stage:
            until = None if act.until is None else rfc3339(act.until)
            by = {} if act.by is None else {"by": act.by}
            yield {"event": "agent", "agent": act.agent, "action": act.action,
                   "stage": act.stage.value, "until": until, **by}  # fmt: skip
