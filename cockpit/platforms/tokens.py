"""The token that a system of jobs wants, from where the run file says it is; it is in no text."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, NamedTuple

from cockpit.model.base import Command
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import Auth, JobSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import words_of
from cockpit.runtime.http import HttpError
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean

AUTHORIZATION: Final = "Authorization"
EARLY: Final = 60.0
"""Seconds before its end in which a token is not used any more."""
KEPT_FOR: Final = 300.0
"""Seconds for which a command's token is used again that does not tell its end."""
_TOKEN: Final = re.compile(r"[!-~]{3,16384}( [!-~]{4,16384})?")
"""What can stand in a header: a word, or a scheme and a word."""
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")


class _KeptToken(NamedTuple):
    value: str
    until: float

    def __repr__(self) -> str:
        return f"<token until {self.until}>"


class Tokens:
    """The headers that a system wants; a command's token is kept until its end or its refusal.

    A command has ``within`` seconds. Who asks while it runs shares what it prints or why it failed;
    one that hangs keeps nobody waiting who needs another.
    """

    def __init__(self, clock: Clock, within: float) -> None:
        self._clock = clock
        self._within = within
        self._kept: dict[str, _KeptToken] = {}
        self._running: dict[str, asyncio.Lock] = {}
        self._failed: dict[str, HttpError] = {}

    async def headers(self, job: JobSpec) -> dict[str, str]:
        """Return the header with the token, none where the run file names none.

        Raises ``HttpError`` (unauthorized) where the place that it names holds no token.
        """
        auth = auth_of(job) or Auth()
        name = auth.header or AUTHORIZATION
        if not _HEADER.fullmatch(name):
            raise _no_token("job.auth: the header has no valid name")
        token = await self._token(auth)
        return {} if token is None else {name: _as_header(token)}

    async def own(self) -> str | None:
        """Return the token that the system's own client would send, ``None`` if it has none."""
        return None

    def refused(self, job: JobSpec, sent: Mapping[str, str]) -> bool:
        """Drop a ``sent`` token of a command that was refused; tells whether there may be another.

        One that has come since is kept: of two requests with the former one, the later refusal says
        nothing of it.
        """
        auth = auth_of(job)
        command = None if auth is None else auth.token_command
        kept = self._kept.get(repr(command))
        if kept is not None and _as_header(kept.value) in sent.values():
            del self._kept[repr(command)]
        return command is not None

    async def _token(self, auth: Auth) -> str | None:
        value = os.environ.get(auth.token_env or "", "").strip()
        if value:
            return value
        if auth.token_command is None and auth.token_env is not None:
            raise _no_token(f"${clean(auth.token_env, 80)} is not set: export it")
        if auth.token_command is None:
            return await self.own()
        key = repr(auth.token_command)
        turn = self._running.setdefault(key, asyncio.Lock())
        waited = turn.locked()
        async with turn:
            if waited and key in self._failed:
                raise HttpError(ErrorKind.UNAUTHORIZED, str(self._failed[key]))
            kept = self._kept.get(key)
            if kept is None or self._clock.now() >= kept.until:
                self._failed.pop(key, None)
                try:
                    value = await self._printed(auth.token_command)
                except HttpError as error:
                    self._failed[key] = error
                    raise
                kept = self._kept[key] = _KeptToken(value, _end_of(value, self._clock.now()))
        return kept.value

    async def _printed(self, command: Command) -> str:
        """Return what a token command prints; its output is never shown."""
        try:
            words = words_of(command, "job.token_command")
        except CommandError as error:
            raise _no_token(str(error)) from None
        done = await run_command(words, deadline=self._within, cap=1 << 16)
        token, why = done.text.strip(), ""
        if done.timed_out:
            why = f"did not end within {self._within:g} s"
        elif not done.ok:
            why = f"ended with {done.rc}: run it by hand"
        elif not token:
            why = "printed no token: run it by hand"
        if why:
            raise _no_token(f"job.token_command ({clean(PurePath(words[0]).name, 80)}) {why}")
        _as_header(token)
        return token


def auth_of(job: JobSpec) -> Auth | None:
    """Return how to authenticate, where the run file says so."""
    own = job.auth or Auth()
    auth = Auth(
        header=own.header,
        token_env=own.token_env or job.token_env,
        token_command=own.token_command or job.token_command,
    )
    return None if job.auth is None and auth == Auth() else auth


def _as_header(token: str) -> str:
    """Return a token as the value of a header; raises ``HttpError`` for what cannot be one."""
    if not _TOKEN.fullmatch(token):
        raise _no_token("it holds what no header can carry")
    return token if " " in token else f"Bearer {token}"


def _no_token(why: str) -> HttpError:
    """Return that there is no token, and why."""
    return HttpError(ErrorKind.UNAUTHORIZED, f"no token: {why}")


def _end_of(token: str, now: float) -> float:
    """Return until when a token may be used: what it says itself (JWT), else for a while."""
    try:
        part = token.split(" ")[-1].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"]) - EARLY
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return now + KEPT_FOR
