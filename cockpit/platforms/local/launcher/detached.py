"""Runs one command detached from whoever starts it, and notes how it fares (INTERFACE).

A small supervisor process in a session of its own starts the command (in yet another session,
so that the command can be killed as a group and the supervisor lives on), appends its
output to ``log``, writes ``pid_file`` when it runs and ``exit_file`` when it has ended. Both
are written atomically, in the format that ``cockpit.platforms.local.jobs`` reads::

    12345                     the command's own process id
    start=1795249501.37       when it started, epoch seconds, as the kernel says
    ticks=4711842             the same in ticks since boot, which setting the clock does not move
    launch_id=my-run-i003     if there is one
    boot=, machine=, host=    which start of which machine this was
    space=pid:[4026531836]    which process ids these are: a container counts its own
    log=5307:81920:4117       where its first line stands in the log: inode, byte, checksum

The exit file holds one integer: the exit status, 128 + n for signal n, 127 for a missing
program, 126 for one that cannot be executed. What the supervisor does, and in which order so
that nothing ever runs without a trace, is said in ``cockpit.platforms.local.launcher.supervisor``.

``living`` and ``stop`` find and stop the processes that pid files name, never by a program's name.
A process counts only if it started when its pid file says, so that a reused id is left alone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cockpit.platforms.local.launcher.notes import start_ticks, started_at

ANSWER_WITHIN = 60.0
"""Seconds in which a supervisor must have said how the start went."""
BAD_USE, CANNOT_NOTE, LOCKED, USED, CANNOT_EXECUTE, NO_PROGRAM = 64, 74, 75, 76, 126, 127
REFUSALS = (BAD_USE, CANNOT_NOTE, LOCKED, USED, CANNOT_EXECUTE, NO_PROGRAM)
"""Exit statuses of a supervisor that has started nothing, and never will."""
LAUNCH_ID, RUN, LINEAGE = "COCKPIT_LAUNCH_ID", "COCKPIT_RUN", "COCKPIT_LINEAGE"
"""Variables in which a job carries what it is, so that it can be found by looking."""
SUPERVISES = "COCKPIT_SUPERVISES"
"""The variable by which a supervisor is known: launch id, lineage. The command does not get it."""


class LaunchError(Exception):
    """The command was not started and will not be; the message is one line that says why."""


class LockedError(LaunchError):
    """Something of another job of the same lineage lives; the message names it."""


class UsedError(LaunchError):
    """The launch id was used before; the message says what is known of it."""


class UnansweredError(Exception):
    """The supervisor did not say how the start went: the command may run. Look it up."""


@dataclass(frozen=True)
class Launch:
    """What to start and where to note it. ``env`` is added to this process's environment.

    ``$NAME`` in the command is filled in by the supervisor, from the environment, right before
    it starts the command. ``locks`` are held for as long as the supervisor or anything of the
    command lives; ``launches`` is the folder in which ``launch_id`` is used up.
    """

    command: Sequence[str]
    log: Path
    pid_file: Path
    exit_file: Path
    cwd: Path
    launch_id: str | None = None
    env: Mapping[str, str] | None = None
    run: str | None = None
    lineage: str | None = None
    locks: Sequence[Path] = ()
    launches: Path | None = None


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
    program = str(Path(__file__).with_name("supervisor.py"))
    try:
        return subprocess.Popen(
            [sys.executable, "-E", "-S", "-P", program, *_arguments(launch)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=own,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise LaunchError(f"cannot start a supervisor: {error}") from error


def _answer(pipe: int, until: float) -> bytes | None:
    """Return the first line from ``pipe``, nothing at its end, ``None`` when time is up."""
    line = b""
    while not line.endswith(b"\n"):
        left = max(0.0, until - time.monotonic())  # stopped meanwhile: it may have answered
        if not select.select([pipe], [], [], left)[0]:
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


SLACK = 5.0
"""Seconds by which a noted start may differ from the kernel's."""
LOOK = 0.05
WRITE_WAIT = 1.0
"""Seconds that a supervisor is given to note the exit status of a process that has ended."""


@dataclass(frozen=True)
class Noted:
    """A process that a pid file names: its id, its start (epoch seconds) and its launch id.

    ``ticks`` is its start in ticks since boot, which decides where the pid file has it.
    """

    pid: int
    start: float
    launch_id: str | None
    pid_file: Path
    ticks: int | None = None

    @property
    def exit_file(self) -> Path:
        """Where its supervisor notes the exit status: ``run.exit`` beside ``run.pid``."""
        return self.pid_file.with_suffix(".exit")

    @property
    def alive(self) -> bool:
        """True while that very process runs (a zombie has ended)."""
        if _is_zombie(self.pid) or not _is_leader(self.pid):
            return False
        if self.ticks is not None:
            return start_ticks(self.pid) in (None, self.ticks)
        began = started_at(self.pid)
        return began is None or abs(began - self.start) <= SLACK


def noted(pid_file: Path) -> Noted | None:
    """Return what a pid file says, or ``None`` if there is none that can be read."""
    try:
        first, *rest = pid_file.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split("=", 1) for line in rest)
        ticks = int(fields["ticks"]) if "ticks" in fields else None
        return Noted(int(first), float(fields["start"]), fields.get("launch_id"), pid_file, ticks)
    except (OSError, ValueError, KeyError):
        return None


def living(pid_files: Iterable[Path]) -> list[Noted]:
    """Return the processes that still run."""
    found = (noted(path) for path in pid_files)
    return [process for process in found if process is not None and process.alive]


def stop(find: Callable[[], list[Noted]], patience: float, settle: float = 0.0) -> None:
    """Stop every process that ``find`` returns: SIGTERM, and after ``patience`` s SIGKILL.

    Each is signalled as a group. It is looked for again until there has been none for
    ``settle`` s, so that one that was just being started does not slip through.
    """
    seen: dict[int, Noted] = {}
    now = time.monotonic()
    deadline, quiet_since = now + patience, now
    while (found := find()) or now - quiet_since < settle:
        for process in found:
            if now >= deadline or process.pid not in seen:
                kill(process, signal.SIGKILL if now >= deadline else signal.SIGTERM)
            seen[process.pid] = process
            quiet_since = now
        time.sleep(LOOK)
        now = time.monotonic()
    until = time.monotonic() + WRITE_WAIT
    for process in seen.values():
        while not process.exit_file.exists() and time.monotonic() < until:
            time.sleep(LOOK / 5)


def kill(process: Noted, number: int) -> None:
    """Send a signal to a process and its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _is_leader(pid: int) -> bool:
    """Tell whether ``pid`` leads a process group, as everything does that is started detached."""
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _is_zombie(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[:1] in ([b"Z"], [b"X"])
