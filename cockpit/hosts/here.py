"""One machine, near or far: the agent's functions in process here, through its link elsewhere."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

import cockpit.hosts.acting
import cockpit.hosts.folders
import cockpit.hosts.launches
import cockpit.hosts.saves
import cockpit.hosts.walking  # noqa: F401 - their functions are calls of the agent
from cockpit.hosts import agent
from cockpit.hosts.link import (
    DEADLINE,
    PATIENCE,
    Answers,
    Ask,
    Link,
    Value,
    ask,
    called,
    fault,
    link_to,
    problem_of,
)
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.place import HERE, SSH, Place
from cockpit.runtime.offload import Call, Outcome, offload, offload_each
from cockpit.runtime.ssh import checked, trouble

QUICK: Final = frozenset({"about", "processes", "files", "texts", "real", "disk", "memory"})
"""Calls that are made one after the other in one thread, and apart only where one is slow."""


class HereLink:
    """The machine we are on, in the place of a host's ``HostLink``."""

    here: ClassVar[bool] = True
    host: ClassVar[str] = HERE

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        """Return each question's answer or problem; one that hangs costs itself alone."""
        wanted = list(dict.fromkeys(asks))
        quick = [each for each in wanted if each.call in QUICK]
        rest = [each for each in wanted if each.call not in QUICK]
        limit = min(deadline, patience)  # something answers at once: the machine is here
        found = await gather(*(self._asked(part, limit) for part in (quick, *zip(rest))))
        answers = {each: value for part in found for each, value in part.items()}
        return {each: answers[each] for each in wanted}

    async def _asked(self, asks: Sequence[Ask], deadline: float) -> dict[Ask, Value]:
        calls = [Call(partial(called, each), each) for each in asks]
        outcomes = await offload_each(calls, deadline=deadline)
        return {
            each: _answer(each, outcome, deadline)
            for each, outcome in zip(asks, outcomes, strict=True)
        }

    async def act(self, each: Ask, deadline: float = DEADLINE) -> Value:
        """Return the answer of what changes something; raises as ``Link.act``."""
        try:
            return await offload(partial(called, each), deadline=deadline, key=each)
        except TimeoutError as error:
            text = f"{each.what} did not answer within {deadline:g} s"
            raise trouble(HERE, ErrorKind.TIMEOUT, text, sent=True) from error
        except OSError as error:
            if error.errno:
                raise
            raise fault(HERE, error) from error


def _answer(each: Ask, outcome: Outcome[Value], deadline: float) -> Value:
    late = each.call == "run" and outcome.error is None and outcome.value[0] == agent.LATE
    if late or isinstance(outcome.error, TimeoutError):
        text = f"{each.what} did not answer within {deadline:g} s"
        return Problem(kind=ErrorKind.TIMEOUT, message=text)
    if isinstance(outcome.error, OSError):
        return problem_of(outcome.error)
    return outcome.value


HERE_LINK: Final = HereLink()


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
