"""Reads what people answer from elsewhere: what an answer may say, and how each service is asked.

Nothing here acts. An answer is a text, the account that the service names for it, and its age by
the service's own clock; whether it counts is decided in ``cockpit/services/answers.py``.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cockpit.model.answers import AnswerVerb, Ask, Offer
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.notify import ANSWER_KINDS, AnswerRow, AnswerSpec
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.notify.message import answered
from cockpit.notify.offering import TOKEN, Offers
from cockpit.notify.routes import Channels
from cockpit.runtime.http import Answer, Http, HttpError
from cockpit.sources.github import GitHub
from cockpit.store.answers import FoundOffer
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

if TYPE_CHECKING:
    from cockpit.records.issue.service import IssueService

READ_WITHIN: Final = 30.0
SAID: Final = 120
"""Characters of an answer that are kept and repeated."""


POSTED_WITHIN: Final = 120.0
"""Seconds within which a message is posted once its offer is made; a later one may be a copy."""
COPIED: Final = (
    "this message was not posted when the cockpit sent it, so it may be a copy; answer the"
    " original, or at a terminal"
)


class Command(NamedTuple):
    """What an answer asks for: ``what`` is the alert of an acknowledgement, or the whole words.

    ``asks`` are the alerts that an acknowledgement is limited to, run by run.
    """

    verb: AnswerVerb
    what: str = ""
    confirms: bool = False
    asks: tuple[Ask, ...] = ()


class BadCommandError(ValueError):
    """A text that begins like a command and is none; the message says what is expected."""


_FIRST: Final = re.compile(r"/?(ack|stop|relaunch)(?![^\s])", re.IGNORECASE)
_ACK: Final = re.compile(r"/?ack(?: ([A-Z0-9][A-Z0-9._:/-]{0,199}))?", re.IGNORECASE)
_STOP: Final = re.compile(r"/?stop standing", re.IGNORECASE)
_ASKED: Final = re.compile(r"/?relaunch", re.IGNORECASE)
_CONFIRM: Final = re.compile(
    r"/?(relaunch [A-Za-z0-9][A-Za-z0-9._-]{0,127} from [0-9]{1,12} \S{1,200})"
)
_EXPECTED: Final = {
    "ack": "/ack, /ack all or /ack C-05",
    "stop": "/stop standing",
    "relaunch": "/relaunch, then the words of the reply exactly",
}


def command_in(text: str, *, slash: bool = True) -> Command | None:
    """Return what a text asks for, ``None`` for a text that is no command.

    The command is the whole text; capitals count in a confirmation alone, which must come back to
    the letter: a phone begins each text with one. ``slash`` tells that one begins with a slash
    (only the words of a confirmation may leave it out). Raises ``BadCommandError``.
    """
    plain = text.strip(" \t\r\n")
    if confirm := _CONFIRM.fullmatch(plain):
        return Command("relaunch", confirm[1], confirms=True)
    first = _FIRST.match(plain)
    if first is None or (slash and not plain.startswith("/")):
        return None
    if found := _ACK.fullmatch(plain):
        return Command("ack", (found[1] or "").casefold())
    if _STOP.fullmatch(plain):
        return Command("stop")
    if _ASKED.fullmatch(plain):
        return Command("relaunch")
    raise BadCommandError(f"expected {_EXPECTED[first[1].lower()]}, and nothing else in the text")


class Given(NamedTuple):
    """One answer as its service gives it.

    ``person`` is whom the run file names for the ``account`` (``None``: nobody), ``age`` how long
    ago it was given, by the service's own clock (s). ``runs`` are the runs that it is about,
    unless ``ref`` names the offer that it answers; ``token`` is all that tells whose answer it is,
    where the service knows no accounts. The offer must still hold if the answer is for ``once``.
    ``trouble`` is why it cannot be trusted. ``place`` is where a reply goes. ``posted`` is how long
    ago the message was posted that it answers (s), where others may post a copy of that;
    ``nobody`` is why the account is no ``person``.
    """

    source: str
    id: str
    account: str
    person: str | None
    text: str
    age: float
    runs: tuple[str, ...] = ()
    ref: str = ""
    token: str = ""
    once: bool = True
    trouble: str | None = None
    place: str = ""
    posted: float | None = None
    nobody: str = "the run file names nobody for this account"

    @property
    def said(self) -> str:
        """The text as it may be shown and kept."""
        return shown(TOKEN.sub("…", clean(self.text, SAID * 4)), SAID)

    @property
    def login(self) -> str:
        """The account as the journal names who typed: ``ada-l on GitHub``."""
        return f"{shown(clean(self.account, 200), 60)} on {ANSWER_KINDS[self.source].label}"


def runs_meant(given: Given, command: Command) -> Iterable[str]:
    """Return the runs that an answer is for: words of several runs' issue name one of them."""
    named = command.what.split()[1] if command.confirms and command.what else ""
    return (named,) if named in given.runs else given.runs


