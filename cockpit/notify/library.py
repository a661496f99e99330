"""Messages through ``apprise``: chat services, webhooks and mail. Blocking; called in a thread.

It is imported here and only when something is sent. Its logging goes nowhere, since it may
repeat an address; what it logs is only searched for the reason of a failure. What a service would
read as markup or as a call is made neutral: a log line that says ``@everyone`` must not ring a
hundred telephones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from cockpit.model.alert import Severity
from cockpit.notify.message import Delivery, Message, cut
from cockpit.notify.reasons import reason_of
from cockpit.runtime.own_path import Library

if TYPE_CHECKING:
    from apprise import NotifyBase
import re

CONNECT_WITHIN: Final = 4.0
ANSWER_WITHIN: Final = 6.0
_TYPES: Final = {
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.ALERT: "warning",
    Severity.CRITICAL: "failure",
}
_KINDS: Final = {"json": "webhook"}
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
