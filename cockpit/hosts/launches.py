"""Starts a job's command detached from whoever asks for it, on the machine that asks or far away.

A small supervisor process in a session of its own starts the command (in yet another session, so
that the command can be killed as a group and the supervisor lives on) and stays with it. It depends
on nobody: not on the agent, not on a link, not on a file that it was read from.

Standard library only, Python 3.8 and newer: it is sent along with the agent.
"""

from __future__ import annotations

import functools
import json
import os
import select
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cockpit.hosts.agent import TEXTS
from cockpit.hosts.supervisor import (
    LAUNCH_ID,
    LINEAGE,
    LOCKED,
    REFUSALS,
    RUN,
    SUPERVISES,
    USED,
    Launch,
)

ANSWER_WITHIN = 60.0
"""Seconds in which a supervisor must have said how the start went."""
MODULES = ("cockpit.hosts.own_folder", "cockpit.hosts.notes", "cockpit.hosts.supervisor")
"""What a supervisor consists of, each after those that it imports."""
_BEGIN = """\
import json, sys, types, zlib
for name, text in json.loads(zlib.decompress(sys.stdin.buffer.read())).items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[1:]))
# /cockpit/hosts/supervisor.py"""
"""Makes a supervisor of its text. By how it ends it is known in a list of processes."""


class LaunchError(Exception):
    """The command was not started and will not be; the message is one line that says why."""


class LockedError(LaunchError):
    """Something of another job of the same lineage lives; the message names it."""


class UsedError(LaunchError):
    """The launch id was used before; the message says what is known of it."""


class UnansweredError(Exception):
    """The supervisor did not say how the start went: the command may run. Look it up."""


@dataclass(frozen=True)
class Started:
    """A command that runs: its process id, its start (epoch seconds) and its supervisor."""

    pid: int
    start: float
    supervisor: subprocess.Popen[bytes]


def start(launch: Launch, deadline: float = ANSWER_WITHIN) -> Started:
    """Start ``launch`` and return once its process runs and its pid file is written.

    Raises ``LaunchError`` (``LockedError``, ``UsedError``) if nothing was started, and
    ``UnansweredError`` if that is not known after ``deadline`` seconds.
    """
    supervisor = _begin(launch)
    assert supervisor.stdout is not None and supervisor.stderr is not None
    with supervisor.stdout, supervisor.stderr:
        line = _answer(supervisor.stdout.fileno(), time.monotonic() + deadline)
        if line is None:
            raise UnansweredError(f"the supervisor said nothing within {deadline:g} s")
        if line:
            told = json.loads(line)
            return Started(pid=told["pid"], start=told["start"], supervisor=supervisor)
        raise _refusal(supervisor, supervisor.stderr.fileno())


def _begin(launch: Launch) -> subprocess.Popen[bytes]:
    own = {
        **os.environ,
        **(launch.env or {}),
        SUPERVISES: f"{launch.launch_id or '-'} {launch.lineage or ''}",
    }
    for name in (LAUNCH_ID, RUN, LINEAGE):
        own.pop(name, None)
    try:
        supervisor = subprocess.Popen(
            [sys.executable, "-IS", "-Xutf8", "-c", _BEGIN, *_arguments(launch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=own,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise LaunchError(f"cannot start a supervisor: {error}") from error
    assert supervisor.stdin is not None
    with suppress(OSError), supervisor.stdin:  # it was killed: its end tells
        supervisor.stdin.write(_texts())
    return supervisor


@functools.lru_cache(maxsize=1)
def _texts() -> bytes:
    """Return the supervisor as it is given to Python; one that is cut short starts nothing."""
    texts = {name: TEXTS.get(name) or _read(name) for name in MODULES}
    return zlib.compress(json.dumps(texts).encode("ascii"))


def _read(name: str) -> str:
    return Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")


def _answer(pipe: int, until: float) -> bytes | None:
    """Return the first line from ``pipe``, nothing at its end, ``None`` when time is up."""
    line, said = b"", select.poll()
    said.register(pipe, select.POLLIN)
    while not line.endswith(b"\n"):
        left = max(0.0, until - time.monotonic())  # stopped meanwhile: it may have answered
        if not said.poll(left * 1000):
            return None
        data = os.read(pipe, 4096)
        if not data:
            return b""
        line += data
    return line


def _refusal(supervisor: subprocess.Popen[bytes], complaints: int) -> Exception:
    """Return what it means that the supervisor ended without an answer."""
    try:
        status = supervisor.wait(ANSWER_WITHIN)
    except subprocess.TimeoutExpired:
        return UnansweredError("the supervisor closed its answer and went on")
    if status not in REFUSALS:
        return UnansweredError(f"the supervisor ended with {status} before it answered")
    text = os.read(complaints, 65536).decode("utf-8", "replace").strip()
    line = text.splitlines()[-1] if text else f"the supervisor refused ({status})"
    return {LOCKED: LockedError, USED: UsedError}.get(status, LaunchError)(line)


def _arguments(launch: Launch) -> list[str]:
    places = {
        "--log": launch.log,
        "--pid-file": launch.pid_file,
        "--exit-file": launch.exit_file,
        "--cwd": launch.cwd,
        "--launches": launch.launches,
    }
    named = [(flag, path.absolute()) for flag, path in places.items() if path is not None]
    named += [("--lock", path.absolute()) for path in launch.locks]
    given = [part for flag, path in named for part in (flag, str(path))]
    words = {"--launch-id": launch.launch_id, "--run": launch.run, "--lineage": launch.lineage}
    given += [f"{flag}={word}" for flag, word in words.items() if word is not None]
    return [*given, "--", *launch.command]
