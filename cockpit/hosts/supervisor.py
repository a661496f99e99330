"""The process that starts a job's command and stays with it to its end (INTERFACE, local and box).

``launches`` starts it wherever there is a Python 3.8, from its text alone and with the standard
library: it starts fast, and nothing is left behind. The order in which it does things is what keeps
SPEC A's promises, wherever it is killed and whenever the disk is full:

0. It leaves at once if its launch id is used up already: a look-up has closed it.
1. It takes the lineage's locks. They pass on to the command, so that they are held for as long
   as it or anything that it started lives.
2. It uses the launch id up. Nobody can start anything under it again.
3. It forks. The child waits for one byte and starts nothing before: if the supervisor dies, the
   child's pipe ends and it leaves.
4. It writes the pid file and the launch's note, both on the disk. If they cannot be written,
   the child never gets its byte.
5. It sends the byte; the child becomes the command, under the process id that was noted.

So whatever runs has been noted, and a launch still noted as ``starting`` whose supervisor is
gone has never run and never will.

What cleans ``/tmp`` goes by age, and a lock whose file is gone excludes nobody: while its job lives
it is dated far ahead, read last after it was written last, so that no reading brings it back.

The pid file reads::

    12345                     the command's own process id
    start=1795249501.37       when it started, epoch seconds, as the kernel says
    ticks=4711842             the same in ticks since boot, which setting the clock does not move
    launch_id=my-run-i003     if there is one
    boot=, machine=, host=    which start of which machine this was
    space=pid:[4026531836]    which process ids these are: a container counts its own
    log=5307:81920:4117       where its first line stands in the log: inode, byte, checksum

The exit file holds one integer: the exit status, 128 + n for signal n, 127 for a missing
program, 126 for one that cannot be executed.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cockpit.hosts.notes import (
    ENDED,
    FAILED,
    RUNNING,
    STARTING,
    HeldError,
    LockError,
    Status,
    boot_id,
    claim_launch,
    describe,
    end_mark,
    exit_status,
    machine_id,
    pid_space,
    release_locks,
    start_ticks,
    started_at,
    take_locks,
    write_note,
)
from cockpit.hosts.own_folder import follow, make_folder, read_whole, write_atomically

CANNOT_NOTE, LOCKED, USED, CANNOT_EXECUTE, NO_PROGRAM = 74, 75, 76, 126, 127
"""Exit statuses of a supervisor that has started nothing, and never will."""
DETACHED = "--detached"
"""The first argument of one that is to be nobody's child: what an agent has started is no job."""
LAUNCH_ID, RUN, LINEAGE = "COCKPIT_LAUNCH_ID", "COCKPIT_RUN", "COCKPIT_LINEAGE"
"""Variables in which a job carries what it is, so that it can be found by looking."""
SUPERVISES = "COCKPIT_SUPERVISES"
"""The variable by which a supervisor is known: launch id, lineage. The command does not get it."""
GO, READY = b"g", b"r"
CANNOT = 127
PASSED_ON = (signal.SIGTERM, signal.SIGINT)
"""Signals that reach the command when someone sends them to the supervisor."""
READ_LAST, WRITTEN_LAST = 2_145_916_800, 2_114_380_800
"""The times of a lock while its job lives: 2038 is more than some file systems know."""
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)


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


class Refused(Exception):  # noqa: N818 - it is an answer, not an error
    """Nothing was started; ``code`` is the supervisor's exit status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def expand(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the command with ``$NAME`` and ``${NAME}`` filled in, and ``~`` of its program.

    No shell is involved. Raises ``KeyError`` with the name of a variable that is not set.
    """
    first, *rest = (_VARIABLE.sub(lambda m: env[m[1] or m[2]], part) for part in command)
    return [os.path.expanduser(first), *rest]  # noqa: PTH111 - ``~`` of no user stays as it is


