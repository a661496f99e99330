"""How an Iris controller is reached: its address, and the token that it wants (SPEC S-1).

The run file names a ``controller_url``, or a ``cluster`` by the name or the file of its
configuration, as ``iris --cluster`` does. A token comes from a named variable or a command;
it is sent only where it stays between the two, and no text ever holds it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib
import ipaddress
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import Auth, JobSpec
from cockpit.runtime.shell import run_command
from cockpit.sources.logs.local import LocalLog
from cockpit.text.safe import clean

AUTHORIZATION: Final = "Authorization"
COMMAND: Final = 10.0
"""Seconds that a token command is given."""
EARLY: Final = 60.0
"""Seconds before its end in which a token is not used any more."""
BIGGEST: Final = 1 << 20
USERS: Final = "~/.config/marin/clusters"
IN_TREE: Final = "lib/iris/config"
_TOKEN: Final = re.compile(r"[!-~]{4,16384}")
_NAME: Final = re.compile(r"[\w.-]{1,100}")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_TUNNEL: Final = "keep a tunnel open (iris --cluster {0} cluster dashboard) and set controller_url"


class AccessError(Exception):
    """Why a controller cannot be asked at all; the text is one line, ``kind`` the facet's."""

    def __init__(self, kind: ErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def endpoint_of(job: JobSpec) -> str:
    """Return the name of the system that answers for a job: one for all spellings of an address."""
    if job.controller_url is not None:
        return f"iris {base_of(job.controller_url)}"
    return f"iris {job.cluster or 'nowhere'}"


def base_of(url: str) -> str:
    """Return an address in its one spelling: scheme and host in lower case, no slash at the end."""
    parts = urlsplit(url.strip())
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def address_of(job: JobSpec) -> str:
    """Return the address of a job's controller; blocking, raises ``AccessError``."""
    if job.controller_url is not None:
        base = base_of(job.controller_url)
        if urlsplit(base).scheme in ("http", "https") and urlsplit(base).hostname:
            return base
        text = f"job.controller_url {clean(base, 200)} is not an address; expected http://host:port"
        raise AccessError(ErrorKind.NOT_FOUND, text)
    if job.cluster is None:
        text = "neither job.controller_url nor job.cluster says which controller to ask"
        raise AccessError(ErrorKind.NOT_FOUND, text)
    return _of_cluster(job)


def _of_cluster(job: JobSpec) -> str:
    """Return the address that a cluster's configuration names."""
    name = clean(job.cluster, 200)
    found = _config_file(job)
    document = _read(found, name)
    url = _at(document, "auth", "iap", "url")
    if isinstance(url, str) and urlsplit(url).scheme == "https":
        return base_of(url)
    port = _at(document, "controller", "local", "port")
    if isinstance(port, int) and 0 < port < 65536:
        return f"http://127.0.0.1:{port}"
    text = f"cluster {name} ({found}) names no address of its own: {_TUNNEL.format(found.stem)}"
    raise AccessError(ErrorKind.NOT_FOUND, text)


def _config_file(job: JobSpec) -> Path:
    name = job.cluster or ""
    tried = list(_candidates(name, None if job.workdir is None else job.workdir.local))
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        where = ", ".join(dict.fromkeys(str(path.parent) for path in tried)) or "nowhere"
        text = f"no configuration of cluster {clean(name, 200)} in {where}: set controller_url"
        raise AccessError(ErrorKind.NOT_FOUND, text)
    return found


def _candidates(name: str, workdir: str | None) -> Iterator[Path]:
    """Yield where a cluster's configuration may lie, in the order in which Iris looks."""
    start = Path(workdir) if workdir is not None else Path.cwd()
    path = Path(name).expanduser()
    if "/" in name or path.suffix in (".yaml", ".yml"):
        yield path if path.is_absolute() else start / path
        return
    if not _NAME.fullmatch(name):
        return
    for folder in (Path(USERS).expanduser(), *_trees(start), *_packages()):
        yield folder / f"{name}.yaml"
        yield folder / f"{name}.yml"


def _trees(start: Path) -> Iterator[Path]:
    """Yield the folder of configurations in the first checkout at or above a folder."""
    for folder in (start, *start.parents):
        if (folder / IN_TREE).is_dir():
            yield folder / IN_TREE
            return


def _packages() -> Iterator[Path]:
    """Yield the folder of configurations beside the ``iris`` that stands on the search path."""
    program = shutil.which("iris")
    if program is not None:
        prefix = Path(program).parent.parent
        yield from prefix.glob("lib/python3*/site-packages/iris/config")


def _read(path: Path, name: str) -> object:
    try:
        yaml: Any = importlib.import_module("yaml")
        with LocalLog(path).open() as file:
            return yaml.safe_load(file.read(0, BIGGEST))
    except ImportError:
        why = "there is no YAML parser: set controller_url"
    except OSError as error:
        why = f"cannot be read: {(error.strerror or 'no').lower()}"
    except (yaml.YAMLError, ValueError, RecursionError):
        why = "is not valid YAML"
    raise AccessError(ErrorKind.NOT_FOUND, f"the configuration of cluster {name} ({path}) {why}")


def _at(document: object, *names: str) -> object:
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


class Tokens:
    """The headers that a controller wants; a command's token is kept until its end or refusal."""

    def __init__(self, clock: Clock, env: Mapping[str, str] | None = None) -> None:
        self._clock = clock
        self._env = os.environ if env is None else env
        self._kept: dict[str, _Kept] = {}
        self._running = asyncio.Lock()

    async def headers(self, job: JobSpec, address: str) -> dict[str, str]:
        """Return the headers to send to a controller; raises ``AccessError``."""
        auth = auth_of(job)
        if auth is None:
            return {}
        name = auth.header or AUTHORIZATION
        if not _HEADER.fullmatch(name):
            raise AccessError(ErrorKind.UNAUTHORIZED, "job.auth: the header has no valid name")
        if not _private(address):
            text = f"{address} is neither https nor a private address: no token is sent there"
            raise AccessError(ErrorKind.UNAUTHORIZED, text)
        token = await self._token(auth)
        return {name: token if " " in token else f"Bearer {token}"}

    def refused(self, job: JobSpec, headers: Mapping[str, str]) -> bool:
        """Drop a refused token that a command gave; tells whether another one can be had."""
        auth = auth_of(job)
        if auth is None or auth.token_command is None:
            return False
        key = repr(auth.token_command)
        kept = self._kept.get(key)
        if kept is not None and any(value.endswith(kept.value) for value in headers.values()):
            del self._kept[key]
        return True

    async def _token(self, auth: Auth) -> str:
        if auth.token_env is not None:
            value = self._env.get(auth.token_env, "").strip()
            if _is_token(value):
                return value
            if auth.token_command is None:
                why = "is not set" if not value else "holds no token"
                raise AccessError(ErrorKind.UNAUTHORIZED, f"${auth.token_env} {why}: export it")
        if auth.token_command is None:
            text = "job.auth names neither token_env nor token_command"
            raise AccessError(ErrorKind.UNAUTHORIZED, text)
        async with self._running:  # many requests at once need one token
            key = repr(auth.token_command)
            kept = self._kept.get(key)
            if kept is None or self._clock.now() >= kept.until:
                value = await _by_command(auth.token_command)
                kept = self._kept[key] = _Kept(value, _end_of(value))
        return kept.value


class _Kept(NamedTuple):
    value: str
    until: float

    def __repr__(self) -> str:
        return f"<token until {self.until}>"


def auth_of(job: JobSpec) -> Auth | None:
    """Return how to authenticate, where the run file says so."""
    if job.auth is None:
        return None if job.token_command is None else Auth(token_command=job.token_command)
    command = job.auth.token_command or job.token_command
    return job.auth.model_copy(update={"token_command": command})


def remedy_of(job: JobSpec) -> str:
    """Return what a person can do about a token that is missing or refused."""
    auth = auth_of(job)
    if auth is None:
        return "set job.auth, or log in (iris --cluster … login) and name its token's command"
    if auth.token_command is not None:
        return "run job.auth.token_command by hand and check what it prints"
    return f"export a fresh token as {auth.token_env}"


async def _by_command(command: str | tuple[str, ...]) -> str:
    """Return what a token command prints; its output is never shown."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
        program = clean(PurePath(words[0]).name, 80)
    except (ValueError, IndexError):
        text = "the token command is empty or has an open quote"
        raise AccessError(ErrorKind.UNAUTHORIZED, text) from None
    done = await run_command(words, deadline=COMMAND, cap=1 << 16)
    why, token = "", done.text.strip()
    if done.timed_out:
        why = f"did not end within {COMMAND:g} s"
    elif not done.ok:
        why = f"ended with {done.rc}: run it by hand"
    elif not _is_token(token):
        why = "printed no token: run it by hand"
    if why:
        raise AccessError(ErrorKind.UNAUTHORIZED, f"the token command ({program}) {why}")
    return token


def _is_token(value: str) -> bool:
    """Tell whether a text can stand in a header: one word, or a scheme and a word."""
    words = value.split(" ")
    return len(words) <= 2 and all(_TOKEN.fullmatch(word) for word in words)


def _end_of(token: str) -> float:
    """Return until when a token may be used: what it says itself (JWT), else until its refusal."""
    try:
        part = token.split(" ")[-1].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"]) - EARLY
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error, RecursionError):
        return float("inf")


def _private(address: str) -> bool:
    """Tell whether what is sent there stays between the two: encrypted, or on a private network."""
    parts = urlsplit(address)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_private
    except ValueError:
        return False
