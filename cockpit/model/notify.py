"""The run file's ``[notify]``: where messages go, and the hours in which only criticals go."""

import re
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field

from cockpit.model.base import Command, Count, Duration, Frozen
from cockpit.model.late_regex import late_regex

_HOURS: Final = late_regex(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)(?: (\S+))?")
_EXPECTED: Final = 'expected hours such as "22:00-07:00", or with a zone "22:00-07:00 Europe/Oslo"'


class Quiet(NamedTuple):
    """From ``begin`` to before ``end`` (minutes of the day), over midnight where it begins later.

    Without a zone the hours are those of the machine that sends.
    """

    begin: int
    end: int
    zone: str | None = None

    def at(self, now: float) -> bool:
        """Tell whether it is quiet at ``now`` (epoch seconds)."""
        zone: tzinfo | None = None if self.zone is None else ZoneInfo(self.zone)
        there = datetime.fromtimestamp(now, zone)
        minute = there.hour * 60 + there.minute
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


def _parsed(value: object) -> object:
    """Return the hours of a text; raises ``ValueError`` for what is none."""
    if not isinstance(value, str):
        return value
    found = _HOURS.fullmatch(value.strip())
    if found is None:
        raise ValueError(_EXPECTED)
    first, second, third, fourth, zone = found.groups()
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"no time zone is called {zone!r}; {_EXPECTED}") from None
    begin, end = int(first) * 60 + int(second), int(third) * 60 + int(fourth)
    if begin == end:
        raise ValueError("begins when it ends: leave it out for no quiet hours")
    return Quiet(begin=begin, end=end, zone=zone)


QuietHours = Annotated[Quiet, BeforeValidator(_parsed)]


class RouteRow(NamedTuple):
    """One kind of ``[notify] routes``: what it needs of the run file, and what mends it.

    A kind that needs an address goes through apprise and has apprise's name for the service. Each
    other kind has its sender in ``SENDERS`` (``cockpit/notify/routes.py``).
    """

    needs: Literal["url_env", "command"] | None
    remedy: str
    """What ``doctor`` advises where the route cannot be used or its test message failed."""


BY_ADDRESS: Final = RouteRow(
    "url_env", "set the variable to the URL exactly as the service shows it, then try again"
)
"""Also the row of a route that names no kind: its address decides."""
ROUTE_KINDS: Final = {
    "slack": BY_ADDRESS,
    "discord": BY_ADDRESS,
    "ntfy": BY_ADDRESS,
    "pushover": BY_ADDRESS,
    "pagerduty": BY_ADDRESS,
    "opsgenie": BY_ADDRESS,
    "webhook": BY_ADDRESS,
    "email": BY_ADDRESS,
    "desktop": RouteRow(
        None, "run it in a desktop session with notify-send; otherwise this route is skipped"
    ),
    "terminal": RouteRow(None, "run it in a terminal; without one this route is skipped"),
    "command": RouteRow(
        "command", "run the command by hand; it reads the message from standard input"
    ),
}
if TYPE_CHECKING:
    RouteKind = str
else:
    RouteKind = Literal[tuple(ROUTE_KINDS)]


class Route(Frozen):
    """``[notify] routes``: where messages of at least ``min`` severity go.

    ``url_env`` names the variable that holds the address (an ``https`` webhook or an apprise
    URL); ``kind`` says what it must be, or is ``desktop`` or ``terminal``, which need no address.
    ``command`` gets the message on its standard input. ``to`` is the person whom the route
    reaches (no ``to``: everybody), or the address of a mail.
    """

    min: Literal["info", "warning", "alert", "critical"] = "alert"
    """The least severity that goes by this route."""
    url_env: str | None = None
    """The variable that holds a webhook's address or an apprise URL."""
    kind: RouteKind | None = None
    """What the address must be; a kind that has none of its own needs none."""
    to: str | None = None
    """The person whom the route reaches; default: everybody."""
    command: Command | None = None
    """A command that gets title and body on its standard input."""


