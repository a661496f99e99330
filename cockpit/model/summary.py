"""What happened to a run in a time: what ``cockpit report`` prints, in its sections."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any, Final, NamedTuple

from cockpit.model.alert import Alert
from cockpit.model.base import Frozen, Instant
from cockpit.model.cost import Cost, basis, burning, money, spending
from cockpit.model.history import Happening
from cockpit.model.report import Verdict
from cockpit.model.wording import day_time, lasting, plural, steps

STALE: Final = 60.0
"""Seconds after which a figure says up to when it counts."""
MOST_GAPS: Final = 4
MOST_LINES: Final = 40
"""Lines of what happened, and of what was done; the newest are kept."""


class Section(NamedTuple):
    """Lines that belong together below a title."""

    title: str
    lines: tuple[str, ...]


class RunSummary(Frozen):
    """What is kept of a run from ``since`` to ``until``. ``None`` is unknown.

    ``seen_at`` is the last look at it. ``unwatched`` are the times in which no cockpit of this
    machine looked. ``spent`` and ``lost`` are the part of ``cost`` that falls into the time, from
    ``cost_from`` on, else ``spent_why`` says why that is not known. ``happened`` and ``done`` are
    oldest first.
    """

    name: str
    since: Instant
    until: Instant
    verdict: Verdict = Verdict.UNKNOWN
    verdict_reason: str | None = None
    seen_at: Instant | None = None
    began: Instant | None = None
    """When the run began, if that was in this time."""
    unwatched: tuple[tuple[Instant, Instant], ...] = ()
    step_from: int | None = None
    step_to: int | None = None
    final_step: int | None = None
    restarts: int | None = None
    checkpoint: int | None = None
    """The step of the newest complete checkpoint."""
    cost: Cost | None = None
    cost_from: Instant | None = None
    spent: float | None = None
    lost: float | None = None
    spent_why: str | None = None
    standing: str | None = None
    happened: tuple[Happening, ...] = ()
    done: tuple[Happening, ...] = ()
    entries: int = 0
    """How many entries the logbook got."""
    alerts: tuple[Alert, ...] = ()
    """What was open at the last look."""
    next_action: str = ""
    lacks: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return one entry of ``report --json``'s ``runs``."""
        return self.to_json()

    def sections(self) -> Iterator[Section]:
        """Yield the sections in the order in which a person reads them; times are UTC."""
        yield Section("open", tuple(self._open()))
        yield Section("next", (self.next_action,))
        yield Section("progress", tuple(self._progress()))
        if self.cost is not None:
            yield Section("cost", tuple(self._cost(self.cost)))
        if self.standing is not None:
            yield Section("standing", (self.standing,))
        yield Section("watched", tuple(self._watched()))
        yield Section("happened", tuple(self._listed(self.happened)) or ("nothing that is kept",))
        entries = (plural(self.entries, "logbook entry").replace("entrys", "entries"),)
        done = (*self._listed(self.done), *(entries if self.entries else ()))
        yield Section("done", done or ("nothing that is kept",))
        if self.lacks:
            yield Section("not known", self.lacks)

    def clock(self, at: float) -> str:
        """Return a time of the report: ``08:57``, of another day than its end ``11 Mar 08:57``."""
        return day_time(at, self.until, UTC)

    def _open(self) -> Iterator[str]:
        for alert in self.alerts:
            taken = alert.acknowledged
            by = "" if taken is None else f" (acknowledged by {taken.by})"
            since = f"since {self.clock(alert.since)}{alert.or_before}"
            yield f"{alert.id} {alert.severity.value}: {alert.title}, {since}{by}"
        if not self.alerts:
            yield "no alert" if self.seen_at is not None else "not known"

    def _progress(self) -> Iterator[str]:
        if self.began is not None:
            yield f"began {self.clock(self.began)}"
        first, last = self.step_from, self.step_to
        final = "" if self.final_step is None else f" of {self.final_step:,}"
        if first is None or last is None:
            yield f"step {steps(first)} to {steps(last)}{final}"
        else:
            yield f"step {first:,} to {last:,}{final} ({last - first:+,})"
        if self.restarts is None:
            yield "restarts: unknown"
        else:
            yield plural(self.restarts, "restart") if self.restarts else "no restart"
        if self.checkpoint is not None:
            yield f"newest complete checkpoint: {self.checkpoint:,}"

    def _cost(self, cost: Cost) -> Iterator[str]:
        last = self.until if cost.until is None else cost.until
        ended = f", up to {self.clock(last)}" if self.until - last >= STALE else ""
        if self.spent is None:
            yield f"spent in this time: unknown ({self.spent_why})"
        else:
            begun = "" if self.cost_from is None else f" since {self.clock(self.cost_from)}"
            lost = "" if not self.lost else f", {money(self.lost, cost.currency)} lost to repeats"
            yield f"spent in this time: {money(self.spent, cost.currency)}{begun}{ended}{lost}"
        now = None if cost.burning_since is None else self.clock(cost.burning_since)
        yield from (f"{each}{ended}" for each in burning(cost, now or ""))
        yield from (f"in all: {each}{ended}" for each in spending(cost))
        yield basis(cost)

    def _watched(self) -> Iterator[str]:
        blind = sum(until - since for since, until in self.unwatched)
        whole = self.until - max(self.since, self.began or 0.0)
        if self.seen_at is None or self.seen_at < self.since:
            last = (
                "" if self.seen_at is None else f"; the last look was at {self.clock(self.seen_at)}"
            )
            yield f"no cockpit of this machine looked in this time{last}"
            return
        if not self.unwatched:
            yield f"all of {lasting(whole)}"
            return
        shown = [
            f"{self.clock(since)} to {self.clock(until)} ({lasting(until - since)})"
            for since, until in self.unwatched[:MOST_GAPS]
        ]
        more = len(self.unwatched) - len(shown)
        shown += [f"{more} more"] * bool(more)
        yield f"{lasting(whole - blind)} of {lasting(whole)}; nobody: {', '.join(shown)}"

    def _listed(self, found: tuple[Happening, ...]) -> Iterator[str]:
        hidden = len(found) - MOST_LINES
        if hidden > 0:
            yield f"{hidden:,} earlier: cockpit history {self.name}"
        for each in found[-MOST_LINES:]:
            code = f"{each.code} " if each.code else ""
            note = f" ({each.note})" if each.note else ""
            yield f"{self.clock(each.at)} {code}{each.text}{note}"