def by_reference(given: Given, found: FoundOffer) -> tuple[Given, Command] | None:
    """Return what a person asks for who answers a message: without more, its own alerts."""
    if given.posted is not None and abs(given.posted - found.made_ago) > POSTED_WITHIN:
        given = given._replace(trouble=COPIED)
    if given.once:
        given = given._replace(trouble=given.trouble or found.over)
    meant = commanded(given)
    if meant is None or meant[1] != Command("ack"):
        return meant
    given = meant[0]._replace(age=max(given.age, found.age))
    return given, Command("ack", asks=found.offer.asks)


def commanded(given: Given) -> tuple[Given, Command] | None:
    """Return an answer with the command that its text is; a bad one with what was expected."""
    try:
        command = command_in(given.text)
    except BadCommandError as error:
        return given._replace(trouble=given.trouble or str(error)), Command("ack", "?")
    return None if command is None else (given, command)


class Reading(NamedTuple):
    """What one look has found, and one line for each place that could not be read.

    ``dead``: none could be. ``settle`` is called once all of it is dealt with: it need not be read
    again.
    """

    given: tuple[Given, ...]
    troubles: tuple[str, ...] = ()
    dead: bool = False
    settle: Callable[[], object] = lambda: None


class Desk(NamedTuple):
    """What a reader has to read and to reply with."""

    clock: Clock
    environ: Mapping[str, str]
    http: Http
    github: GitHub
    issues: IssueService
    channels: Callable[[], Channels]


class Reader(ABC):
    """Reads the answers of one entry of ``[notify] answers``. It never raises.

    A text that the service has cut, or an answer that does not look like the service's, is a
    trouble and no answer.
    """

    def __init__(self, spec: AnswerSpec, desk: Desk) -> None:
        self.spec = spec
        self.desk = desk

    @property
    def row(self) -> AnswerRow:
        """What is known of its kind."""
        return ANSWER_KINDS[self.spec.kind]

    @property
    def trouble(self) -> str | None:
        """Why answers cannot be read from here, or ``None``; asks nobody."""
        names = (getattr(self.spec, name) for name in self.row.needs if name.endswith("_env"))
        unset = [name for name in names if not self.desk.environ.get(name, "").strip()]
        return f"{', '.join(unset)} is not set here" if unset else None

    @abstractmethod
    async def read(self, runs: Sequence[RunSpec]) -> Reading:
        """Return the answers about these runs that are fresh."""

    @abstractmethod
    async def reply(self, run: RunSpec, given: Given, text: str, offer: Offer | None) -> str | None:
        """Tell who answered what became of it; the words of ``offer`` are to be sent back.

        Return why that could not be told, or ``None``.
        """

    def value(self, name: str) -> str:
        """Return the value of the variable that the setting ``name`` names."""
        return self.desk.environ.get(getattr(self.spec, name) or "", "").strip()

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Return a good answer; raises ``HttpError`` for any other, without its address."""
        answer = await self.desk.http.get(url, headers)
        if answer.status != 200:
            words = answered(answer.status).words
            raise HttpError(ErrorKind.BAD_ANSWER, f"{self.row.label}: {words}")
        return answer

    def person(self, account: str) -> str | None:
        """Return whom the run file names for an account, whatever its case."""
        known = {each.casefold(): person for each, person in self.spec.people.items()}
        return known.get(account.casefold()) if account.isascii() else None


def desk_of(file: Callable[[], CockpitFile], issues: IssueService, clock: Clock) -> Desk:
    """Return what readers work with; ``issues`` writes the replies to GitHub."""
    http = Http(clock, deadline=READ_WITHIN)

    def channels() -> Channels:
        folder = str(Path(file().path).parent)
        return Channels(file().notify, folder=folder, offers=Offers(file(), None, clock))

    return Desk(clock, os.environ, http, GitHub(http, clock), issues, channels)
