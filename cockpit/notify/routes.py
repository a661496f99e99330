"""The routes of [notify]: what each needs, how it sends, what mends it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import PurePath
from string import Template
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from cockpit.model.alert import Severity
from cockpit.model.notify import BY_ADDRESS, ROUTE_KINDS, NotifySpec, Route, RouteRow
from cockpit.notify.message import Button, Delivery, Message, cut, reason_of
from cockpit.notify.offering import Attached, Offers
from cockpit.runtime.offload import offload
from cockpit.runtime.own_path import Library, LibraryError
from cockpit.runtime.shell import Completed, run_command
from cockpit.sources.github import private
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

if TYPE_CHECKING:
    from apprise import NotifyBase


class Named(NamedTuple):
    """A route and its name, under which messages and claims know it."""

    name: str
    route: Route

    @property
    def kind(self) -> str:
        """How it is sent: ``url`` when the address decides."""
        if self.route.command is not None:
            return "command"
        return self.route.kind or "url"

    @property
    def local(self) -> bool:
        """Whether it reaches only the person at this machine."""
        return self.row.needs is None

    @property
    def row(self) -> RouteRow:
        """What is known of its kind."""
        return ROUTE_KINDS.get(self.kind, BY_ADDRESS)

    @property
    def sender(self) -> Sender:
        """How it is sent."""
        return SENDERS.get(self.kind, BY_APPRISE)

    def carries(self, severity: Severity) -> bool:
        """Whether messages of this severity go by it."""
        return severity.rank >= Severity(self.route.min).rank


def routes_of(spec: NotifySpec) -> tuple[Named, ...]:
    """Return the routes with a name for each; equal routes are one."""
    uses: dict[str, int] = {}
    merged: dict[object, Named] = {}
    for route in spec.routes:
        same = (route.url_env, route.kind, route.to, route.command)
        if same in merged:
            wider = min(merged[same].route, route, key=lambda each: Severity(each.min).rank)
            merged[same] = merged[same]._replace(route=wider)
            continue
        name = _name(route)
        uses[name] = uses.get(name, 0) + 1
        merged[same] = Named(name if uses[name] == 1 else f"{name} #{uses[name]}", route)
    return tuple(merged.values())


def _name(route: Route) -> str:
    if route.command is not None:
        words = command_words(route)
        return clean(scrub(f"command {PurePath(words[0]).name if words else ''}")).strip()
    if route.url_env is not None:
        return f"{route.kind or 'url'} {route.url_env}"
    return route.kind or "route"


def command_words(route: Route) -> list[str]:
    """Return the command as a list of words, its variables still as written."""
    if isinstance(route.command, str):
        try:
            return shlex.split(route.command)
        except ValueError:
            return []
    return list(route.command or ())


def address(route: Route, environ: Mapping[str, str]) -> str | None:
    """Return the address from the route's variable, ``None`` if it is not set."""
    value = environ.get(route.url_env, "").strip() if route.url_env is not None else ""
    return value or None


def audience(
    routes: tuple[Named, ...], spec: NotifySpec, dri: str | None, dris: frozenset[str]
) -> tuple[Named, ...]:
    """Return the routes for a first message about a run of ``dri``.

    A route ``to`` the DRI of other runs, or to the second person, is not for this one; a name
    that is neither gets everything: better once too often than never.
    """

    def is_for(to: str | None) -> bool:
        if to is None or to == dri or "@" in to:
            return True
        return to != spec.second and (dri is None or to not in dris)

    return tuple(each for each in routes if is_for(each.route.to))


def second_audience(
    routes: tuple[Named, ...], spec: NotifySpec, dri: str | None, dris: frozenset[str]
) -> tuple[Named, ...]:
    """Return the second person's routes; without one, those of the first message."""
    own = tuple(each for each in routes if each.route.to == spec.second)
    return own or audience(routes, spec, dri, dris)