class Child:
    """The forked process: it waits until it is told to become the command.

    Raises ``OSError`` if it cannot get ready (there is no such folder).
    """

    def __init__(
        self, command: Sequence[str], cwd: Path, log: int, env: dict[str, str], hand_on: list[int]
    ) -> None:
        wait, self._go = os.pipe()
        self._said, say = os.pipe()
        self.ended = False
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            os.close(self._said)
            _become(command, cwd, log, env, hand_on, wait, say)
        os.close(wait)
        os.close(say)
        if os.read(self._said, 1) != READY:
            said = os.read(self._said, 20) or b"0"
            self.abandon()
            raise OSError(int(said), os.strerror(int(said)))

    def let_go(self) -> None:
        """Let it become the command; raises ``OSError`` if it could not."""
        with suppress(BrokenPipeError):  # it was killed while it waited: its end tells
            os.write(self._go, GO)
        os.close(self._go)
        said = os.read(self._said, 20)
        os.close(self._said)
        if said:
            self.wait()
            raise OSError(int(said), os.strerror(int(said)))

    def abandon(self) -> None:
        """Send it away: it leaves without having started anything."""
        os.close(self._go)
        os.close(self._said)
        self.wait()

    def wait(self) -> int:
        """Return its exit status, at its end. It is not reaped before it counts as ended."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.ended = True
        _, status = os.waitpid(self.pid, 0)
        return exit_status(status)

    def send(self, number: int) -> None:
        """Pass a signal on."""
        if not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _become(
    command: Sequence[str],
    cwd: Path,
    log: int,
    env: dict[str, str],
    hand_on: list[int],
    wait: int,
    say: int,
) -> NoReturn:
    """Get ready, say so, wait for the byte, and become the command; in the child only."""
    ready = False
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nowhere, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(cwd)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for handle in hand_on:
            os.set_inheritable(handle, True)
        os.write(say, READY)
        ready = True
        if os.read(wait, 1) == GO:
            os.execvpe(command[0], list(command), env)
    except OSError as error:
        os.write(say, (b"" if ready else b"!") + str(error.errno or 0).encode())
    finally:
        os._exit(CANNOT)


def supervise(launch: Launch) -> int:
    """Run ``launch`` to its end, in the foreground; return the exit status that was noted.

    Raises ``Refused`` if nothing was started.
    """
    # Before the locks: one that comes too late would hold them against its successor.
    if launch.launches is not None and launch.launch_id is not None:
        refuse_used(launch.launches, launch.launch_id)
    try:
        held = take_locks(launch.locks)
    except HeldError as error:
        raise Refused(LOCKED, str(error)) from error
    except LockError as error:
        raise Refused(CANNOT_NOTE, str(error)) from error
    describe(held, _lock_text(launch, os.getpid()))
    _date(held, (READ_LAST, WRITTEN_LAST))
    try:
        return _guarded(launch, held)
    finally:
        _date(held, None)
        release_locks(held)


def _guarded(launch: Launch, held: list[int]) -> int:
    note = _use_up(launch)
    try:
        status = _ready(launch)
        child = _start(launch, held, status, note)
    except Refused:
        _tell(note, launch, FAILED)
        raise
    _answer({"pid": child.pid, "start": started_at(child.pid) or time.time()})
    ended = child.wait()
    status.write(ended)
    _tell(note, launch, ENDED, child.pid, ended)
    return ended


def _start(launch: Launch, held: list[int], status: Status, note: Path | None) -> Child:
    """Start the command, noted before it runs; raises ``Refused``."""
    try:
        command, env = prepare(launch)
        new = not launch.log.exists()
        with launch.log.open("ab") as log:
            if new:
                follow(log.fileno(), launch.log.parent)
            child = Child(command, launch.cwd, log.fileno(), env, held)
    except Refused as refusal:
        status.write(refusal.code)
        raise
    except OSError as error:
        raise _cannot_now(launch, status, error) from error
    former = _text_of(launch.pid_file)
    try:
        text = pid_text(child.pid, launch.launch_id, end_mark(launch.log))
        write_atomically(launch.pid_file, text)
        if note is not None:
            write_note(note, _fields(launch, RUNNING, child.pid))
        launch.exit_file.unlink(missing_ok=True)  # the former job's
    except OSError as error:
        child.abandon()
        _restore(launch.pid_file, former)
        status.drop()
        text = f"cannot note the job ({error.filename or launch.pid_file}): {error.strerror}"
        raise Refused(CANNOT_NOTE, f"{text}; nothing was started") from error
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: child.send(received))
    describe(held, _lock_text(launch, os.getpid(), child.pid))
    _date(held, (READ_LAST, WRITTEN_LAST))
    try:
        child.let_go()
    except OSError as error:
        _restore(launch.pid_file, former)
        raise _cannot_now(launch, status, error) from error
    return child


def _use_up(launch: Launch) -> Path | None:
    if launch.launches is None or launch.launch_id is None:
        return None
    fields = _fields(launch, STARTING)
    try:
        return claim_launch(launch.launches, launch.launch_id, fields)
    except FileExistsError:
        raise _used(launch.launches, launch.launch_id) from None
    except OSError as error:
        text = f"cannot note the launch in {launch.launches}: {error.strerror}"
        raise Refused(CANNOT_NOTE, f"{text}; nothing was started") from error


def refuse_used(folder: Path, launch_id: str) -> None:
    """Raise ``Refused`` for a launch id that has a file already, whatever that is."""
    if os.path.lexists(folder / launch_id):
        raise _used(folder, launch_id)


def _used(folder: Path, launch_id: str) -> Refused:
    known = ", ".join((_text_of(folder / launch_id) or "").split()) or "nothing is known of it"
    return Refused(USED, f"launch id {launch_id} was used before: {known}")


def _ready(launch: Launch) -> Status:
    """Make the folders and take room for the exit status."""
    try:
        for path in (launch.log, launch.pid_file, launch.exit_file):
            make_folder(path.parent)
        if launch.locks:  # the room that killed supervisors had taken: we hold their locks now
            for path in launch.exit_file.parent.iterdir():
                if path.name.startswith(f"{launch.exit_file.name}.") and path.suffix == ".new":
                    path.unlink(missing_ok=True)
        status = Status(launch.exit_file)
    except OSError as error:
        text = f"cannot write {error.filename or launch.exit_file}: {error.strerror}"
        raise Refused(CANNOT_NOTE, f"{text}; nothing was started") from error
    return status


def prepare(launch: Launch) -> tuple[list[str], dict[str, str]]:
    """Return the command and its environment; raises ``Refused`` for what is not there."""
    env = _environment(launch)
    try:
        command = expand(launch.command, env)
        _find(command[0], launch.cwd, env)
    except KeyError as error:
        text = f"the command uses ${error.args[0]}, which is not set; nothing was started"
        raise Refused(CANNOT_EXECUTE, text) from error
    except OSError as error:
        raise _cannot(launch, error) from error
    return command, env


def _find(program: str, cwd: Path, env: Mapping[str, str]) -> None:
    """Raise ``OSError`` for a program that is not there, before anything is noted."""
    if "/" not in program:
        if shutil.which(program, path=env.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", program)
        return
    (cwd / program).stat()
    if not os.access(cwd / program, os.X_OK) or not (cwd / program).is_file():
        raise PermissionError(errno.EACCES, "Permission denied", program)


def _cannot(launch: Launch, error: OSError) -> Refused:
    missing = isinstance(error, FileNotFoundError)
    code = NO_PROGRAM if missing else CANNOT_EXECUTE
    text = f"cannot start {launch.command[0]}: {error.strerror}"
    if error.filename is not None and str(error.filename) == str(launch.log):
        text += f" ({launch.log})"
    elif not launch.cwd.is_dir():
        text += f" ({launch.cwd} is not a folder)"
    return Refused(code, text)


def _cannot_now(launch: Launch, status: Status, error: OSError) -> Refused:
    refusal = _cannot(launch, error)
    status.write(refusal.code)
    return refusal


def _environment(launch: Launch) -> dict[str, str]:
    """Return the command's environment: ours, and what it is (SPEC J, found by launch id)."""
    given = {**os.environ, **(launch.env or {})}
    env = {name: value for name, value in given.items() if name != SUPERVISES}
    own = {
        LAUNCH_ID: launch.launch_id,
        RUN: launch.run,
        LINEAGE: launch.lineage,
    }
    return {**env, **{name: value for name, value in own.items() if value is not None}}


