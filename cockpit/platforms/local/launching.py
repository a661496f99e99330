"""Starts jobs on a machine, this one or an ssh host, at most once per launch id (SPEC A).

``accept`` notes that a launch id is meant, ``go`` starts its supervisor, which uses the id up
before anything runs. An answer that is lost may have been acted on: then ``look_up`` reads the
notes before it looks at the processes. Whoever is noted as starting and is not there any more never
ran. A launch that was meant and has not begun is closed by a note that is made only if there is
none; the supervisor makes the same note before it starts anything, so that one of the two comes
first, however late the other arrives.

A process that was started by hand becomes the run's own when its pid file says so (SPEC J). The
file has the process's own start, so that another process which is given the same id later is never
taken for it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import cockpit.hosts.launches  # noqa: F401 - its functions are calls of the agent
from cockpit.hosts import notes
from cockpit.hosts.launches import ANSWER_WITHIN
from cockpit.hosts.link import DEADLINE, Link, Value, ask
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, SUPERVISES
from cockpit.model.facet import Problem
from cockpit.model.jobs import LaunchState, LookUp, NamedJob, Submission
from cockpit.model.lineage import keys_of, related, tag_of
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.local import sight
from cockpit.platforms.local.census import Census, Process
from cockpit.platforms.local.files import (
    ABSENT,
    MOST,
    JobFiles,
    PidNote,
    files_ask,
    job_files,
    whole_number,
)
from cockpit.platforms.local.host import disk_asks, disks_of, shared_by
from cockpit.platforms.local.programs import is_helper
from cockpit.platforms.local.recorded import identify
from cockpit.runtime.offload import offload
from cockpit.runtime.process import Machine, Where, where
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A launch id that a file can be named by."""
CLOSING: Final = 15.0
ROUNDS: Final = 3
"""Times that notes are read and processes looked at, where the notes change meanwhile."""


class Noted(NamedTuple):
    """What the notes of a launch id say: its note, and whether it was meant at all."""

    note: Mapping[str, str] | None
    meant: bool = False


class SeenAfter(NamedTuple):
    """A machine as it was seen after the notes were read."""

    host: sight.Sight
    files: JobFiles


async def find(link: Link, run: RunSpec, launch_id: str) -> LookUp | str:
    """Return what became of ``launch_id``, a text where it has not begun and still may.

    Nothing lives of it only where its note says the same before and after the processes were
    listed: a supervisor that let its command go meanwhile, or noted its end, has made the first
    reading old. Raises ``LostError`` and ``CannotError``.
    """
    if not ID.fullmatch(launch_id):
        return LookUp(found=LaunchState.ABSENT, text="no launch id of ours has such a name")
    folder = _folder(run)
    at = "" if link.here else f" on {link.host}"
    for _ in range(ROUNDS):
        noted = await _noted(link, folder, launch_id)
        seen = await _seen(link, run, launch_id)
        found = told(run, launch_id, noted.note, seen.host.processes, seen.host.machine, at)
        if found is None and noted.note is None:
            found = await _by_pid_file(run, launch_id, seen)
        if found is not None and found.found is not LaunchState.ENDED:
            return found
        if found is None and noted.note is None:
            return "it is noted" if noted.meant else f"nothing of it is noted{at or ' here'}"
        if await _noted(link, folder, launch_id) == noted:
            return found or ended(launch_id, noted.note or {})
    return changing(launch_id)


def _folder(run: RunSpec) -> Place:
    folder = launches_place(run)
    if folder is None:
        raise CannotError("no place in cockpit.toml where launches are noted")
    return folder


async def _noted(link: Link, folder: Place, launch_id: str) -> Noted:
    path = f"{folder.path}/{launch_id}"
    wanted = [(path, MOST), (f"{path}{notes.INTENT}", 0)]
    asked = ask(f"the launch notes in {folder.path}", "files", wanted=wanted)
    said = (await link.ask([asked]))[asked]
    if isinstance(said, Problem):
        raise LostError(f"the notes of its launch cannot be read: {said.message}")
    note, intent = said
    if "figures" in note:
        regular = note["figures"][0] == "file"
        if not regular:
            raise LostError(f"{path} is no file of ours")
        return Noted(notes.parsed_note(note["text"]))
    if note["link"] or note["errno"] not in ABSENT:
        text = f"{path}: {clean(note['text'], 200)}"
        raise LostError(f"the notes of its launch cannot be read: {text}")
    if "figures" in intent:
        return Noted(None, meant=True)
    if intent["link"] or intent["errno"] not in ABSENT:
        text = clean(intent["text"], 200)
        raise LostError(f"the notes of its launch cannot be read: {text}")
    return Noted(None)