CONNECT_WITHIN: Final = 4.0
ANSWER_WITHIN: Final = 6.0
_TYPES: Final = {
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.ALERT: "warning",
    Severity.CRITICAL: "failure",
}
_KINDS: Final = {"json": "webhook"}
SERVICE_KEYS: Final = {"pagerduty": "dedup", "opsgenie": "alias"}
"""How the library calls the name under which a service keeps what it is sent."""
_MARKUP = re.compile(r"([\\*_~`|>#\[\]<])")
_CALL = re.compile(r"@(?=\w|&|!)")
_APART = "@\N{ZERO WIDTH SPACE}"


class AddressError(Exception):
    """The variable's value leads nowhere; the text says what was expected, and not the value."""


def kind_of(service: NotifyBase) -> str:
    """Return ``slack``, ``discord``, ``email``, ``webhook`` or the library's name of it."""
    name = type(service).__name__.removeprefix("Notify").lower()
    return _KINDS.get(name, name)


def service_of(
    address: str, kind: str | None, to: str | None = None, extras: dict[str, str] | None = None
) -> NotifyBase:
    """Return the service behind an address; raises ``AddressError``.

    ``kind`` is what the run file demands; ``extras`` are added to what a JSON webhook is sent.
    """
    _quiet()
    try:
        parts = urlsplit(address)
    except ValueError:
        raise AddressError("its value is not a URL") from None
    if kind == "webhook" and parts.scheme in ("http", "https"):
        return _webhook(parts, extras or {})
    if to is not None and "@" in to and address.startswith(("mailto://", "mailtos://")):
        address += f"{'&' if '?' in address else '?'}to={quote(to)}"
    service = _instantiated(address)
    if service is None and parts.scheme in ("http", "https"):
        service = _webhook(parts, extras or {})
    if service is None:
        raise AddressError(
            "its value is not a known address; expected an https:// webhook or an apprise "
            "URL such as mailto://"
        )
    if kind is not None and kind != kind_of(service):
        raise AddressError(f"its value is an address of {kind_of(service)}, not of {kind}")
    return service


def send(service: NotifyBase, message: Message, route: str) -> Delivery:
    """Send; never raises for what the other side does."""
    title, body = _fitted(service, message)
    with _listening() as heard:
        done = service.notify(
            title=title, body=body, notify_type=_TYPES[message.severity], body_format="text"
        )
    if done:
        return Delivery(route=route, ok=True, note=f"sent by {kind_of(service)}")
    reason = reason_of("\n".join(heard))
    return Delivery(route=route, ok=False, note=reason.words, lost=reason.lost)


def _fitted(service: NotifyBase, message: Message) -> tuple[str, str]:
    """Return title and body in the service's own lengths, neutral where it reads markup."""
    title, body = message.title, message.text or message.title
    if kind_of(service) == "discord":
        title, body = neutral_for_discord(title), neutral_for_discord(body)
    title = cut(title, service.title_maxlen) if service.title_maxlen > 0 else title
    room = service.body_maxlen - (len(title) + 2)
    return title, cut(body, max(1, room))


def _webhook(parts: SplitResult, extras: dict[str, str]) -> NotifyBase:
    """Return a service that posts JSON to exactly this address."""
    try:
        port = parts.port
    except ValueError:
        raise AddressError("its value is not a URL") from None
    described = {
        "schema": "jsons" if parts.scheme == "https" else "json",
        "host": parts.hostname,
        "port": port,
        "user": parts.username,
        "password": parts.password,
        "fullpath": parts.path,
        "params": dict(parse_qsl(parts.query, keep_blank_values=True)),
        "payload": extras,
    }
    service = _instantiated(described) if parts.hostname else None
    if service is None:
        raise AddressError("its value is not a URL; expected https://host/path")
    return service