def _fields(
    launch: Launch, state: str, pid: int | None = None, exit_: int | None = None
) -> dict[str, object]:
    return {
        "state": state,
        "launch_id": launch.launch_id,
        "pid": pid,
        "ticks": None if pid is None else start_ticks(pid),
        "boot": boot_id(),
        "machine": machine_id(),
        "host": os.uname().nodename,
        "supervisor": os.getpid(),
        "supervisor_ticks": start_ticks(os.getpid()),
        "exit": exit_,
        "at": f"{time.time():.2f}",
    }


def _tell(
    note: Path | None, launch: Launch, state: str, pid: int | None = None, exit_: int | None = None
) -> None:
    """Say how the launch fares, if that can be written: the exit file says it too."""
    if note is not None:
        with suppress(OSError):
            write_note(note, _fields(launch, state, pid, exit_))


def _lock_text(launch: Launch, supervisor: int, pid: int | None = None) -> str:
    command = "" if pid is None else f"pid={pid}\n"
    return f"{command}supervisor={supervisor}\nlaunch_id={launch.launch_id or ''}\n"


def pid_text(
    pid: int,
    launch_id: str | None = None,
    log: tuple[int, int, int] | None = None,
    run: str | None = None,
) -> str:
    """Return what the pid file says of a process that begins, or that lives."""
    began = started_at(pid) or time.time()
    told = {
        "ticks": start_ticks(pid),
        "launch_id": launch_id,
        "boot": boot_id(),
        "machine": machine_id(),
        "host": os.uname().nodename,
        "space": pid_space(),
        "log": None if log is None else f"{log[0]}:{log[1]}:{log[2]}",
        "run": run,
    }
    more = "".join(f"{key}={value}\n" for key, value in told.items() if value is not None)
    return f"{pid}\nstart={began:.2f}\n{more}"


