"""What happened to a run in a time, from the store alone: nothing is asked anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cockpit.model.cost import Cost
from cockpit.model.history import Happening, Kind, Sign, Then
from cockpit.model.lineage import newest_of
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.model.standing import StandingOrder
from cockpit.model.summary import RunSummary
from cockpit.model.wording import moment
from cockpit.store.journal import StandingOrders, run_digest
from cockpit.store.memory import LEAST_EVERY, Pasts, RunMemory
from cockpit.store.store import Store
from cockpit.watch.past import MISSED, MOST, past_at, timeline

OF_PEOPLE = (Kind.ACTION, Kind.HANDOFF)
NOTHING = "no cockpit of this machine has looked at it: nothing is kept here"


def summary(store: Store | None, key: str, run: RunSpec, since: float, until: float) -> RunSummary:
    """Return what is kept of a run (``key`` in the store) in a time; raises ``StoreError``."""
    look = f"look at it: cockpit check {run.name}"
    if store is None:
        past = timeline(None, key, run, None, until)
        found = RunSummary(name=run.name, since=since, until=until, next_action=look)
        return found.model_copy(update={**_listed(past.happenings, since), "lacks": (NOTHING,)})
    with store.reading():
        memory = RunMemory(store)
        order = StandingOrders(store).of(key)
        before, now = past_at(store, key, run, since), past_at(store, key, run, until)
        past = timeline(store, key, run, now.report, until)
        seen = [each for each in memory.observations(key) if each.at <= until]
        first = before
        if before.report is None and (kept := _first_kept(store, key, since, until)) is not None:
            first = past_at(store, key, run, kept)
    steps = [each.step for each in seen if each.at >= since and each.step is not None]
    known = {} if now.report is None else _of_report(now.report, watched=now.watched, look=look)
    begins = [before.seen.step] if before.seen is not None and before.seen.step is not None else []
    account = None if now.report is None else now.report.goodput
    began = account.since if account is not None and account.since >= since else None
    return RunSummary(
        name=run.name,
        since=since,
        until=until,
        seen_at=seen[-1].at if seen else None,
        began=began,
        unwatched=tuple(_unwatched([each.at for each in seen], run, began or since, until)),
        step_from=next(iter((*begins, *steps)), None),
        step_to=next(iter((*reversed(steps), *begins)), None),
        restarts=_restarts(first, now, since),
        standing=None if order is None else _standing(run, order, now.report, since, until),
        lacks=(*past.lacks, *_cut(past.happenings, since), *([] if now.report else [NOTHING])),
        **{"next_action": look, **known},
        **_spent(first, now, since),
        **_listed(past.happenings, since),
    )


def _standing(
    run: RunSpec, order: StandingOrder, report: RunReport | None, since: float, until: float
) -> str | None:
    """Return what order was in force at some time, and why it is over; ``None`` for an old one."""
    records = None if report is None else report.facets.records.value
    now = order.known_with(() if records is None else records.told, until)
    changed = order.spec != run_digest(run)
    over = now.over or ("the run's table in the run file was changed since" if changed else None)
    if over is None:
        return now.text(until)
    return f"{now.text(until)}; over: {over}" if order.until >= since else None


def _cut(found: Sequence[Happening], since: float) -> Iterator[str]:
    """Yield that not all of what happened is read."""
    if len(found) >= MOST and found[-1].at > since:
        yield f"what happened before {moment(found[-1].at)}: only the newest {MOST:,} are read"


def _first_kept(store: Store, key: str, since: float, until: float) -> float | None:
    """Return the first moment of the time that is kept whole."""
    found = (each.at for each in Pasts(store).moments(key) if since <= each.at <= until)
    return next(found, None)


def _of_report(report: RunReport, *, watched: bool, look: str) -> dict[str, Any]:
    """Return what the last look tells of the run as it is."""
    found = report.facets.checkpoints.value
    complete = () if found is None else (each for each in found.items if each.complete and each.own)
    newest = newest_of(complete)
    return {
        "verdict": report.verdict,
        "verdict_reason": report.verdict_reason,
        "final_step": report.progress.final_step,
        "checkpoint": None if newest is None else newest.step,
        "cost": report.cost,
        "alerts": report.alerts,
        "next_action": report.next_action if watched else look,
    }


def _unwatched(
    looks: Sequence[float], run: RunSpec, since: float, until: float
) -> Iterator[tuple[float, float]]:
    """Yield the times between two looks, or beside the first and last, that are too long."""
    limit = MISSED * max(run.cadence, LEAST_EVERY)
    last = max((at for at in looks if at <= since), default=float("-inf"))
    for at in (*(at for at in looks if since < at), until):
        if at - last > limit:
            yield max(since, last), at
        last = at


def _listed(found: Sequence[Happening], since: float) -> dict[str, Any]:
    """Return what happened by itself, what people and orders did, and how many entries came."""
    lately = [each for each in reversed(found) if each.at >= since]
    whole = [each for each in lately if each.kind is Kind.CHECKPOINT and each.sign is Sign.CRITICAL]
    own = [each for each in lately if each.kind in (Kind.ALERT, Kind.JOB)]
    return {
        "happened": tuple(sorted((*own, *whole), key=lambda each: each.at)),
        "done": tuple(each for each in lately if each.kind in OF_PEOPLE),
        "entries": sum(each.kind is Kind.ENTRY for each in lately),
    }


def _restarts(before: Then, now: Then, since: float) -> int | None:
    """Return how often training began again."""
    account = None if now.report is None else now.report.goodput
    former = None if before.report is None else before.report.goodput
    if account is None or not account.restarts_known:
        return None
    if account.since >= since:
        return account.restarts.total
    return None if former is None else max(0, account.restarts.total - former.restarts.total)


def _spent(before: Then, now: Then, since: float) -> dict[str, Any]:
    """Return what of the cost falls into the time: the difference of two looks."""
    cost = None if now.report is None else now.report.cost
    former = None if before.report is None else before.report.cost
    if cost is None:
        return {}
    if cost.spent is None or cost.since is None:
        return {"spent_why": cost.spent_why}
    if cost.since >= since:
        return {"spent": cost.spent, "lost": cost.lost_to_repeats, "cost_from": cost.since}
    if former is None or former.spent is None:
        return {"spent_why": f"no cost is kept from {moment(before.at)}"}
    if (former.price, former.per, former.currency) != (cost.price, cost.per, cost.currency):
        return {"spent_why": "the price has changed since"}
    if former.since != cost.since or former.spent > cost.spent:
        return {"spent_why": "its account begins at another time than before"}
    lost = _difference(cost, former)
    return {"spent": cost.spent - former.spent, "lost": lost, "cost_from": former.until}


def _difference(cost: Cost, former: Cost) -> float | None:
    if cost.lost_to_repeats is None or former.lost_to_repeats is None:
        return None
    return max(0.0, cost.lost_to_repeats - former.lost_to_repeats)
