"""What a lease ref says: who holds a run, since when and for what. Kept as JSON in a commit."""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from pydantic import Field, ValidationError

from cockpit.model.base import Frozen, rfc3339
from cockpit.store.journal import Holder
from cockpit.text.safe import clean

PREFIX: Final = "refs/cockpit/lease/"
HELD: Final = "held"
RELEASED: Final = "released"
_NUMBER: Final = re.compile(r"-i(\d{1,9})$")


class LeaseState(Frozen):
    """One value of a lease ref. ``last_launch_id`` outlives the lease that it was used under.

    ``last_holder`` is who used it: another may have held the lease since, for something else.
    """

    schema_: int = Field(default=1, alias="schema")
    state: str
    run: str
    holder: Holder
    operator: str
    what: str
    at: float
    launch_id: str | None = None
    last_launch_id: str | None = None
    last_holder: Holder | None = None
    nonce: str = Field(default_factory=lambda: uuid4().hex)

    @property
    def held(self) -> bool:
        """True unless it was given back."""
        return self.state != RELEASED

    @property
    def known_launch_id(self) -> str | None:
        """The highest launch id that this ref knows of."""
        return higher(self.launch_id, self.last_launch_id)

    @property
    def launcher(self) -> Holder | None:
        """Who was given the highest launch id that this ref knows of."""
        return self.last_holder if self.launch_id is None else self.holder

    def released(self, at: float, *, used: bool = True) -> LeaseState:
        """Return the value that gives the lease back; a launch id that was used is remembered."""
        known: dict[str, object] = {"launch_id": None}
        if used:
            known |= {"last_launch_id": self.known_launch_id, "last_holder": self.launcher}
        return self.model_copy(update={"state": RELEASED, "at": at, "nonce": uuid4().hex, **known})

    @property
    def label(self) -> str:
        """Who, where, since when and for what, in words that are safe to show."""
        what = clean(self.what, 100) + (
            f" of {clean(self.launch_id, 200)}" if self.launch_id else ""
        )
        return f"{self._who} since {rfc3339(self.at)} for {what}"

    @property
    def given_back(self) -> str:
        """Who had a lease that is free now, until when and for what."""
        return f"{self._who} gave it back at {rfc3339(self.at)}, after {clean(self.what, 100)}"

    @property
    def _who(self) -> str:
        name, host = clean(self.operator, 100), clean(self.holder.host, 100)
        return f"{name} on {host} (pid {self.holder.pid})"

    def text(self) -> str:
        """Return the JSON that the commit carries as its message."""
        return json.dumps(self.model_dump(by_alias=True), sort_keys=True, indent=1)


def read_state(text: str) -> LeaseState | None:
    """Return what a commit's message says, ``None`` if it is no lease of a kind known here."""
    try:
        found = LeaseState.model_validate_json(text.strip())
    except (ValidationError, ValueError):
        return None
    return found if found.schema_ == 1 and found.state in (HELD, RELEASED) else None


def lease_ref(run: str) -> str:
    """Return the ref of a run's lease; any name gives one that git accepts."""
    return PREFIX + quote(run, safe="").replace(".", "%2E").replace("~", "%7E")


def higher(one: str | None, two: str | None) -> str | None:
    """Return the launch id with the higher number."""
    return max((one, two), key=lambda text: (_number(text), text is not None))


def not_above(launch_id: str | None, known: str | None) -> bool:
    """Tell whether a launch id was given out already, by the highest one that is known."""
    return launch_id is not None and -1 < _number(launch_id) <= _number(known)


def _number(text: str | None) -> int:
    match = _NUMBER.search(text or "")
    return -1 if match is None else int(match[1])
