"""The recorded command as it will be run, and ``job.save_command``: words and placeholders.

The token that a system of jobs wants, from where the run file says it is; it is in no text.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

import cockpit.hosts.acting  # noqa: F401 - its functions are calls of the agent
from cockpit.hosts.agent import LATE
from cockpit.hosts.link import Link, ask
from cockpit.hosts.supervisor import expand
from cockpit.model.base import Command
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LiveJob
from cockpit.model.lineage import flags_of as flags_of
from cockpit.model.place import place_of
from cockpit.model.run import Auth, JobSpec, RunSpec
from cockpit.platforms.base import CannotError, CommandError, LostError, Platform
from cockpit.runtime.http import HttpError
from cockpit.runtime.shell import run_command
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import MASK, scrub
from cockpit.text.scrub import shown as safe_line

PLACEHOLDERS: Final = ("launch_id", "run", "wandb_id", "output_root", "checkpoint", "step")
_PLACE: Final = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")
"""A placeholder; ``${NAME}`` is a variable, and resolves where the command runs."""
_PLAIN: Final = re.compile(r"[\w@%+=:,./${}~^-]+", re.ASCII)
LONGEST: Final = 8000


def words_of(command: Command, what: str = "resubmit") -> tuple[str, ...]:
    """Return the words of a command, the setting ``what``; raises ``CommandError``."""
    if not isinstance(command, str):
        words = tuple(command)
    else:
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise CommandError(f"{what} is not a list of shell words: {error}") from error
    if not words or not words[0].strip():
        raise CommandError(f"{what} is empty")
    if any("\0" in word for word in words):
        raise CommandError(f"{what} holds a NUL character")
    return words


def places_in(words: Sequence[str]) -> frozenset[str]:
    """Return the placeholders that a command names."""
    return frozenset(name for word in words for name in _PLACE.findall(word))


def fill(
    words: Sequence[str],
    values: Mapping[str, str | None],
    places: Collection[str] = PLACEHOLDERS,
    what: str = "resubmit",
) -> tuple[str, ...]:
    """Return the words of the setting ``what`` with every placeholder filled.

    A value is put in as it is and never read again, so that it stays one word. Raises
    ``CommandError`` for one that is none of ``places``, or has no value.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in places:
            known = " ".join(f"{{{each}}}" for each in places)
            raise CommandError(f"{what} names {{{name}}}, which is none of {known}")
        told = values.get(name)
        if told is None:
            raise CommandError(f"{what} names {{{name}}}, which is not known for this run")
        return told

    return tuple(_PLACE.sub(value, word) for word in words)


def resolved(words: Sequence[str], own: Mapping[str, str]) -> tuple[str, ...]:
    """Return words with the variables of our environment and of ``own`` filled in.

    Raises ``CannotError`` for one that is not set.
    """
    try:
        return tuple(expand(words, {**os.environ, **own}))
    except KeyError as error:
        text = f"the command uses ${safe_line(error.args[0], 80)}, which is not set"
        raise CannotError(f"{text}; nothing was started") from error


def values_of(
    run: RunSpec, launch_id: str | None, checkpoint: str | None, step: int | None
) -> dict[str, str | None]:
    """Return what the placeholders stand for."""
    return {
        "launch_id": launch_id,
        "run": run.name,
        "wandb_id": run.wandb.id if run.wandb is not None else None,
        "output_root": None if run.output_root is None else run.output_root.seen_from(run.job),
        "checkpoint": None if checkpoint is None else place_of(checkpoint).seen_from(run.job),
        "step": None if step is None else str(step),
    }


