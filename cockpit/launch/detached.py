"""Runs one command detached from whoever starts it, and notes how it fares (INTERFACE).

A small supervisor process in a session of its own starts the command (in yet another session,
so that the command can be killed as a group and the supervisor lives to tell), appends its
output to ``log``, writes ``pid_file`` when it runs and ``exit_file`` when it has ended. Both
are written atomically, in the format that ``cockpit.sources.local`` reads::

    12345                     the command's own process id
    start=1795249501.37       when it started, epoch seconds, as the kernel tells it
    ticks=4711842             the same in ticks since boot, which setting the clock does not move
    launch_id=my-run-i003     if there is one

The exit file holds one integer: the exit status, 128 + n for signal n, 127 for a missing
program, 126 for one that cannot be executed. The supervisor is this very file, run by its path
with the standard library alone: it starts fast and works wherever there is a Python.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PASSED_ON = (signal.SIGTERM, signal.SIGINT)
"""Signals that reach the command when someone sends them to the supervisor."""


class LaunchError(Exception):
    """The command could not be started; the message is one line that says why."""


@dataclass(frozen=True)
class Launch:
    """What to start and where to note it. ``env`` is added to this process's environment."""

    command: Sequence[str]
    log: Path
    pid_file: Path
    exit_file: Path
    cwd: Path
    launch_id: str | None = None
    env: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Started:
    """A command that runs: its process id, its start (epoch seconds) and its supervisor."""

    pid: int
    start: float
    supervisor: subprocess.Popen[str]


def start(launch: Launch) -> Started:
    """Start ``launch`` and return once its process runs and its pid file is written.

    Raises ``LaunchError`` if the supervisor or the command cannot be started.
    """
    supervisor = subprocess.Popen(
        [sys.executable, "-S", "-P", __file__, *_arguments(launch)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(launch.env or {})},
        start_new_session=True,
    )
    assert supervisor.stdout is not None and supervisor.stderr is not None
    with supervisor.stdout as answer, supervisor.stderr as complaint:
        line = answer.readline()
        trouble = "" if line else complaint.read().strip()
    if line:
        told = json.loads(line)
        return Started(pid=told["pid"], start=told["start"], supervisor=supervisor)
    supervisor.wait()
    raise LaunchError(trouble.splitlines()[-1] if trouble else "the supervisor ended at once")


def _arguments(launch: Launch) -> list[str]:
    places = {
        "--log": launch.log,
        "--pid-file": launch.pid_file,
        "--exit-file": launch.exit_file,
        "--cwd": launch.cwd,
    }
    given = [part for flag, path in places.items() for part in (flag, str(path.absolute()))]
    if launch.launch_id is not None:
        given += ["--launch-id", launch.launch_id]
    return [*given, "--", *launch.command]


def started_at(pid: int) -> float | None:
    """Return when ``pid`` started (epoch seconds), or ``None`` where the kernel does not say."""
    ticks = start_ticks(pid)
    try:
        lines = Path("/proc/stat").read_bytes().splitlines()
    except OSError:
        return None
    boot = next(float(line.split()[1]) for line in lines if line.startswith(b"btime "))
    return None if ticks is None else boot + ticks / os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int | None:
    """Return when ``pid`` started in ticks since boot, ``None`` where the kernel does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19])


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that a reader sees the former file or the whole new one."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def exit_status(returncode: int) -> int:
    """Return Python's return code as a shell tells it: 128 + n for signal n."""
    return 128 - returncode if returncode < 0 else returncode


def supervise(launch: Launch) -> int:
    """Run ``launch`` to its end, in the foreground; return the exit status that was noted."""
    launch.exit_file.unlink(missing_ok=True)
    try:
        with launch.log.open("ab") as log:
            child = _spawn(launch, log.fileno())
    except OSError as error:
        status = 127 if isinstance(error, FileNotFoundError) else 126
        sys.stderr.write(f"cannot start {launch.command[0]}: {error.strerror}\n")
        write_atomically(launch.exit_file, f"{status}\n")
        return status
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: _pass_on(child, received))
    begun = started_at(child.pid) or time.time()
    write_atomically(launch.pid_file, _note(launch, child.pid, begun))
    _tell({"pid": child.pid, "start": begun})
    status = exit_status(child.wait())
    write_atomically(launch.exit_file, f"{status}\n")
    return status


def _spawn(launch: Launch, log: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(launch.command),
        cwd=launch.cwd,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def _pass_on(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)


def _note(launch: Launch, pid: int, begun: float) -> str:
    ticks = start_ticks(pid)
    exact = "" if ticks is None else f"ticks={ticks}\n"
    name = "" if launch.launch_id is None else f"launch_id={launch.launch_id}\n"
    return f"{pid}\nstart={begun:.2f}\n{exact}{name}"


def _tell(answer: dict[str, float]) -> None:
    """Answer whoever waits in ``start``, then let go of its pipes."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _read(argv: Sequence[str]) -> Launch:
    parser = argparse.ArgumentParser(
        prog="detached", description="Run a command, note its pid and its exit status."
    )
    for flag in ("--log", "--pid-file", "--exit-file"):
        parser.add_argument(flag, type=Path, required=True)
    parser.add_argument("--cwd", type=Path, default=Path())
    parser.add_argument("--launch-id")
    parser.add_argument("command", nargs="+", help="after --: the command and its arguments")
    given = parser.parse_args(argv)
    return Launch(**vars(given))


def main(argv: Sequence[str] | None = None) -> int:
    """Supervise what the arguments describe; they are those of ``--help``."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return supervise(_read(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