def _instantiated(described: str | dict[str, Any]) -> NotifyBase | None:
    with Library("apprise", "this route"):
        import apprise

    asset = apprise.AppriseAsset(
        app_id="cockpit",
        app_desc="cockpit",
        app_url="",
        image_url_mask="",
        http_redirects=False,
        allow_templates=False,
    )
    service = apprise.Apprise.instantiate(described, asset=asset, suppress_exceptions=True)
    if service is None:
        return None
    service.socket_connect_timeout = CONNECT_WITHIN
    service.socket_read_timeout = ANSWER_WITHIN
    return service


def _quiet() -> logging.Logger:
    logger = logging.getLogger("apprise")
    if logger.propagate:
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        logger.addHandler(logging.NullHandler())
    return logger


class _Ear(logging.Handler):
    """Keeps what one thread's call logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.heard: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a record of our own thread."""
        if record.thread == self._thread:
            self.heard.append(record.getMessage())


@contextmanager
def _listening() -> Iterator[list[str]]:
    ear = _Ear()
    logger = _quiet()
    logger.addHandler(ear)
    try:
        yield ear.heard
    finally:
        logger.removeHandler(ear)


def neutral_for_discord(text: str) -> str:
    """Return ``text`` so that Discord shows it as written: no Markdown, no mention."""
    return _CALL.sub(_APART, _MARKUP.sub(r"\\\1", text))


SEND_WITHIN: Final = 20.0
NOT_SET: Final = "the variable is not set here"
DEADLINE: Final = 15.0
DESKTOP_LIMIT: Final = 400
_APPLE: Final = "\n".join(
    (
        "on run {title, body}",
        "display notification body with title title",
        "end run",
    )
)
"""The texts are arguments: AppleScript never parses them."""
Ring = Callable[[str], object]
"""Writes a control sequence to the terminal that a person looks at; false: there is none now."""
Begin = Callable[[], object]
"""Notes that a message goes out now; raises if it may not. Blocking."""
BEGIN_WITHIN: Final = 10.0
BELL: Final = "\a"
LIMIT: Final = 200
_PLAIN: Final = ("", "dumb", "linux", "unknown")


class Here(NamedTuple):
    """What this process has to send with."""

    environ: Mapping[str, str]
    folder: str | None
    """Where commands run."""
    ring: Ring | None
    offers: Offers | None = None
    """What makes the offers by which a message can be answered."""


class Sender(NamedTuple):
    """How routes of one kind are sent; ``trouble`` says why one cannot be used from here.

    ``send`` calls ``begin`` right before the message goes out.
    """

    trouble: Callable[[Here, Route], str | None]
    send: Callable[[Here, Named, Message, Begin], Awaitable[Delivery]]


class Channels:
    """Sends messages by the routes of ``spec``. Never raises for what a route does.

    ``folder`` is where commands run, ``dris`` everyone who answers for a run, ``ring`` writes to
    the terminal that a person looks at (``None``: there is none here).
    """

    def __init__(
        self,
        spec: NotifySpec,
        *,
        folder: str | None = None,
        dris: Iterable[str] = (),
        ring: Ring | None = None,
        environ: Mapping[str, str] | None = None,
        offers: Offers | None = None,
    ) -> None:
        self.spec = spec
        self.routes = routes_of(spec)
        self._dris = frozenset(dris)
        self._here = Here(os.environ if environ is None else environ, folder, ring, offers)

    def for_first(self, dri: str | None) -> tuple[Named, ...]:
        """Return the routes of a first message about a run of ``dri``."""
        return audience(self.routes, self.spec, dri, self._dris)

    def for_second(self, dri: str | None) -> tuple[Named, ...]:
        """Return the routes of the second person."""
        return second_audience(self.routes, self.spec, dri, self._dris)

    def trouble(self, route: Named) -> str | None:
        """Return why a route cannot be used from this process, or ``None``; asks nobody."""
        return route.sender.trouble(self._here, route.route)

    def notices(self) -> tuple[str, ...]:
        """Return a line for each route that should work anywhere and does not here."""
        found = ((route, self.trouble(route)) for route in self.routes if not route.local)
        return tuple(
            f"messages cannot go by {route.name}: {trouble}" for route, trouble in found if trouble
        )

    async def send(
        self, message: Message, routes: Iterable[Named] | None = None
    ) -> tuple[Delivery, ...]:
        """Send by every route that carries this severity (or by ``routes``), at once."""
        chosen = self.routes if routes is None else tuple(routes)
        going = [route for route in chosen if route.carries(message.severity)]
        return tuple(await asyncio.gather(*(self.deliver(message, route) for route in going)))

    async def deliver(
        self, message: Message, route: Named, begin: Begin = lambda: None
    ) -> Delivery:
        """Send by one route; ``begin`` is called right before it goes out."""
        trouble = self.trouble(route)
        if trouble is not None:
            return Delivery(route=route.name, ok=False, note=trouble)
        return await route.sender.send(self._here, route, message, begin)