async def _seen(link: Link, run: RunSpec, launch_id: str) -> SeenAfter:
    """Return a machine's processes and the job's files; raises ``LostError``."""
    words = (f"{LAUNCH_ID}={launch_id}", f"{SUPERVISES}={launch_id} ")
    processes = sight.ALL_PROCESSES if link.here else sight.processes_ask(words)
    files, folder = files_ask(run), sight.pid_folder(run)
    disks = disk_asks([] if folder is None or link.here else [folder])
    answers = await link.ask([sight.ABOUT, processes, files, *disks.values()], patience=DEADLINE)
    said = (answers[each] for each in (sight.ABOUT, processes, files))
    problem = next((each for each in said if isinstance(each, Problem)), None)
    if problem is not None:
        raise LostError(problem.message)
    places = sight.HostPlaces(disks=shared_by(disks_of(disks, answers)))
    host = sight.seen_by(link, answers[sight.ABOUT], answers[processes], places)
    return SeenAfter(host, job_files(run, answers[files]))


async def _by_pid_file(run: RunSpec, launch_id: str, seen: SeenAfter) -> LookUp | None:
    """Return what the pid file says of a launch that is noted nowhere else."""
    if seen.files.unread is not None:
        raise LostError(seen.files.unread.message)
    note = seen.files.pid
    if not isinstance(note, PidNote) or note.launch_id != launch_id:
        return None
    try:
        who = await offload(identify, run, note, seen.host, seen.host.now, deadline=DEADLINE)
    except TimeoutError as error:
        raise LostError(f"its pid file: {error}") from error
    if who.who is sight.Who.UNSURE:
        raise LostError(f"its pid file: {who.text}")
    alive = who.who is sight.Who.SAME
    text = f"{launch_id} {'runs' if alive else 'ended'}, by its pid file (pid {note.pid})"
    return LookUp(
        found=LaunchState.LIVE if alive else LaunchState.ENDED, text=text, job_id=f"pid:{note.pid}"
    )


async def close(link: Link, run: RunSpec, launch_id: str) -> LookUp:
    """Use up the id of a launch that has not begun; raises as ``find`` does.

    One that nothing is noted of, where nothing can be noted, is absent: a start notes it first.
    """
    folder = _folder(run)
    asked = ask("the launch id", "close_launch", folder=folder.path, launch_id=launch_id)
    text = f"{launch_id} was never started{'' if link.here else f' on {link.host}'}"
    try:
        closed = await link.act(asked, deadline=CLOSING)
    except RemoteError as error:
        raise LostError(f"cannot tell whether it is closed now: {error}") from error
    except OSError as error:
        if await _noted(link, folder, launch_id) != Noted(None):
            why = f"it was noted; cannot tell whether it is closed now: {error.strerror}"
            raise LostError(why) from error
        text = f"{text}, and none can be noted there: {error.strerror}"
        return LookUp(found=LaunchState.ABSENT, text=text)
    if not closed:
        raise LostError("it is being started")
    return LookUp(found=LaunchState.ABSENT, text=f"{text}; its launch id is closed now")


def root_on_host(run: RunSpec) -> Place | None:
    """Return the output root where it lies on the job's host."""
    root = None if run.output_root is None else run.output_root.normal()
    return root if root is not None and sight.on_its_host(run, root) else None


def launches_place(run: RunSpec) -> Place | None:
    """Return the folder of the host in which its launch ids are used up."""
    folder = root_on_host(run) or sight.pid_folder(run)
    return None if folder is None else folder.below(*notes.BELOW.parts)


def told(
    run: RunSpec,
    launch_id: str,
    note: Mapping[str, str] | None,
    processes: Census,
    mine: Machine,
    at: str = "",
) -> LookUp | None:
    """Return what a machine's processes tell of a launch; ``None`` where nothing of it lives.

    ``note`` was read before them. While its supervisor lives it is not over: that one notes the
    end, and a process that becomes its command shows neither words nor environment.
    """
    alive = _living(run, launch_id, note, processes, mine)
    if alive is not None:
        text = f"{launch_id} runs as pid {alive.pid}{at}"
        return LookUp(found=LaunchState.LIVE, text=text, job_id=f"pid:{alive.pid}")
    state = None if note is None else note.get("state")
    # The noted process may be there and not the command yet: whether it will run is not decided.
    waits = state == notes.RUNNING and _named(processes, note, mine) is not None
    supervisor = supervised(run, launch_id, processes)
    if waits or (supervisor and state in (None, notes.STARTING)):
        text = f"a supervisor of {launch_id} is still starting it"
        return LookUp(found=LaunchState.UNKNOWN, text=text)
    if supervisor and state == notes.RUNNING:
        return changing(launch_id)
    if note is None or state not in (notes.STARTING, notes.RUNNING):
        return None
    if where(_machine(note), mine) in (Where.ELSEWHERE, Where.UNCLEAR):
        there = clean(note.get("host", "?"), 80)
        text = f"{launch_id} is noted as {state} on {there}, another machine: check there"
        return LookUp(found=LaunchState.UNKNOWN, text=text)
    return None


