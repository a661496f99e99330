"""What is written into a run's records (SPEC L, S-10 to S-12), and how writing it went."""

from enum import StrEnum

from pydantic import Field

from cockpit.model.base import Frozen, Instant
from cockpit.model.rejected import Rejected as Rejected
from cockpit.model.wording import utc_minute


class EventEntry(Frozen):
    """One entry of the event log. Empty fields are left out; lines may be several.

    ``at`` is fixed when the event happens, so that writing it again after a crash writes the
    very same entry, which is then found to be there already. ``said`` are lines that other
    cockpits read back (``cockpit.text.told_lines``, ``rejections``): no other text of an entry is
    taken for one.
    """

    title: str
    at: Instant
    status: str = ""
    evidence: str = ""
    decision: str = ""
    next: str = ""
    said: str = ""


class InstanceEntry(Frozen):
    """One launched instance; ``fields`` are SPEC L's labels in their order, scrubbed."""

    launch_id: str
    at: Instant
    fields: dict[str, str] = Field(default_factory=dict)


class Opened(Frozen):
    """What an editor begins with; everything in it is safe to show.

    ``text`` is the draft that was left (``draft``), else an entry prefilled from what is
    observed. ``tail`` is the end of the file as it stands, ``note`` what is to be known of it,
    ``trouble`` why nothing can be written at this moment.
    """

    path: str
    text: str = ""
    tail: tuple[str, ...] = ()
    note: str = ""
    draft: bool = False
    trouble: str = ""


class Unfinished(Frozen):
    """A logbook entry that was begun and not saved: by whom (empty: unknown), how long, when last.

    Never what it says.
    """

    by: str
    lines: int
    at: Instant

    @property
    def words(self) -> str:
        """It in a few words."""
        length = f"{self.lines} line{'' if self.lines == 1 else 's'}"
        return (
            f"an unfinished draft by {self.by or 'nobody named'}, {length}, {utc_minute(self.at)}"
        )


class SaveStage(StrEnum):
    """How far an entry has come. Each stage includes those before it."""

    NOTHING = "nothing"
    SAVED = "saved"
    COMMITTED = "committed"
    PUSHED = "pushed"


class Recorded(Frozen):
    """How writing a record went: ``trouble`` is one line, what stands in the way and what helps.

    ``busy`` is what is being done at this moment (``pushing``); then nothing is decided.
    ``queued`` is set for a comment that waits for the network, ``as_far`` for a file that has
    come as far as it can: there is no remote to push to, or no repository at all. ``pending`` is
    set for a file that is committed and whose push goes on behind. ``note`` is what a person should
    know of the file although it was written.
    """

    stage: SaveStage
    commit: str | None = None
    trouble: str | None = None
    busy: str | None = None
    queued: bool = False
    as_far: bool = False
    pending: bool = False
    note: str | None = None
    url: str | None = None

    @property
    def lasting(self) -> bool:
        """True when it is where it should be, or will be sent by itself: nothing is lost."""
        return self.trouble is None or self.queued or self.as_far


class Claim(Frozen):
    """A guard that other machines can see, read or taken (SPEC A, "Two machines").

    ``level`` is ``pass`` (it is free, or ours), ``warn`` (it cannot be used here, why is in
    ``text``) or ``block`` (someone else holds it). ``holder`` is who; ``launch_id`` what for.
    ``launched_by`` names another machine that has launched under ``launch_id``. ``unanswered``:
    whoever keeps the guard was asked and did not tell. ``living``: its holder is a process of this
    machine that lives, so nobody takes it over.
    """

    level: str
    text: str
    holder: str | None = None
    launch_id: str | None = None
    at: Instant | None = None
    launched_by: str | None = None
    unanswered: bool = False
    living: bool = False