def _address_trouble(here: Here, route: Route) -> str | None:
    return None if address(route, here.environ) else NOT_SET


async def _to_address(here: Here, route: Named, message: Message, begin: Begin) -> Delivery:
    where = address(route.route, here.environ) or ""
    sending = partial(_send_blocking, here, where, route, message, begin)
    try:
        return await offload(sending, deadline=SEND_WITHIN)
    except (AddressError, LibraryError) as error:
        return Delivery(route=route.name, ok=False, note=str(error))
    except TimeoutError:
        note = f"sent, but no answer within {SEND_WITHIN:g} s"
        return Delivery(route=route.name, ok=False, note=note, lost=True)


def _send_blocking(
    here: Here, where: str, route: Named, message: Message, begin: Begin
) -> Delivery:
    attached = Attached(message.buttons)
    if here.offers is not None and not message.buttons:
        attached = here.offers.attached(route.kind, route.name, route.route.to, message)
    extras = {
        "run": message.run,
        "event": message.event,
        "severity": message.severity.value,
        "url": message.url or "",
    }
    topic = "" if here.offers is None else here.environ.get(here.offers.topic_env, "").strip()
    # A token must not be read on its way: neither to the phone nor back.
    plain = service_of(where, route.route.kind, route.route.to, extras)
    if attached.buttons and private(topic) and _is_private(plain):
        where += f"{'&' if '?' in where else '?'}actions={quote(_actions(attached.buttons, topic))}"
    service = service_of(where, route.route.kind, route.route.to, extras)
    if attached.ref:
        message = _named(service, message, attached.ref)
    begin()
    return send(service, message, route.name)


def _is_private(service: NotifyBase) -> bool:
    """Tell whether nobody reads on its way what is sent by ntfy; its cloud is on https alone."""
    encrypted = service.secure or getattr(service, "mode", "") == "cloud"
    return encrypted or private(f"http://{service.host}")


def _actions(buttons: Sequence[Button], topic: str) -> str:
    """Return ntfy's short form of buttons that post to a topic."""
    return "; ".join(
        f'http, {each.label}, "{topic}", method=POST, body="{each.body}", clear=true'
        for each in buttons
    )


def _named(service: NotifyBase, message: Message, ref: str) -> Message:
    """Have the service keep a message under a name: as its own key, else in the text."""
    key = SERVICE_KEYS.get(kind_of(service))
    if key is not None:
        setattr(service, key, ref)
        return message
    body = f"{message.body}\nanswers to {ref}".strip()
    return message.model_copy(update={"body": body})


def _terminal_trouble(here: Here, _: Route) -> str | None:
    return "no terminal here" if here.ring is None else None


async def _to_terminal(here: Here, route: Named, message: Message, begin: Begin) -> Delivery:
    await offload(begin, deadline=BEGIN_WITHIN)
    try:
        rung = here.ring is not None and here.ring(sequence(message, here.environ)) is not False
    except OSError as error:
        return Delivery(route=route.name, ok=False, note=error.strerror or "it is gone")
    return Delivery(route=route.name, ok=rung, note="rung" if rung else "no terminal here")


