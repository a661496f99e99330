"""Facts that cockpits share about a run: who acts, what was announced, what was rejected.

They stand in the logbook and under the output root, one line each (``cockpit.text.logbook_lines``).
"""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from pydantic import Field

from cockpit.model.alert import Acknowledgement
from cockpit.model.base import Frozen, Instant
from cockpit.model.late_regex import late_regex

_LOGIN: Final = late_regex(r" \(login [^()]*\)$")


def typist(operator: str, login: str) -> str:
    """Return who typed: ``ada``, or ``ada (login bob)`` where the account has another name."""
    name, account = " ".join(operator.split()), login.strip()
    if not name or not account or same_person(name, account):
        return name or account
    return f"{name} (login {re.sub('[()]', ' ', account).strip()})"


def name_in(typed_by: str) -> str:
    """Return the name that stands in what ``typist`` gave."""
    return _LOGIN.sub("", typed_by)


def login_in(typed_by: str) -> str:
    """Return the account that stands in what ``typist`` gave; the name where they are one."""
    found = _LOGIN.search(typed_by)
    return typed_by if found is None else found.group()[len(" (login ") : -1]


def same_person(one: str, two: str) -> bool:
    """Tell whether two names are the same, whatever their case."""
    return " ".join(one.split()).casefold() == " ".join(two.split()).casefold()


def is_agent(name: str) -> bool:
    """Tell whether nobody types under a name: that approves nothing, and is never a DRI."""
    return _read_as(name).startswith("agent:") or by_standing_order(name)


def by_standing_order(operator: str) -> bool:
    """Tell whether a standing order acts under this name: ``standing order of ada`` (A-15)."""
    return _read_as(operator).startswith("standing order of ")


def _read_as(name: str) -> str:
    """Return a name as it reads: without what nobody sees, whatever its case and its blanks."""
    seen = "".join(each for each in name if each.isprintable() or each.isspace())
    return " ".join(seen.split()).casefold()


def own_word(by: str, typed_by: str, others: Iterable[str] = ()) -> bool:
    """Tell whether ``by`` typed it: under that name, and not from an account of ``others``.

    ``others`` are people who are known by name; an account that bears one of their names is
    that one's, whatever name was set.
    """
    if is_agent(typed_by) or not same_person(by, name_in(typed_by)):
        return False
    account = login_in(typed_by)
    return same_person(by, account) or not any(same_person(account, each) for each in others)


def worded(by: str, typed_by: str | None) -> str:
    """Return whose word it is and who typed it: ``ada``, ``ada, typed by bob``."""
    if not typed_by or same_person(by, typed_by):
        return by
    if same_person(by, name_in(typed_by)):
        return typed_by
    return f"{by}, typed by {typed_by}"


OWNER: Final = "owner"
ACKNOWLEDGED: Final = "acknowledged"
LAUNCHED: Final = "launched"
ADOPTED: Final = "adopted"
NOTIFIED: Final = "notified"
STOPPED: Final = "stopped"
STANDING: Final = "standing"
KINDS: Final = (OWNER, ACKNOWLEDGED, LAUNCHED, ADOPTED, NOTIFIED, STOPPED, STANDING)
END: Final = "end"
"""What is acknowledged when it is a job's end and not an alert."""


class SharedFact(Frozen):
    """One fact shared with all cockpits: ``what`` is one of ``KINDS``, ``value`` its subject.

    ``parts`` are further words by name; ``typed_by`` is the person at the keyboard and the
    account, ``source`` is where the fact was read.
    """

    what: str
    value: str
    at: Instant
    typed_by: str
    parts: dict[str, str] = Field(default_factory=dict)
    source: str = ""

    @property
    def digest(self) -> str:
        """What tells this fact from every other one, wherever it was read."""
        words = (self.what, self.value, f"{self.at:.6f}", self.typed_by)
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The fact in words, without who typed it."""
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
        if self.what == STANDING:
            return f"standing order {self.value}"
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


def owner_now(run: str, named: str | None, facts: Iterable[SharedFact]) -> OwnerNow:
    """Return the owner: who the run was handed over to last, else whom the run file names.

    A handover holds until the next one. A run file that names somebody else is not a later
    handover (files are saved, copied and checked out for many reasons): ``differs`` says so, and
    ``remedy`` how to make the two agree.
    """
    handed = sorted((each for each in facts if each.what == OWNER), key=lambda each: each.at)
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


def stop_in(facts: Iterable[SharedFact], job_id: str, since: float) -> SharedFact | None:
    """Return the newest order to stop a job, if one was given since then: ids are reused."""
    orders = (e for e in facts if e.what == STOPPED and e.value == job_id and e.at >= since)
    return max(orders, key=lambda each: each.at, default=None)


def taken_in(
    facts: Iterable[SharedFact], key: str, since: float
) -> tuple[SharedFact, Acknowledgement] | None:
    """Return the newest acknowledgement of an alert that has been open since then, if there is one.

    An acknowledgement from before the alert began belongs to another alert.
    """
    mine = [e for e in facts if e.what == ACKNOWLEDGED and e.value == key and e.at >= since]
    newest = max(mine, key=lambda each: each.at, default=None)
    if newest is None:
        return None
    until = instant_in(newest.parts.get("until"))
    by = worded(newest.parts.get("by") or newest.typed_by, newest.typed_by)
    why = newest.parts.get("reason") or None
    return newest, Acknowledgement(by=by, at=newest.at, until=until, reason=why)


def instant_in(text: str | None) -> float | None:
    """Return the epoch seconds of an RFC 3339 time, ``None`` if the text is not one."""
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def newest_first(facts: Iterable[SharedFact]) -> tuple[SharedFact, ...]:
    """Return the facts without duplicates, the newest first.

    The same line may be in several places (a clone and its remote): the first one counts.
    """
    known: dict[tuple[str, str, float, str], SharedFact] = {}
    for each in facts:
        known.setdefault((each.what, each.value, each.at, each.typed_by), each)
    return tuple(sorted(known.values(), key=lambda each: -each.at))


IDS = 8


class Loaded(Frozen):
    """What the trainer says that it has resumed from: a path, a step, or both; and its line."""

    path: str | None
    step: int | None
    line: str
    at: Instant | None = None
    """About when it was written; of a first look, not later than that."""


class Notice(Frozen):
    """A line that says the job is about to be taken away, and about when it was written."""

    line: str
    at: Instant


class Announced(Frozen):
    """The newest of each kind (C-13, C-17, C-26); ``None``: not seen, which says nothing."""

    wandb: str | None = None
    wandb_at: Instant | None = None
    wandb_ids: tuple[tuple[str, Instant], ...] = ()
    """The runs whose folders the client has named, and when: the newest ``IDS``."""
    loaded: Loaded | None = None
    notice: Notice | None = None


class Rejected(Frozen):
    """A checkpoint of a rejected lineage: no later pick takes it (SPEC A-4)."""

    step: int
    path: str
    at: Instant
    by: str
    reason: str