def changing(launch_id: str) -> LookUp:
    """Return that a launch is between two of its states."""
    text = f"{launch_id} is starting or ending: check again"
    return LookUp(found=LaunchState.UNKNOWN, text=text)


def _living(
    run: RunSpec, launch_id: str, note: Mapping[str, str] | None, processes: Census, mine: Machine
) -> Process | None:
    """Return the job's process if it lives, else the oldest of what it left behind."""
    named, state = _named(processes, note, mine), None if note is None else note.get("state")
    if named is not None and named.variable(SUPERVISES) is None and state == notes.RUNNING:
        return named
    tag = tag_of(run)
    carrying = [
        one
        for one in processes.values()
        if one.variable(LAUNCH_ID) == launch_id
        and one.variable(SUPERVISES) is None
        and related(tag, one.variable(LINEAGE) or "")
        and not (state == notes.ENDED and is_helper(one.argv))
    ]
    return min(carrying, key=lambda one: (one.ticks, one.pid), default=None)


def _machine(note: Mapping[str, str]) -> Machine:
    return Machine(None, note.get("machine"), note.get("boot"))


def _named(processes: Census, note: Mapping[str, str] | None, mine: Machine) -> Process | None:
    """Return the process that a note names, if it is that very one."""
    if note is None or where(_machine(note), mine) is not Where.HERE:
        return None
    pid = whole_number(note.get("pid", ""))
    found = None if pid is None else processes.get(pid)
    return None if found is None or note.get("ticks") not in (None, str(found.ticks)) else found


def supervised(run: RunSpec, launch_id: str, processes: Census) -> bool:
    """Tell whether a supervisor (or its child before it becomes the command) has this launch."""
    tag = tag_of(run)
    told = (one.variable(SUPERVISES) for one in processes.values())
    parts = (text.split(" ", 1) for text in told if text)
    return any(part[0] == launch_id and related(tag, "".join(part[1:])) for part in parts)


def ended(launch_id: str, note: Mapping[str, str]) -> LookUp:
    """Return what the note of a launch of which nothing lives says."""
    state, pid = note.get("state"), note.get("pid")
    if state == notes.ENDED:
        text = f"{launch_id} ran as pid {pid} and ended with {note.get('exit', 'unknown')}"
        return LookUp(found=LaunchState.ENDED, text=text, job_id=f"pid:{pid}")
    if state == notes.RUNNING:
        text = f"{launch_id} was started as pid {pid} and is gone without an exit status"
        return LookUp(found=LaunchState.ENDED, text=text, job_id=f"pid:{pid}")
    why = {
        notes.FAILED: "could not be started",
        notes.CLOSED: "was never started, and its launch id is closed",
    }.get(state or "", "was interrupted before its command began")
    return LookUp(found=LaunchState.ABSENT, text=f"{launch_id} {why}; nothing ran")


TICKS = "ticks"
TOLD = ("OUTPUT_DIR", "WANDB_RUN_ID", "WANDB_DIR", LAUNCH_ID)
"""The variables that tell whose process it is; others may hold secrets."""


def pid_of(job_id: str) -> int | None:
    """Return the process id that a person typed (``4711``, ``pid:4711``), if it is one."""
    text = job_id.removeprefix("pid:")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATTERN: Final = set("*?[")
_ASKED: Final = 20.0
"""Seconds in which a machine must have noted what is meant."""
_SPARE: Final = 5.0
"""Seconds more than a supervisor has for its answer."""


