"""A run's cost, by the price in its run file and the time in which jobs held their machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.conditions import CONDITIONS
from cockpit.model.cost import HOUR, Cost
from cockpit.model.goodput import Goodput
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.rules.goodput import Held, held_in
from cockpit.rules.present import (
    accelerators_of,
    job_of,
    phase_of,
    phase_since,
    seen_after_end,
    seen_at,
)

BURNS = frozenset(name for row in CONDITIONS if row.burns for name in row.ids)


def cost(
    run: RunSpec, history: History, account: Goodput | None, alerts: Sequence[Alert]
) -> Cost | None:
    """Return what the run has cost up to now; ``None`` without a price in the run file."""
    price = run.price_per_hour or run.price_per_accelerator_hour
    if price is None:
        return None
    count, by = accelerators_of(run, history)
    whole = run.price_per_hour is not None
    burns = _burns(run, history, alerts)
    if account is not None and burns.sure and burns.since is not None:
        account = _to_last_look(run, history, account)
    found = Cost(
        currency=run.currency,
        price=price,
        per="job" if whole else "accelerator",
        accelerators=count,
        accelerators_by=by,
        per_hour=price if whole else None if count is None else price * count,
    )
    found = found.model_copy(update=_burning(run, history, found, account, burns))
    if account is None:
        why = "no start of the run is known"
        return found.model_copy(update={"spent_why": why, "lost_why": why, "basis": (why,)})
    changes = {
        "since": account.since,
        "until": account.until,
        "held_s": account.held_s,
        "unseen_s": account.unseen_s,
        **_spent(found, account, by),
        "basis": tuple(_basis(found, account)),
    }
    return found.model_copy(update=changes)


def _hours(found: Cost, held: Held | Goodput) -> float | None:
    """Return the hours that the price counts."""
    return held.held_s / HOUR if found.per == "job" else held.accelerator_hours_held


def _spent(found: Cost, account: Goodput, by: str) -> dict[str, Any]:
    """Return what was spent, and what of it went to steps that were trained again."""
    hours = _hours(found, account)
    untold = f"how many accelerators it holds is not known: {account.accelerators_why or by}"
    spent = {"spent_why": untold} if hours is None else {"spent": hours * found.price}
    if account.share_why is not None or account.steps_lost is None:
        why = account.share_why or "former attempts may have rows that are not read"
    elif hours is None or found.per_hour is None:
        why = untold
    elif found.per == "accelerator" and {*account.held_as} - {found.accelerators}:
        why = "its attempts held different numbers of accelerators"
    else:
        return {**spent, "lost_to_repeats": account.split.rework_s / HOUR * found.per_hour}
    return {**spent, "lost_why": why}


class Burns(NamedTuple):
    """Since when the run makes no progress while its machines are held, and why; or nothing is.

    Not ``sure``: it is not known whether anything burns, and ``why``.
    """

    since: float | None = None
    why: str | None = None
    sure: bool = True


def _burns(run: RunSpec, history: History, alerts: Sequence[Alert]) -> Burns:
    """Return what burns. A rented box that still answers is held after its job, too."""
    job, phase, host = job_of(history), phase_of(history), history.facets.host
    failed = min((each for each in alerts if each.id in BURNS), key=_since, default=None)
    since = None if failed is None else max(failed.since, (job and job.started_at) or 0.0)
    silent = history.job_named and not history.facets.job.known
    if job is None or phase is Phase.UNKNOWN or silent:
        why = history.facets.job.why_unknown("the job's state is not known")
        return Burns(since, why, sure=False)
    if phase.terminal:
        if run.teardown is None or not run.teardown.stops_meter:
            return Burns()
        if not seen_after_end(host, history):
            why = "whether the box still runs is not known"
            return Burns(phase_since(history), why, sure=False)
        return Burns(phase_since(history), "the job is over, the box still answers")
    if phase is Phase.RUNNING and failed is not None:
        return Burns(max(failed.since, job.started_at or phase_since(history)), failed.title)
    return Burns()


def _to_last_look(run: RunSpec, history: History, account: Goodput) -> Goodput:
    """Return the account beyond its newest step, or its success: machines are held on.

    So what burns is a part of what was spent.
    """
    facets = history.facets
    seen = seen_at(facets.host if phase_of(history).terminal else facets.job, history.now)
    if seen <= account.until:
        return account
    held = held_in(run, history, account.since, seen)
    return account.model_copy(update={"until": seen, **held._asdict()})


def _burning(
    run: RunSpec, history: History, found: Cost, account: Goodput | None, burns: Burns
) -> dict[str, Any]:
    """Return the part of what was spent since the run makes no progress."""
    told = {"burning_since": burns.since, "burning_why": burns.why}
    if not burns.sure:
        return told
    if burns.since is None:
        return {"burning": 0.0}
    if account is None:
        return {**told, "burning_why": "no start of the run is known"}
    begun = max(burns.since, account.since)
    hours = _hours(found, held_in(run, history, begun, max(begun, account.until)))
    if found.per_hour is None:
        return {**told, "burning_why": "its price in an hour is not known"}
    if hours is None:
        return {**told, "burning_why": account.accelerators_why}
    return {**told, "burning": hours * found.price}


def _since(alert: Alert) -> float:
    return alert.since


def _basis(found: Cost, account: Goodput) -> Iterator[str]:
    """Yield what the amounts rest on, a phrase each."""
    yield f"{found.priced}, by cockpit.toml"
    if found.per == "accelerator" and found.accelerators is not None:
        yield f"{wording.plural(found.accelerators, 'accelerator')} {found.accelerators_by}"
        if account.held_untold_s >= 1:
            untold = wording.span(account.held_untold_s)
            yield f"for {untold} no system told a number: taken to be the same"
    held = wording.span(account.held_s)
    yield f"jobs held their machines for {held} since {wording.utc_minute(account.since)}"
    if account.unseen_s >= 1:
        unseen = wording.span(account.unseen_s)
        yield f"not counted: {unseen} in which nobody saw whether a job ran"
