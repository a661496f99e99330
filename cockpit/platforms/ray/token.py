"""The token that a Ray head wants, found where the run file or Ray's own client would find it.

The run file names a variable (``token_env``) or a command (``token_command``), under ``[run.job]``
or its ``auth``; without either Ray's own places count: ``RAY_AUTH_TOKEN``, the file that
``RAY_AUTH_TOKEN_PATH`` names, ``~/.ray/auth_token``. No text from here ever holds the token.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import Auth, Command, JobSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import words_of
from cockpit.runtime.http import HttpError
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import open_regular
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean

HEADER: Final = "Authorization"
COMMAND_WITHIN: Final = 3.0
KEPT_FOR: Final = 300.0
"""Seconds for which what a command printed is used again, unless the head refuses it."""
FILE_WITHIN: Final = 1.0
_LONGEST: Final = 16_384


class Tokens:
    """Finds the headers of a request; remembers for a while what a command printed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._printed: dict[tuple[str, ...], tuple[float, str]] = {}

    async def headers(self, job: JobSpec) -> dict[str, str]:
        """Return the header with the token, none where there is no token.

        Raises ``HttpError`` (unauthorized) when the place that the run file names holds none.
        """
        auth = job.auth or Auth()
        token = await self._named(auth.token_env or job.token_env, "job.token_env")
        command = auth.token_command or job.token_command
        if token is None and command is not None:
            token = await self._from_command(command)
        if token is None:
            token = await _rays_own()
        if token is None:
            return {}
        if not token.isascii() or not token.isprintable():
            raise _no_token("the token holds characters that no header can carry")
        return {auth.header or HEADER: f"Bearer {token}"}

    def refused(self) -> None:
        """Forget what commands printed: the head did not take it."""
        self._printed.clear()

    async def _named(self, variable: str | None, key: str) -> str | None:
        if variable is None:
            return None
        token = os.environ.get(variable, "").strip()
        if not token:
            raise _no_token(f"the variable {clean(variable, 80)} ({key}) is not set")
        return token

    async def _from_command(self, command: Command) -> str:
        try:
            words = words_of(command)
        except CommandError as error:
            raise _no_token(f"job.token_command: {error}") from None
        at, token = self._printed.get(words, (float("-inf"), ""))
        if self._clock.monotonic() - at < KEPT_FOR:
            return token
        done = await run_command(words, deadline=COMMAND_WITHIN, cap=_LONGEST)
        token = done.out.decode("utf-8", "replace").strip()
        if not done.ok or not token:
            how = "did not end in time" if done.timed_out else f"ended with {done.rc}"
            why = how if not done.ok else "printed nothing"
            raise _no_token(f"job.token_command ({clean(words[0], 80)}) {why}")
        self._printed[words] = (self._clock.monotonic(), token)
        return token


def _no_token(why: str) -> HttpError:
    return HttpError(ErrorKind.UNAUTHORIZED, f"no token for Ray: {why}")


async def _rays_own() -> str | None:
    """Return the token that Ray's own client would send, ``None`` if it has none."""
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    if token:
        return token
    try:
        found = await offload(_read_file, deadline=FILE_WITHIN)
    except (OSError, RuntimeError, TimeoutError):  # no such file, or no home
        return None
    return found.decode("utf-8", "replace").strip() or None


def _read_file() -> bytes:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path("~/.ray/auth_token").expanduser()
    with open_regular(str(path)) as (fd, _):
        return os.pread(fd, _LONGEST, 0)
