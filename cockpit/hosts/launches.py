"""Starts a job's command detached from whoever asks, on this machine: what ``launching`` asks for.

A small supervisor process in a session of its own starts the command (in yet another session, so
that the command can be killed as a group and the supervisor lives on) and stays with it. It depends
on nobody: not on the agent, not on a link, not on a file that it was read from.

Standard library only, Python 3.8 and newer: it is sent along with the agent.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import pwd
import select
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS, TEXTS, run
from cockpit.hosts.notes import (
    BELOW,
    CLOSED,
    JOB_LOCK,
    MOST,
    HeldError,
    LockError,
    boot_id,
    claim_launch,
    describe,
    note_intent,
    parsed_note,
    release_locks,
    start_ticks,
    take_locks,
    try_open,
)
from cockpit.hosts.own_folder import make_folder, read_whole, refuse_links, write_atomically
from cockpit.hosts.supervisor import (
    DETACHED,
    LAUNCH_ID,
    LINEAGE,
    LOCKED,
    RUN,
    SUPERVISES,
    USED,
    Launch,
    Refused,
    pid_text,
    prepare,
    refuse_used,
)
from cockpit.runtime.private_folder import MachineFolderError, machine_tag, private_folder

ANSWER_WITHIN = 60.0
"""Seconds in which a supervisor must have said how the start went."""
LAST_WORDS = 1.0
"""Seconds for which one that has ended may still say why."""
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


REFUSALS = {LOCKED: LockedError, USED: UsedError}


@dataclass(frozen=True)
class Started:
    """A command that runs: its process id, its start (epoch seconds) and its supervisor.

    Of a detached one ``supervisor`` is only what has started it.
    """

    pid: int
    start: float
    supervisor: subprocess.Popen[bytes]


def start(launch: Launch, deadline: float = ANSWER_WITHIN, *, detached: bool = False) -> Started:
    """Start ``launch`` and return once its process runs and its pid file is written.

    A ``detached`` supervisor is nobody's child. Raises ``LaunchError`` (``LockedError``,
    ``UsedError``) if nothing was started, and ``UnansweredError`` if that is not known after
    ``deadline`` seconds.
    """
    supervisor = _begin(launch, detached)
    assert supervisor.stdout is not None and supervisor.stderr is not None
    with supervisor.stdout, supervisor.stderr:
        line = _line(supervisor.stdout.fileno(), time.monotonic() + deadline)
        if detached:
            supervisor.poll()  # it ended before: nothing of it is left behind
        if line is None:
            raise UnansweredError(f"the supervisor said nothing within {deadline:g} s")
        if not line:
            words = _last_words(supervisor.stderr.fileno())
            raise UnansweredError(f"the supervisor ended before it answered{words}")
        told = json.loads(line)
        if "refused" in told:  # nobody finds it on its way out
            _line(supervisor.stdout.fileno(), time.monotonic() + LAST_WORDS)
    if "refused" in told:
        raise REFUSALS.get(told["refused"], LaunchError)(told["text"])
    return Started(told["pid"], told["start"], supervisor)


def _begin(launch: Launch, detached: bool) -> subprocess.Popen[bytes]:
    own = {
        **os.environ,
        **(launch.env or {}),
        SUPERVISES: f"{launch.launch_id or '-'} {launch.lineage or ''}",
    }
    for name in (LAUNCH_ID, RUN, LINEAGE):
        own.pop(name, None)
    first = [DETACHED] if detached else []
    try:
        supervisor = subprocess.Popen(
            [sys.executable, "-IS", "-Xutf8", "-c", _BEGIN, *first, *_arguments(launch)],
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


def _line(pipe: int, until: float) -> bytes | None:
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


def _last_words(pipe: int) -> str:
    """Return what Python said at last of why it could not go on."""
    said = select.poll()
    said.register(pipe, select.POLLIN)
    text = os.read(pipe, 65_536).decode("utf-8", "replace") if said.poll(LAST_WORDS * 1000) else ""
    line = text.strip().rpartition("\n")[2]
    return f": {line}" if line else ""


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


WRITABLE = 0o022


def locks_folders() -> tuple[Path, ...]:
    """Return where this user's locks lie on this machine: a job holds them in each.

    No setting moves them (a cockpit started by cron has other variables than one in a terminal),
    since two that lock different files do not exclude each other. A container that is given this
    machine's ``/tmp`` is excluded by the first, whatever it calls itself; the second lies at home,
    where no other account can take the name before us.
    """
    found = [Path("/tmp") / f"cockpit-locks-{os.getuid()}"]
    with suppress(KeyError):
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        found.append(home / ".local" / "state" / "cockpit" / f"locks-{machine_tag()}")
    return tuple(found)


def lock_files(
    output_root: Path | None, keys: Iterable[str], folders: Sequence[Path]
) -> tuple[Path, ...]:
    """Return the lock files of a lineage: one under its local output root, and for each key.

    Makes the folders, private to this user; those for the keys lie in each that is. Raises
    ``LockError`` if none is: then another account has taken the names before us.
    """
    digests = (hashlib.sha256(key.encode("utf-8", "surrogateescape")) for key in keys)
    named = [f"{digest.hexdigest()[:24]}.lock" for digest in digests]
    usable, troubles = [], []
    for folder in folders:
        try:
            usable.append(_private(folder))
        except MachineFolderError as error:
            troubles.append(str(error))
    if not usable:
        raise LockError(f"no locks: {'; '.join(troubles)}")
    root = [] if output_root is None else [output_root / JOB_LOCK]
    return (*root, *(folder / name for folder in usable for name in named))


def _private(folder: Path) -> Path:
    """Return a folder that is private to this user, made if its home is there."""
    home = next((each for each in folder.parents if each.name == ".local"), folder).parent
    if home.is_dir():
        with suppress(OSError):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return private_folder(folder, refused=WRITABLE)


def _launch(wanted: Mapping[str, Any]) -> Launch:
    """Return a launch with the files, the locks and the notes that it has on this machine.

    ``wanted`` has the fields of ``Launch``, but for ``root``, the output root if it lies here, the
    lineage's ``keys`` and, for a test, the ``folders`` of their locks.
    """
    log, pid_file, cwd = (_path(wanted[key]) for key in ("log", "pid_file", "cwd"))
    exit_file = _path(wanted["exit_file"]) if wanted["exit_file"] else pid_file.with_suffix(".exit")
    root = _path(wanted["root"]) if wanted["root"] else None
    folders = [Path(each) for each in wanted["folders"] or locks_folders()]
    named = ("command", "launch_id", "env", "run", "lineage")
    try:
        locks = lock_files(root, wanted["keys"], folders)
    except LockError as error:
        raise _refused(error) from error
    below = (root or pid_file.parent) / BELOW
    more = {key: wanted[key] for key in named}
    return Launch(log=log, pid_file=pid_file, exit_file=exit_file, cwd=cwd, locks=locks,
                  launches=below, **more)  # fmt: skip


def _path(path: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111 - as it is spelled


def _refused(why: object) -> OSError:
    return OSError(errno.ECANCELED, str(why))


def _may_begin(launch: Launch) -> Path:
    """See that a launch can begin, and return where its id is used up; raises ``OSError``."""
    assert launch.launches is not None and launch.launch_id is not None
    if not launch.cwd.is_dir():
        raise _refused(f"the working folder {launch.cwd} is not there")
    try:
        refuse_used(launch.launches, launch.launch_id)
        prepare(launch)
    except Refused as refusal:
        raise _refused(refusal) from refusal
    return launch.launches


def try_launch(wanted: dict[str, Any]) -> None:
    """See that a launch would be taken in, opening every lock that it would open."""
    launch = _launch(wanted)
    folder = _may_begin(launch)
    try:
        try_open(launch.locks)
    except OSError as error:
        raise _refused(f"cannot lock {error.filename}: {error.strerror}") from error
    refuse_links(folder)


def accept_launch(wanted: dict[str, Any], source: str) -> None:
    """Note that a launch is meant, from a machine called ``source``; nothing runs."""
    launch = _launch(wanted)
    folder = _may_begin(launch)
    note = {"by": os.getpid(), "at": f"{time.time():.2f}", "from": source}
    try:
        note_intent(folder, str(launch.launch_id), note)
    except OSError as error:
        raise _refused(f"cannot note the launch in {folder}: {error.strerror}") from error


def begin_launch(wanted: dict[str, Any], seconds: float, session: str | None) -> dict[str, Any]:
    """Start a job and return its process id as ``pid``.

    Raises ``OSError`` where nothing was started and nothing will be, under this launch id; where
    that is not known, ``lost`` says why. ``session`` is one of tmux in which people may look on.
    """
    launch = _launch(wanted)
    try:
        started = start(launch, seconds, detached=True)
    except LaunchError as error:
        raise _refused(error) from error
    except (UnansweredError, OSError) as error:
        return {"lost": str(error)}
    if session is not None:
        _show(session, started.pid, launch.log)
    return {"pid": started.pid}


_FOLLOW = 'exec tail -n +1 --pid="$1" -F -- "$2"'


def _show(session: str, pid: int, log: Path) -> None:
    """Make a session for people to look in: it only follows the log, and goes with the job."""
    name = session.replace(".", "_").replace(":", "_")
    begin = ["tmux", "new-session", "-d", "-s", name, "sh", "-c", _FOLLOW, "sh", str(pid), str(log)]
    with suppress(OSError, RuntimeError):
        if run(["tmux", "has-session", "-t", f"={name}"])[0] != 0:
            run(begin, english=False)


def close_launch(folder: str, launch_id: str) -> bool:
    """Use up a launch id under which nothing was started; tell whether it was free."""
    try:
        claim_launch(_path(folder), launch_id, {"state": CLOSED, "launch_id": launch_id})
    except FileExistsError:
        return False
    return True


def note_process(
    pid_file: str, pid: int, ticks: int, run: str, folders: Sequence[str] = ()
) -> bool:
    """Write the pid file of a run's process; tell whether it still is the one that began then.

    Raises ``OSError``, also where another run has adopted it: two may try at one moment, each
    having seen that it was nobody's. The locks of the process say which file notes it.
    """
    place, where = _path(pid_file), [Path(each) for each in folders] or locks_folders()
    try:
        locks = take_locks(lock_files(None, [f"process {pid}"], where))
    except HeldError as error:
        raise _refused(f"process {pid} is being adopted at this moment") from error
    except LockError as error:
        raise _refused(error) from error
    try:
        if start_ticks(pid) != ticks:
            return False
        for lock in locks:
            _refuse_adopted(lock, place, pid, ticks, run)
        make_folder(place.parent)
        describe(locks, str(place))  # first: whoever is killed here has noted nothing
        write_atomically(place, pid_text(pid, run=run))
    finally:
        release_locks(locks)
    return True


def _refuse_adopted(lock: int, place: Path, pid: int, ticks: int, run: str) -> None:
    """Raise ``OSError`` where the file of another run still notes the process of this lock."""
    former = Path(os.pread(lock, MOST, 0).decode("utf-8", "replace"))
    if former == place or not former.is_file():
        return
    try:
        text = read_whole(former, MOST).decode("utf-8", "replace")
    except OSError as error:
        raise _refused(f"{former}: cannot be read: {error.strerror}") from error
    said = parsed_note(text)
    noted = (text.partition("\n")[0], said.get("ticks"), said.get("boot"))
    if noted == (str(pid), str(ticks), boot_id()) and said.get("run") != run:
        other = said.get("run", "?")
        raise _refused(f"process {pid} was adopted for run {other} meanwhile ({former})")


for _each in (try_launch, accept_launch, begin_launch, close_launch, note_process):
    CALLS[_each.__name__] = _each
