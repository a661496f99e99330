"""What came and went between two looks, held against the alerts that are known. Pure.

SPEC C: what opened and closed between two looks is an event all the same ("closed, unseen"),
with when by the rows' own time. One that returns within a cadence of closing is the same one, as
for alerts that were seen open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, RowSpan
from cockpit.rules.byrow import SOURCE, Happened
from cockpit.store.alerts import Kept


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
    and what holds now has opened anew, if that was more than ``grace`` (s) later.
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