def _text_of(path: Path) -> str | None:
    try:
        return read_whole(path).decode("utf-8", "replace")
    except OSError:
        return None


def _restore(path: Path, former: str | None) -> None:
    """Put back what a pid file said before: the new one names a job that never was."""
    with suppress(OSError):
        if former is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, former)


def _date(held: list[int], times: tuple[int, int] | None) -> None:
    """Set when the locks were read and written last, ``None`` to now."""
    for handle in held:
        with suppress(OSError):  # another user's
            os.utime(handle, times)


def _answer(answer: dict[str, Any]) -> None:
    """Answer whoever waits in ``start``, then let go of its pipes."""
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _read(argv: Sequence[str]) -> Launch:
    parser = argparse.ArgumentParser(
        prog="supervisor", description="Run a command, note its pid and its exit status."
    )
    for flag in ("--log", "--pid-file", "--exit-file"):
        parser.add_argument(flag, type=Path, required=True)
    parser.add_argument("--cwd", type=Path, default=Path())
    parser.add_argument("--launches", type=Path)
    parser.add_argument("--lock", type=Path, action="append", default=[], dest="locks")
    for flag in ("--launch-id", "--run", "--lineage"):
        parser.add_argument(flag)
    place = list(argv).index("--") if "--" in argv else len(argv)
    given = parser.parse_args(argv[:place])
    command = list(argv[place + 1 :])
    if not command:
        parser.error("expected -- and a command")
    return Launch(command, **vars(given))


def main(argv: Sequence[str]) -> int:
    """Supervise what the arguments describe; they are those of ``--help``."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if argv[:1] == [DETACHED]:
        if os.fork():
            os._exit(0)
        os.setsid()
        argv = argv[1:]
    launch = _read(argv)
    try:
        return supervise(launch)
    except Refused as refusal:
        with suppress(BrokenPipeError):  # its end is waited for as well: the pipe stays open
            sys.stdout.write(json.dumps({"refused": refusal.code, "text": str(refusal)}) + "\n")
            sys.stdout.flush()
        return refusal.code