def _desktop_trouble(here: Here, _: Route) -> str | None:
    program = _desktop_program()
    if shutil.which(program, path=here.environ.get("PATH")) is None:
        return f"{program} is not installed"
    shown = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
    if program == "notify-send" and not any(here.environ.get(name) for name in shown):
        return "no desktop here (no DISPLAY)"
    return None


async def _to_desktop(_: Here, route: Named, message: Message, begin: Begin) -> Delivery:
    await offload(begin, deadline=BEGIN_WITHIN)
    body = cut(message.text, DESKTOP_LIMIT)
    if _desktop_program() == "osascript":
        argv = ["osascript", "-e", _APPLE, message.title, body]
    else:
        urgent = "critical" if message.severity is Severity.CRITICAL else "normal"
        plain = body.replace("&", "&amp;").replace("<", "&lt;")
        argv = ["notify-send", "--app-name=cockpit", f"--urgency={urgent}", "--"]
        argv += [message.title, plain]
    return _delivery(await run_command(argv, deadline=DEADLINE), route.name)


def _command_trouble(_: Here, route: Route) -> str | None:
    return None if command_words(route) else "the command is empty or unfinished"


async def _to_command(here: Here, route: Named, message: Message, begin: Begin) -> Delivery:
    """Give the message to the route's command on standard input."""
    await offload(begin, deadline=BEGIN_WITHIN)
    words = [Template(word).safe_substitute(here.environ) for word in command_words(route.route)]
    about = {
        "COCKPIT_RUN": message.run,
        "COCKPIT_EVENT": message.event,
        "COCKPIT_SEVERITY": message.severity.value,
        "COCKPIT_TITLE": message.title,
    }
    text = f"{message.title}\n\n{message.text}".rstrip() + "\n"
    done = await run_command(words, deadline=DEADLINE, cwd=here.folder, env=about, stdin=text)
    return _delivery(done, route.name)


def _desktop_program() -> str:
    return "osascript" if sys.platform == "darwin" else "notify-send"


def _delivery(done: Completed, route: str) -> Delivery:
    """Say how a program ended; what it printed is not repeated, it may hold an address."""
    if done.ok:
        return Delivery(route=route, ok=True, note="sent")
    if done.timed_out:
        return Delivery(route=route, ok=False, note=f"did not end within {DEADLINE:g} s", lost=True)
    if done.rc in (126, 127):
        return Delivery(route=route, ok=False, note="the program cannot be run (is it installed?)")
    return Delivery(route=route, ok=False, note=f"it exited with {done.rc}")


def sequence(message: Message, environ: Mapping[str, str]) -> str:
    """Return what makes the terminal ring and, where it can, show the title.

    Inside tmux OSC 9 is wrapped to pass through (``allow-passthrough``); the bell needs no leave.
    The text begins with a word: a number there would be read as another command.
    """
    if environ.get("TERM", "") in _PLAIN or "STY" in environ:
        return BELL
    text = f"\x1b]9;cockpit: {cut(clean(message.title), LIMIT)}\x1b\\"
    if environ.get("TMUX"):
        text = "\x1bPtmux;" + text.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return BELL + text


def terminal_of_this_process() -> Ring | None:
    """Return how to ring the terminal that standard error or output shows; ``None`` without."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(ValueError):  # closed
            if stream is not None and stream.isatty():
                return partial(_ring, stream)
    return None


def _ring(stream: TextIO, text: str) -> None:
    os.write(stream.fileno(), text.encode("utf-8", "replace"))


BY_APPRISE: Final = Sender(_address_trouble, _to_address)
SENDERS: Final = {
    "terminal": Sender(_terminal_trouble, _to_terminal),
    "desktop": Sender(_desktop_trouble, _to_desktop),
    "command": Sender(_command_trouble, _to_command),
}
"""The kinds of route that need no address; every other one is sent by apprise."""
