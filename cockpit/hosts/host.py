"""One machine, near or far: the agent's functions in process here, through its link elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import cockpit.hosts.claims
import cockpit.hosts.saves
import cockpit.hosts.walking  # noqa: F401 - their functions are calls of the agent
from cockpit.hosts.agent import answer
from cockpit.hosts.link import WORDS, Answers, Ask, NoPythonError, answered, ask, link_to
from cockpit.model.facet import ErrorKind, Problem, kind_of
from cockpit.model.place import HERE, SSH, Place
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import checked, trouble, unreachable
from cockpit.text.safe import clean


def host_of(place: Place) -> str | None:
    """Return the ssh host that a folder lies on, ``None`` for this machine."""
    return place.host if place.scheme == SSH else None


async def ask_host(
    host: str | None, asks: Iterable[Ask], deadline: float, patience: float | None = None
) -> Answers:
    """Return each question's answer or problem, from an ssh host or (``None``) from here.

    On a host, no answer is waited for longer than ``patience`` seconds after the one before.
    """
    wanted = list(dict.fromkeys(asks))
    if host is not None:
        return await link_to(host).ask(wanted, deadline, patience=patience or deadline)
    return dict(zip(wanted, await asyncio.gather(*(_here(each, deadline) for each in wanted)),
                    strict=True))  # fmt: skip


async def _here(each: Ask, deadline: float) -> object:
    try:
        return _value(await _in_process(each, deadline))
    except TimeoutError:
        text = f"{each.what} did not answer within {deadline:g} s"
        return Problem(kind=ErrorKind.TIMEOUT, message=text)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        text = clean(f"{place}{error.strerror}", WORDS)
        return Problem(kind=kind_of(error), message=text)


async def _in_process(each: Ask, deadline: float) -> Mapping[str, Any]:
    """Do a call in a thread; while it hangs, the same question waits for it."""
    return await offload(
        lambda: answer(each.call, json.loads(each.arguments)), deadline=deadline, key=each
    )


def _value(message: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as the agent's functions
    if "value" in message:
        return message["value"]
    raise OSError(message["errno"], message["text"], message["path"] or None)


async def call(
    host: str | None, what: str, function: str, /, *, deadline: float, **arguments: object
) -> Any:  # noqa: ANN401 - as the agent's functions
    """Do something on a host (``None``: here) and return the function's value.

    Raises ``OSError`` for what the host refuses, and ``RemoteError`` where it gives no answer:
    ``sent`` tells that it may have been done all the same, and must be looked at.
    """
    asked = ask(what, function, **arguments)
    where = host or HERE
    try:
        return await (_do_here(asked, deadline) if host is None else _sent(host, asked, deadline))
    except OSError as error:
        if error.errno:
            raise
        text = clean(f"no answer: {error.strerror}", WORDS)  # a fault there: it may be done
        raise trouble(where, ErrorKind.BAD_ANSWER, text, sent=True) from error


async def _do_here(asked: Ask, deadline: float) -> object:
    try:
        return _value(await _in_process(asked, deadline))
    except TimeoutError as error:
        text = f"{asked.what} did not answer within {deadline:g} s"
        raise trouble(HERE, ErrorKind.TIMEOUT, text, sent=True) from error


async def _sent(host: str, asked: Ask, deadline: float) -> object:
    link = link_to(checked(host))
    future = link.send(asked)
    try:
        await answered([future], deadline, deadline)
        if not future.done() and future.cancel():
            text = f"no connection within {deadline:.2g} s"
            raise unreachable(host, ErrorKind.TIMEOUT, text)
        if not future.done():
            link.late()
            text = f"no answer within {deadline:.2g} s"
            raise trouble(host, ErrorKind.TIMEOUT, text, sent=True)
        return future.result()
    except NoPythonError as error:
        text = f"{error}; a host without Python is read only, and never acted on"
        raise NoPythonError(error.kind, text) from error
    finally:
        future.cancel()  # whoever is interrupted has given it up, too