class Starting:
    """Starts jobs on one machine. ``locks_folder`` stands for the user's own."""

    def __init__(
        self, link: Link, answer_within: float = ANSWER_WITHIN, locks_folder: Path | None = None
    ) -> None:
        self._link = link
        self._within = answer_within
        self._folders = [] if locks_folder is None else [str(locks_folder)]

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that a launch could open what it opens; raises ``CannotError``."""
        await self._act(_ASKED, "try_launch", wanted=self._wanted(run, submission))

    async def accept(self, run: RunSpec, submission: Submission) -> None:
        """Note that a launch id is meant; raises as ``Platform.accept``."""
        wanted, source = self._wanted(run, submission), clean(os.uname().nodename, 80)
        await self._act(_ASKED, "accept_launch", wanted=wanted, source=source)

    async def go(self, run: RunSpec, submission: Submission) -> str:
        """Start the job detached and return ``pid:N``; raises as ``Platform.go``."""
        wanted = self._wanted(run, submission)
        session = None if run.job is None or self._link.here else run.job.session
        within = self._within
        found = await self._act(
            within + _SPARE, "begin_launch", wanted=wanted, seconds=within, session=session
        )
        if "pid" not in found:
            raise LostError(self._line(found["lost"]))
        return f"pid:{found['pid']}"

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Write the pid file of a process that still is the named one; raises ``CannotError``.

        Of two runs that adopt one process at one moment, one is refused.
        """
        pid, ticks = pid_of(job.id), job.handle.get(TICKS)
        place = None if run.job is None else run.job.pid_file
        if pid is None or place is None or not sight.on_its_host(run, place):
            raise CannotError("job.pid_file must be set: where would the process be noted?")
        if ticks is None:
            text = f"{self._link.host} does not tell when process {pid} began: nothing was noted"
            raise CannotError(text)
        asked = ask(
            "the pid file", "note_process",
            pid_file=place.path, pid=pid, ticks=int(ticks), run=run.name, folders=self._folders,
        )  # fmt: skip
        try:
            same = await self._link.act(asked, _ASKED)
        except RemoteError as error:
            noted = "cannot tell whether it was noted" if error.sent else "nothing was noted"
            raise CannotError(f"{error}; {noted}") from error
        except OSError as error:
            if error.errno == errno.ECANCELED:
                raise CannotError(self._line(f"{error.strerror}; nothing was noted")) from error
            raise CannotError(f"{place}: cannot be written: {error.strerror}") from error
        if not same:
            raise CannotError(f"process {pid} has ended meanwhile; nothing was noted")

    async def _act(self, deadline: float, function: str, **arguments: object) -> Value:
        try:
            return await self._link.act(ask("the launch", function, **arguments), deadline)
        except RemoteError as error:
            if error.sent:
                raise LostError(str(error)) from error
            raise CannotError(f"{error}; nothing was started") from error
        except OSError as error:
            words = error.strerror or str(error)
            place = f"{error.filename}: " if error.errno != errno.ECANCELED else ""
            raise CannotError(self._line(f"{place}{words}")) from error

    def _line(self, text: str) -> str:
        at = "" if self._link.here else f"{self._link.host}: "
        return at + scrub(clean(text, 400))

    def _wanted(self, run: RunSpec, submission: Submission) -> dict[str, object]:
        """Return a launch as ``cockpit.hosts.launches`` has it; raises ``CannotError``."""
        job = startable(run, submission)
        assert job.pid_file is not None and job.log is not None
        root, own = root_on_host(run), job.workdir or run.workdir
        workdir = submission.workdir or (None if own is None else own.path)
        if not workdir:
            raise CannotError("no job.workdir in cockpit.toml to run the command in")
        return {
            "command": submission.command,
            "env": submission.env,
            "log": job.log.path,
            "pid_file": job.pid_file.path,
            "exit_file": None if job.exit_file is None else job.exit_file.path,
            "cwd": workdir,
            "launch_id": submission.launch_id,
            "run": submission.run,
            "lineage": tag_of(run),
            "root": None if root is None else root.path,
            "keys": keys_of(run),
            "folders": self._folders,
        }


def launch_name(launch_id: str) -> str:
    """Return a launch id if a file can be named by it; raises ``CannotError``."""
    if not ID.fullmatch(launch_id):
        raise CannotError(f"bad launch id {clean(launch_id, 80)}")
    return launch_id


def startable(run: RunSpec, submission: Submission) -> JobSpec:
    """Return the job's settings if they name all that a start needs; raises ``CannotError``."""
    job = run.job
    if job is None:
        raise CannotError("no job in cockpit.toml to start")
    for key, place in (("pid_file", job.pid_file), ("log", job.log)):
        if place is None or not sight.on_its_host(run, place) or _PATTERN & set(place.path):
            where = job.host or "this machine"
            raise CannotError(f"job.{key} must name a file of {where}: where would it be noted?")
    launch_name(submission.launch_id)
    if not all(_NAME.fullmatch(name) for name in submission.env):
        raise CannotError("the environment holds a name that no shell knows")
    if not keys_of(run):
        raise CannotError("no output root and no W&B id in cockpit.toml to guard the run by")
    return job