def as_sent(
    platform: Platform | None, run: RunSpec, words: Sequence[str], values: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Return the recorded words as they are sent: filled, and in the form of their platform.

    The launch id stays what a launch is known by, in the journal and in what the platform adds;
    ``{launch_id}`` in the words is that id as the platform spells it. Raises ``CommandError``,
    and ``CannotError`` for an id that it cannot spell.
    """
    if platform is None:
        return fill(words, values)
    launch_id = values.get("launch_id")
    name = None if launch_id is None else platform.name_for(launch_id)
    return platform.formed(fill(words, {**values, "launch_id": name}), run, launch_id or "")


def shown(words: Sequence[str]) -> str:
    """Return a command as one line that can be read and copied, its secrets masked."""
    line = " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in words)
    return scrub(clean(line, LONGEST))


def recorded(words: Sequence[str]) -> str:
    """Return words that are masked already as the one line of a record: it reads back as them."""
    plain = (word == MASK or _PLAIN.fullmatch(word) for word in words)
    return " ".join(
        word if as_it_is else shlex.quote(word) for word, as_it_is in zip(words, plain, strict=True)
    )


def masked(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words for a record: safe, and masked also where words before make it a secret.

    That is one word (``--api-key x``), or two (``-e API_KEY x``).
    """
    safe = [scrub(clean(word, LONGEST)) for word in words]
    for place in range(1, len(safe)):
        for begin in (place - 1, place - 2):
            before = " ".join(safe[max(0, begin) : place]) + " "
            hidden = scrub(before + safe[place])
            if hidden != before + safe[place] and hidden.startswith(before):
                safe[place] = hidden[len(before) :]
    return tuple(safe)


SPARE: Final = 10.0
NOT_ASKED: Final = "it was not asked to save"
WITHIN: Final = 120
"""Seconds for the command: it asks, the save itself is waited for elsewhere."""
NO_WAY: Final = "the trainer has no way to save on request (job.save_signal, job.save_command)"


def save_words(
    run: RunSpec, command: Command, live: LiveJob, job_id: str | None = None
) -> list[str]:
    """Return a save command's words with their placeholders filled; raises ``CannotError``.

    ``job_id`` is what its own tools call the job, where that is not ``live.id``.
    """
    known = {
        "run": run.name,
        "launch_id": live.launch_id,
        "output_root": None if run.output_root is None else run.output_root.seen_from(run.job),
        "wandb_id": None if run.wandb is None else run.wandb.id,
        "job_id": job_id or live.id,
        "pid": live.handle.get("pid"),
        "pod": live.handle.get("pod"),
    }

    what = "job.save_command"
    try:
        return list(fill(words_of(command, what), known, known, what))
    except CommandError as error:
        raise CannotError(str(error)) from error


async def save_by_command(link: Link, run: RunSpec, live: LiveJob) -> None:
    """Run ``job.save_command`` on a machine, in its working folder.

    Raises ``CannotError`` and ``LostError``.
    """
    assert run.job is not None and run.job.save_command is not None
    words, folder = save_words(run, run.job.save_command, live), run.job.workdir or run.workdir
    place = None if folder is None else folder.path
    asked = ask("job.save_command", "command", words=words, folder=place, seconds=float(WITHIN))
    try:
        status, out, err, _ = await link.act(asked, deadline=WITHIN + SPARE)
    except RemoteError as error:
        raise unsaved(error) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        text = scrub(clean(f"job.save_command: {place}{error.strerror}", 300))
        raise CannotError(text) from error
    if status == LATE:
        raise LostError(f"job.save_command did not end within {WITHIN} s")
    if status:
        said = (err or out).encode("utf-8", "surrogateescape")
        raise ended(status if status > 0 else 128 - status, said)


def unsaved(error: RemoteError) -> LostError | CannotError:
    """Return what it means that a machine has not answered when a job was asked to save."""
    if error.sent:
        return LostError(f"no answer when it was asked to save: {error}")
    return CannotError(f"{error}; {NOT_ASKED}")


def ended(status: int, said: bytes) -> CannotError:
    """Return that the command has refused, in its own last words."""
    words = scrub(clean(said.decode("utf-8", "replace").strip()[-300:]))
    return CannotError(f"job.save_command ended with {status}: {words}")


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
