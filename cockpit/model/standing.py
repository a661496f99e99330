"""A standing order (SPEC A-15): what it may do, as a run file writes it, and one that is armed."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from cockpit.model.base import Duration, Frozen, Instant
from cockpit.model.shared_facts import (
    ACKNOWLEDGED,
    ADOPTED,
    END,
    LAUNCHED,
    OWNER,
    STANDING,
    STOPPED,
    SharedFact,
    by_standing_order,
    name_in,
)
from cockpit.model.wording import moment, plural, span

RelaunchedClass = Literal[
    "preempted", "node_death", "killed", "walltime", "hardware_fault", "network_transient",
]  # fmt: skip
"""A cause of a job's end (SPEC T) that calls for a plain relaunch."""


class StandingRelaunch(Frozen):
    """``relaunch`` of ``[run.standing]``: when a standing order may relaunch the run."""

    classes: tuple[RelaunchedClass, ...]
    """Why the job may have ended: preempted, node_death, killed, walltime, hardware_fault,
    network_transient."""
    at_most: Annotated[int, Ge(1), Le(20)] = 3
    """How many relaunches the order may make within the time below."""
    within: Duration = 12 * 3600.0
    """The time in which at_most relaunches are allowed (a duration)."""
    only_past_failure: bool = True
    """Whether the run must be past the step at which it failed before."""
    until: str | None = None
    """When an order ends, unless --until says: a duration from arming, or a time with zone."""


class StandingSpec(Frozen):
    """``[run.standing]``: what may be armed by typed words; written here it does nothing (A-15)."""

    relaunch: StandingRelaunch
    """When the run may be relaunched: { classes, at_most, within, only_past_failure, until }."""
    by: tuple[str, ...] = ()
    """Who may arm it, by name; default: the run's owner."""


ENDED: Final = "ended"
"""The value of the fact by which others hear that a standing order is over."""
PAST: Final = "past"
"""The part of a launch's fact that tells at which step the job before it failed."""
CLOCKS_OFF: Final = 3600.0
"""Seconds by which another machine's clock may be behind: what it tells then seems to be older
than the order. What was not known when the order was armed counts as later."""
_TAKES_OVER: Final = (OWNER, LAUNCHED, ADOPTED, STOPPED)


class StandingUse(Frozen):
    """One relaunch by a standing order: its launch id, when, and where the job before failed."""

    launch_id: str
    at: Instant
    failed_step: int | None = None


class StandingOrder(Frozen):
    """One that was armed. ``by`` is who typed it, ``over`` why it holds no more.

    ``uses`` are the relaunches that it has made, wherever, oldest first. ``spec`` tells the run's
    table as it was armed from every other one (``run_digest``), ``heard`` are the facts of others
    that were known by then.
    """

    entry: int
    by: str
    at: Instant
    until: Instant
    terms: StandingRelaunch
    spec: str = ""
    heard: frozenset[str] = frozenset()
    uses: tuple[StandingUse, ...] = ()
    over: str | None = None

    @property
    def operator(self) -> str:
        """Under which name it acts: ``standing order of ada``."""
        return f"standing order of {name_in(self.by)}"

    def used(self, now: float) -> int:
        """Return how many of its relaunches count at this moment."""
        return sum(each.at > now - self.terms.within for each in self.uses)

    def _is_later(self, told: SharedFact) -> bool:
        """Tell whether it was told after the arming, as far as other clocks can be believed.

        What a person has launched before that on another machine may be heard of later: that
        ends no order.
        """
        if told.digest in self.heard:
            return False
        launched = told.what in (LAUNCHED, ADOPTED) and not by_standing_order(told.typed_by)
        return told.at >= self.at - (0.0 if launched else CLOCKS_OFF)

    def known_with(self, told: Iterable[SharedFact], now: float) -> "StandingOrder":
        """Return it with what other cockpits tell of the run, at this moment."""
        since = [each for each in told if self._is_later(each)]
        uses = {each.launch_id: each for each in self.uses}
        over = self.over
        for each in sorted(since, key=lambda fact: fact.at):
            mine = by_standing_order(each.typed_by)
            if each.what == LAUNCHED and mine:
                step = each.parts.get(PAST, "")
                use = StandingUse(
                    launch_id=each.value,
                    at=each.at,
                    failed_step=int(step) if step.isdecimal() else None,
                )
                uses.setdefault(use.launch_id, use)
            elif (each.what in _TAKES_OVER or _at_rest(each)) and not mine:
                over = over or f"{each.text} by {each.typed_by} at {moment(each.at)}"
            elif each.what == STANDING and each.value == ENDED:
                over = over or f"ended by {each.typed_by} at {moment(each.at)}"
        if over is None and now >= self.until:
            over = f"it ended at {moment(self.until)}"
        ordered = tuple(sorted(uses.values(), key=lambda use: use.at))
        return self.model_copy(update={"uses": ordered, "over": over})

    def text(self, now: float) -> str:
        """Return it in one line: ``standing order of ada until 08:00: 1 of 3 relaunches used``."""
        used = f"{self.used(now)} of {self.terms.at_most} relaunches used"
        return f"{self.operator} until {moment(self.until)}: {used}"


def armed_by(told: Iterable[SharedFact]) -> str | None:
    """Return who has armed an order that nobody has ended since, as cockpits tell it."""
    newest = max(
        (each for each in told if each.what == STANDING), key=lambda fact: fact.at, default=None
    )
    return None if newest is None or newest.value == ENDED else newest.typed_by


def _at_rest(told: SharedFact) -> bool:
    """Tell whether somebody has acknowledged the run's end: it is not to go on."""
    return told.what == ACKNOWLEDGED and told.value == END


def terms_text(terms: StandingRelaunch) -> str:
    """Return what an order may do, in one line."""
    often = f"at most {plural(terms.at_most, 'time')} within {span(terms.within)}"
    past = ", only past the step of the failure before" if terms.only_past_failure else ""
    return f"relaunch after {', '.join(terms.classes)}; {often}{past}"
