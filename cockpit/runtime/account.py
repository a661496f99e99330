"""Who runs this: the account, the operator's name, and their own folders on this machine."""

from __future__ import annotations

import functools
import os
import pwd
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.config.places import state_dir
from cockpit.model.run import CockpitFile
from cockpit.runtime.private_folder import machine_tag, private_folder, why_not_private
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


@functools.cache
def login_name() -> str:
    """Return the account's name, masked, or its number where the system knows no name.

    ``LOGNAME`` and ``USER`` are not asked: they outlive ``su``, ``sudo`` and ``setpriv``.
    """
    try:
        return scrub(clean(pwd.getpwuid(os.getuid()).pw_name, 200)) or f"uid {os.getuid()}"
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


ANSWER: Final = 4.0
"""Seconds that git may take to say who its user is."""
ASK: Final = ("git", "--no-pager", "config", "--get", "user.name")
SAY_SO: Final = 'operator = "..." under [cockpit] in the run file says it'


class Operator(NamedTuple):
    """Who acts, and what a person should know of how that was found, if anything."""

    name: str
    notice: str | None = None


async def ask_operator(file: CockpitFile) -> Operator:
    """Return who acts, masked; a git that is not there, or hangs, leaves the account's name.

    Not asked while loading the run file: git takes longer than all the rest of it. Never raises.
    """
    if file.operator:
        return Operator(file.operator)
    from cockpit.runtime.shell import run_command  # few sessions ask

    done = await run_command(
        ASK, deadline=ANSWER, cwd=Path(file.path).parent, env={"GIT_TERMINAL_PROMPT": "0"}
    )
    if done.timed_out:
        said = f"git did not say who you are within {ANSWER:g} s: you act as {login_name()}"
        return Operator(login_name(), f"{said}; {SAY_SO}")
    name = scrub(clean(done.text, 1000))[:100] if done.ok else ""
    return Operator(name or login_name())


_SESSIONS: Final = Path("/run/user")
_SCRATCH: Final = Path("/tmp")


def machine_folder() -> Path:
    """Return this user's own folder on this machine, mode 0700, made if need be.

    The path is kept short (a Unix socket's takes 107 bytes on Linux). Raises
    ``MachineFolderError`` if it is another user's, or others may enter it.
    """
    session = _session_folder()
    if session is not None:
        return private_folder(session / f"cockpit-{machine_tag()}")
    return scratch_folder()


def scratch_folder() -> Path:
    """Return this user's own folder in ``/tmp``, whose path is short."""
    return private_folder(_SCRATCH / f"cockpit-{os.geteuid()}-{machine_tag()}")


def _session_folder() -> Path | None:
    """Return the session's folder if it is one that only this user can write to."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(given) if given.startswith("/") else _SESSIONS / str(os.geteuid())
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return folder if why_not_private(found, 0o022) is None and os.access(folder, os.W_OK) else None


KEPT = 20


def write_details(error: BaseException, folder: Path, now: float) -> Path | None:
    """Write the traceback (no local variables, secrets masked) to a 0600 file; return its path.

    Returns ``None`` if it cannot be written: a fault while reporting a fault is not reported.
    """
    stamp = datetime.fromtimestamp(now, tz=UTC).strftime("%Y%m%d-%H%M%S")
    path = folder / f"{stamp}-{os.getpid()}.txt"
    text = scrub("".join(traceback.format_exception(error)))
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        for old in sorted(folder.glob("*.txt"))[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path


def crash_message(error: BaseException, folder: Path, now: float) -> str:
    """Return one line about the error that ended some work; a fault's details go to ``folder``.

    A file, a program or a machine that does not answer is not a fault of the cockpit.
    """
    if isinstance(error, TimeoutError):
        why = scrub(clean(error)) or "it took too long"
        return f"no answer in time: {why}"
    return fault_line(error, write_details(error, folder, now))


def fault_line(error: BaseException, details: Path | None) -> str:
    """Return the one line that a person sees: what, and where the details lie."""
    where = f"details in {details}" if details is not None else "details could not be written"
    return f"an internal error: {type(error).__name__}; {where}"


def write_page(name: str, files: Mapping[str, str]) -> Path:
    """Write ``<name>.<ending>`` for each ending; return their path without it, raise ``OSError``.

    One of the same name, made before, is written anew.
    """
    folder = state_dir() / "pages"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    base = re.sub(r"[^\w.+-]", "_", name).lstrip(".") or "page"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    for ending, words in files.items():
        target = os.open(folder / f"{base}.{ending}", flags, 0o600)
        with os.fdopen(target, "w", encoding="utf-8") as file:
            file.write(words)
    return folder / base
