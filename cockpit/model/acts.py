"""Acts of people and agents: how they ended, in one set of words, and what agents mean to do."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.model.wording import clock_time, moment


class Outcome(StrEnum):
    """How an action ended; ``unknown`` means that it may still happen: look it up."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    FAILED = "failed"


class Records(StrEnum):
    """How far an action is written down for others; ``journal``: it has no other record."""

    KEPT = "recorded"
    JOURNAL = "in the journal"
    PENDING = "recorded here, push pending"
    HERE = "recorded here, not pushed"
    PARTLY = "not all of it is recorded"
    NONE = "not recorded"

    @property
    def whole(self) -> bool:
        """True unless something is missing: what is pushed at this moment is on its way."""
        return self in (Records.KEPT, Records.JOURNAL, Records.PENDING)

    @property
    def written(self) -> bool:
        """True when all of it stands in the files here, pushed or not."""
        return self.whole or self is Records.HERE


UNDER_WAY: Final = "under way"
INTERRUPTED: Final = "interrupted"
NO_END_KNOWN: Final = "begun on another machine, no end known"
_MEANS: Final = {
    Outcome.DONE: "",
    Outcome.REFUSED: "nothing was done",
    Outcome.UNKNOWN: "it may have happened or still happen; find out before doing anything else",
    Outcome.FAILED: "it did not happen, or only in part",
}


def means(outcome: Outcome) -> str:
    """Return what an outcome means for a person; nothing for one that is simply done."""
    return _MEANS[outcome]


def ending(
    outcome: Outcome | None, records: Records = Records.KEPT, at_it: bool | None = True
) -> str:
    """Return how it ended: ``done``, ``done, recorded here, not pushed``, ``refused``.

    A refusal leaves nothing to record. ``None``: nobody has ended it; ``at_it`` tells then
    whether whoever began it still does it (``None``: unknown from here).
    """
    if outcome is None:
        return {True: UNDER_WAY, False: INTERRUPTED, None: NO_END_KNOWN}[at_it]
    if outcome is Outcome.REFUSED or records in (Records.KEPT, Records.JOURNAL):
        return outcome.value
    but = "but " if records is Records.PARTLY else ""
    return f"{outcome.value}, {but}{records.value}"


def ending_means(outcome: Outcome, records: Records = Records.KEPT) -> str:
    """Return ``ending`` with what it means: ``refused, nothing was done``."""
    between = ", " if outcome is Outcome.REFUSED else ": "
    return between.join(filter(None, (ending(outcome, records), means(outcome))))


RECORDS: Final = "records"
"""The fact of a journal entry that holds how far it is written down."""


def records_of(noted: str | None, *, recorded: bool) -> Records:
    """Return how far an action is recorded: as the journal notes it, else by ``recorded``."""
    if noted in set(Records):
        return Records(noted)
    return Records.KEPT if recorded else Records.PARTLY


TELLS: Final = frozenset({"ack", "escalate", "log"})
"""Verbs that only tell people something: nobody need have the time to veto them."""
PLANNING_FOR: Final = 120.0
"""Seconds for which a plan that an agent made counts as being looked at by it."""
LATE: Final = 30.0
"""Seconds past the end of its grace after which an act that has not begun never does."""
BEGAN_FOR: Final = 120.0
"""Seconds for which "an agent has begun" is shown; after that the journal shows it."""
VETO_HOLDS: Final = 3600.0
"""Seconds for which a veto holds: that verb on that run, for all agents."""
TAKEN_HOLDS: Final = 900.0
"""Seconds for which agents keep away from a run that a person has taken over by a plan."""


class Stage(StrEnum):
    """How far an agent has come with an action; ``withdrawn``: it went away before it began."""

    PLANNED = "planned"
    WAITING = "waiting"
    BEGUN = "begun"
    ENDED = "ended"
    REFUSED = "refused"
    VETOED = "vetoed"
    TAKEN_OVER = "taken over"
    WITHDRAWN = "withdrawn"


class AgentAct(Frozen):
    """An action that an agent has planned or sent; ``run`` is the run's slug.

    ``until`` is when its grace ends, ``by`` the person who stopped it, ``said`` one line: their
    reason, or how it ended. ``changed_at`` is when ``stage`` became what it is, ``times`` how
    often the same plan was made.
    """

    number: int
    run: str
    agent: str
    action: str
    plan_id: str
    at: Instant
    stage: Stage
    changed_at: Instant
    until: Instant | None = None
    by: str | None = None
    said: str = ""
    times: int = 1

    def waits(self, now: float) -> bool:
        """Tell whether it may still begin by itself, and so can be vetoed."""
        return self.stage is Stage.WAITING and now <= (self.until or 0.0) + LATE

    def known_by(self, at: float) -> "AgentAct":
        """Return it as it was known at a moment: how far it came after that is left out."""
        if self.changed_at <= at:
            return self
        later = {"until": None, "by": None, "said": "", "times": 1}
        return self.model_copy(update={"stage": Stage.PLANNED, "changed_at": self.at} | later)

    def going_on(self, now: float, veto: str) -> str:
        """Return what it is about at this moment, in one line; nothing once that is over.

        ``veto`` is how a person stops it, such as ``V vetoes``; it comes first, never cut off.
        """
        what = f"{self.action} {self.run}"
        if self.waits(now) and self.until is not None:
            at = clock_time(self.until, seconds=True)
            return f"{veto}: {self.agent} will {what} at {at}"
        if self.stage is Stage.PLANNED and now - self.changed_at <= PLANNING_FOR:
            made = clock_time(self.changed_at, seconds=True)  # it may have died since
            return f"{self.agent} is planning {what} (plan made {made})"
        if self.stage is Stage.BEGUN and now - self.changed_at <= BEGAN_FOR:
            return f"{self.agent} began {what} at {clock_time(self.changed_at, seconds=True)}"
        return ""

    @property
    def text(self) -> str:
        """How far it came, in one line: ``relaunch by agent:x: vetoed by ada (not tonight)``."""
        times = f", {self.times} times" if self.times > 1 else ""
        who = f" by {self.by}" if self.by else ""
        said = f" ({self.said})" if self.said else ""
        stage = self.stage.value
        if self.stage is Stage.WAITING and self.until is not None:
            stage = f"waited for a veto until {moment(self.until)}, never seen to begin"
        elif self.stage is Stage.BEGUN:
            stage = "begun, not seen to end"
        return f"{self.action} by {self.agent}: {stage}{who}{said}{times}"


class AgentCalls(Frozen):
    """How often an agent used one tool in one hour, with what end (``ok``, ``error``)."""

    agent: str
    tool: str
    ended: str
    hour: Instant
    count: int
    last_at: Instant

    @property
    def text(self) -> str:
        """Return ``agent:x used log 12 times``, with its end where that was not well."""
        times = "once" if self.count == 1 else f"{self.count} times"
        how = "" if self.ended == "ok" else f": {self.ended}"
        return f"{self.agent} used {self.tool} {times}{how}"


def going_on(acts: Iterable[AgentAct], now: float, veto: str) -> list[str]:
    """Return what agents are about at this moment, what can be vetoed first."""
    ordered = sorted(acts, key=lambda act: not act.waits(now))
    return list(filter(None, (act.going_on(now, veto) for act in ordered)))