class AnswerRow(NamedTuple):
    """One kind of ``[notify] answers``: what it needs, who its accounts are, how it is mended.

    Each kind has its reader in ``READERS`` (``cockpit/notify/readers.py``), and messages by a
    route of the same kind carry what an answer refers to (``cockpit/notify/offering.py``).
    """

    label: str
    """The service in a sentence: ``GitHub``."""
    every: float
    """Seconds between two looks for answers."""
    remedy: str
    """What ``doctor`` advises where answers cannot be read."""
    needs: tuple[str, ...] = ()
    """The settings that must be there."""
    takes: tuple[str, ...] = ()
    """Those that may be."""
    accounts: re.Pattern[str] | None = None
    """An account of ``people``; ``None``: the service knows none. Then whoever holds a token that
    went ``to`` a person answers as that person."""
    example: str = ""
    api: str = ""


_MAIL: Final = late_regex(r"[^@\s]{1,64}@[^@\s]{1,255}|[A-Z0-9]{6,40}")
ANSWER_KINDS: Final = {
    "github": AnswerRow(
        "GitHub", 60.0,
        "set [run.records] issue, and a token that may comment (GH_TOKEN, or gh auth login)",
        accounts=late_regex(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})"), example="ada-lovelace",
    ),
    "ntfy": AnswerRow(
        "ntfy", 20.0, "set the variable to the https:// address of a topic for answers alone",
        needs=("url_env",), takes=("token_env",),
    ),
    "pagerduty": AnswerRow(
        "PagerDuty", 30.0, "set token_env to a read-only REST API key, and api in the EU region",
        needs=("token_env",), takes=("api",), accounts=_MAIL, example="ada@example.org",
        api="https://api.pagerduty.com",
    ),
    "opsgenie": AnswerRow(
        "Opsgenie", 30.0, "set token_env to an API key that may read, and api in the EU region",
        needs=("token_env",), takes=("api",), accounts=_MAIL, example="ada@example.org",
        api="https://api.opsgenie.com",
    ),
    "slack": AnswerRow(
        "Slack", 30.0,
        "set token_env to a bot token with channels:history, reactions:read and chat:write, and"
        " invite the bot into the channel",
        needs=("token_env", "channel"), takes=("api",),
        accounts=late_regex(r"[UW][A-Z0-9]{5,20}"), example="U012ABCDEF",
        api="https://slack.com/api",
    ),
}  # fmt: skip
ANSWER_SETTINGS: Final = ("url_env", "token_env", "channel", "api")
"""The settings of which each kind needs or takes some."""
if TYPE_CHECKING:
    AnswerKind = str
else:
    AnswerKind = Literal[tuple(ANSWER_KINDS)]


class AnswerSpec(Frozen):
    """``[notify] answers``: a service through which named people answer from elsewhere (A-14).

    An answer may acknowledge, end a standing order, and relaunch where the plan is clean.
    """

    kind: AnswerKind
    """The service; github: comments on the run's issue."""
    people: dict[str, str] = Field(default_factory=dict)
    """Whose accounts count: the account there, and the person's name in this file."""
    url_env: str | None = None
    """ntfy: the variable with the address of the topic for answers."""
    token_env: str | None = None
    """The variable with the token that may read there."""
    channel: str | None = None
    """slack: the id of the channel that messages go to."""
    api: str | None = None
    """The address of the service's API; default: the public one."""


class NotifySpec(Frozen):
    """``[notify]``. A critical that nobody takes goes out again, then to the ``second`` person.

    ``most`` messages go by one route in ten minutes; what is beyond becomes one summary. In
    ``quiet`` hours only what is critical goes; the rest goes after them, if it is still open.
    """

    routes: tuple[Route, ...] = ()
    """Where messages go, each with the least severity that goes there."""
    answers: tuple[AnswerSpec, ...] = ()
    """Services through which people may acknowledge and relaunch from elsewhere."""
    unacked_after: Duration = 15 * 60.0
    """After this time an unacknowledged critical goes out again, then to second (a duration)."""
    second: str | None = None
    """Who is told when nobody acknowledges."""
    quiet: QuietHours | None = None
    """Hours in which only criticals go, such as "22:00-07:00 Europe/Oslo"."""
    heartbeat_url_env: str | None = None
    """The variable with the address that a watch pings once a cadence."""
    most: Count = 20
    """How many messages go by one route in ten minutes."""
