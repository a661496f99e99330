"""One machine, near or far: the agent's functions in process here, through its link elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.link import Answers, Ask, Link, Value, ask, link_to
from cockpit.model.place import SSH, Place
from cockpit.runtime.ssh import checked


def host_of(place: Place) -> str | None:
    """Return the ssh host that a folder lies on, ``None`` for this machine."""
    return place.host if place.scheme == SSH else None


def _link(host: str | None) -> Link:
    return HERE_LINK if host is None else link_to(host)


async def ask_host(
    host: str | None, asks: Iterable[Ask], deadline: float, patience: float | None = None
) -> Answers:
    """Return each question's answer or problem, from an ssh host or (``None``) from here.

    On a host, no answer is waited for longer than ``patience`` seconds after the one before.
    """
    return await _link(host).ask(asks, deadline, patience=patience or deadline)


async def call(
    host: str | None, what: str, function: str, /, *, deadline: float, **arguments: object
) -> Value:
    """Do something on a host (``None``: here) and return the function's value.

    Raises ``OSError`` for what the host refuses, and ``RemoteError`` where it gives no answer:
    ``sent`` tells that it may have been done all the same, and must be looked at.
    """
    if host is not None:
        checked(host)
    return await _link(host).act(ask(what, function, **arguments), deadline)
