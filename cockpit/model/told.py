"""What one account tells all the others of a run, and what follows from it (SPEC A).

Told in the logbook and under the output root, one line each (``cockpit.text.told_lines``), and
read back by every cockpit. Whoever may write there may tell: each value says where it stood.
"""

import json
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from pydantic import Field

from cockpit.model.alert import Acknowledgement
from cockpit.model.base import Frozen, Instant
from cockpit.model.people import same_person, worded

OWNER: Final = "owner"
ACKNOWLEDGED: Final = "acknowledged"
LAUNCHED: Final = "launched"
ADOPTED: Final = "adopted"
NOTIFIED: Final = "notified"
STOPPED: Final = "stopped"
KINDS: Final = (OWNER, ACKNOWLEDGED, LAUNCHED, ADOPTED, NOTIFIED, STOPPED)
END: Final = "end"
"""What is acknowledged when it is a job's end and not an alert."""


class Told(Frozen):
    """One thing that somebody told the others: ``what`` is of ``KINDS``, ``value`` its subject.

    ``parts`` are further words by name; ``typed_by`` is the person at the keyboard with the
    account, ``source`` the place where it was read.
    """

    what: str
    value: str
    at: Instant
    typed_by: str
    parts: dict[str, str] = Field(default_factory=dict)
    source: str = ""

    @property
    def text(self) -> str:
        """What was told, in words; who typed it stands beside."""
        part = self.parts.get
        if self.what == OWNER:
            of = f" from {part('from')}" if part("from") else ""
            return f"handed over to {self.value}{of}"
        if self.what == ACKNOWLEDGED:
            until = f" until {part('until')}" if part("until") else ""
            why = f": {part('reason')}" if part("reason") else ""
            what = "the run's end" if self.value == END else self.value
            return f"{what} acknowledged by {part('by') or 'somebody'}{until}{why}"
        if self.what == LAUNCHED:
            return f"launched {self.value}" + (f", job {part('job')}" if part("job") else "")
        if self.what == ADOPTED:
            return f"adopted job {self.value}"
        return f"{self.value} was {'ordered to stop' if self.what == STOPPED else 'notified'}"


RUN_FILE: Final = "run file"
"""The source of whoever the run file names."""


class OwnerNow(Frozen):
    """Who answers for a run now (the DRI), by whose word, and what speaks against it.

    ``remedy`` is what makes run file and handover agree; ``None`` where they do.
    """

    name: str | None
    source: str = RUN_FILE
    at: Instant | None = None
    by: str = ""
    differs: str | None = None
    remedy: str | None = None

    @property
    def why(self) -> str:
        """Return how this one came to own the run; empty for the run file's own."""
        return f"handed over by {self.by}" if self.by else ""


def owner_now(run: str, named: str | None, told: Iterable[Told]) -> OwnerNow:
    """Return the owner: who the run was handed over to last, else whom the run file names.

    A handover stands until another one. That the run file names somebody else is no event with a
    time of its own (a file is saved, copied and checked out for many reasons): it is said, with
    what makes the two agree.
    """
    handed = sorted((each for each in told if each.what == OWNER), key=lambda each: each.at)
    if not handed:
        return OwnerNow(name=named)
    last, givers = handed[-1], [each.parts.get("from", "") for each in handed]
    by = worded(givers[-1] or "somebody", last.typed_by)
    owner = OwnerNow(name=last.value, source=last.source, at=last.at, by=by)
    if named is None or same_person(named, last.value):
        return owner
    then = [each.parts.get(RUN_FILE, "") for each in handed]
    former = any(same_person(named, each) for each in (*givers, *then) if each)
    hand = f"cockpit handoff {shlex.quote(run)} --to {shlex.quote(named)}"
    write = f"dri = {json.dumps(last.value, ensure_ascii=False)} in the run file"
    first, second = (write, hand) if former else (hand, write)
    differs = f"the run file {'still names' if former else 'names'} {named}"
    return owner.model_copy(update={"differs": differs, "remedy": f"{first}; or {second}"})


def stop_in(told: Iterable[Told], job_id: str, since: float) -> Told | None:
    """Return the newest order to stop a job, if one was told since then: ids are used again."""
    orders = (e for e in told if e.what == STOPPED and e.value == job_id and e.at >= since)
    return max(orders, key=lambda each: each.at, default=None)


def taken_in(told: Iterable[Told], key: str, since: float) -> tuple[Told, Acknowledgement] | None:
    """Return the newest acknowledgement of an alert that has stood since then, if it was told.

    One from before the alert began was of another alert.
    """
    mine = [e for e in told if e.what == ACKNOWLEDGED and e.value == key and e.at >= since]
    newest = max(mine, key=lambda each: each.at, default=None)
    if newest is None:
        return None
    until = instant_in(newest.parts.get("until"))
    by = worded(newest.parts.get("by") or newest.typed_by, newest.typed_by)
    why = newest.parts.get("reason") or None
    return newest, Acknowledgement(by=by, at=newest.at, until=until, reason=why)


def instant_in(text: str | None) -> float | None:
    """Return the epoch seconds of an RFC 3339 time, ``None`` for what is none."""
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def newest_first(told: Iterable[Told]) -> tuple[Told, ...]:
    """Return what was told without repetitions, the newest first.

    The same line stands in several places (a clone and its remote): the first one counts.
    """
    known: dict[tuple[str, str, float, str], Told] = {}
    for each in told:
        known.setdefault((each.what, each.value, each.at, each.typed_by), each)
    return tuple(sorted(known.values(), key=lambda each: -each.at))
