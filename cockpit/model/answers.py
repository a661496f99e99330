"""Answers from a phone: what was offered to be answered, and what was heard (SPEC A-14, A-15)."""

from typing import Final, Literal

from cockpit.model.base import Frozen, Instant
from cockpit.model.wording import moment, plural

AnswerVerb = Literal["ack", "stop", "relaunch"]
ACK_LASTS: Final = 12 * 3600.0
"""Seconds for which a button of a message works."""
CONFIRM_LASTS: Final = 15 * 60.0
"""Seconds within which the words of a relaunch are to be sent back."""
FRESH: Final = 3600.0
"""Seconds after which a comment is too old to be acted on."""
CODE: Final = 6
"""Characters that tell one set of words to be sent back from every other one."""


class Ask(Frozen):
    """What one offer is about: a run by its name and, of an acknowledgement, an alert's key."""

    run: str
    key: str = ""


class Offer(Frozen):
    """What a message has offered to its reader: it is used once, and only on this machine.

    ``ref`` is a random name that no other offer has. ``words`` are to be sent back exactly, as
    the confirmation of the plan ``plan_id``; ``person`` is who may use it, ``""``: whoever the
    service names. ``route`` is the route by which it went.
    """

    ref: str
    verb: AnswerVerb
    asks: tuple[Ask, ...]
    lasts: float
    person: str = ""
    route: str = ""
    words: str = ""
    plan_id: str = ""

    @property
    def code(self) -> str:
        """The end of the words that are to be sent back."""
        return self.ref[:CODE]

    @property
    def signed(self) -> str:
        """What a token of this offer signs."""
        asks = "\n".join(f"{each.run}\t{each.key}" for each in self.asks)
        return "\n".join((self.ref, self.verb, self.person, self.words, self.plan_id, asks))


TAKEN: Final = "taken"
DONE: Final = "done"
PLANNED: Final = "planned"
FAILED: Final = "failed"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
IGNORED: Final = "ignored"


class HeardAnswer(Frozen):
    """One answer as the store keeps it, or ``times`` of them that nobody was named for.

    ``state``: ``taken`` (read, and not known to be dealt with), ``done``, ``planned`` (its words
    are to be sent back), ``refused``, ``failed``, ``unknown`` (look it up), or ``ignored`` (it
    counted for nothing).
    """

    source: str
    answer: str
    at: Instant
    who: str
    said: str
    state: str
    result: str = ""
    times: int = 1

    @property
    def text(self) -> str:
        """The answer in one line."""
        often = (
            "" if self.times == 1 else f" ({plural(self.times, 'time')}, last {moment(self.at)})"
        )
        result = f": {self.result}" if self.result else ""
        return f"answer by {self.source} of {self.who}{often}: {self.said} {self.state}{result}"
