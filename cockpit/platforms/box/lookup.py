"""What became of a launch id on an ssh host: definite, by its notes, its processes, its clock.

The notes are read before the processes are looked at: whoever is noted as starting and is not
there any more never ran. A launch that was meant and has not begun is closed by a file that is
made only if there is none; the supervisor makes the same file before it starts anything, so that
one of the two comes first, however late the other arrives.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final, NamedTuple

from cockpit.hosts.link import HostLink, ask
from cockpit.model.facet import Problem
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.box.disks import disk_asks, disks_of, shared_by
from cockpit.platforms.box.launching import ID, Script, launches_place
from cockpit.platforms.box.machine import ABOUT, Host, host_of, processes_ask
from cockpit.platforms.box.sight import HostSight, folder_of
from cockpit.platforms.box.smallfiles import JobFiles, files_ask, job_files
from cockpit.platforms.box.words import spelled
from cockpit.platforms.local import lookup as local
from cockpit.platforms.local.files import MOST, PidNote
from cockpit.platforms.local.launcher import launches
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, SUPERVISES
from cockpit.platforms.local.recorded import Who, identify
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.text.safe import clean

CLOSING: Final = 15.0
ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_CLOSE: Final = """\
f={folder}/{name}
if (set -C; printf 'state=closed\\nlaunch_id=%s\\n' {name} >"$f") 2>/dev/null
then dd if=/dev/null of="$f" conv=notrunc,fsync 2>/dev/null; echo closed; else echo taken; fi"""


class Noted(NamedTuple):
    """What the notes of a launch id say: its note, and whether it was meant at all."""

    note: Mapping[str, str] | None
    meant: bool = False


class Seen(NamedTuple):
    """A host as it was seen after the notes were read."""

    host: Host
    files: JobFiles
    disks: Mapping[Place, str | None]
    """From where the disk of the pid file is mounted (``HostSight.disks``)."""


async def look_up(link: HostLink, send: Script, run: RunSpec, launch_id: str) -> LookUp:
    """Return what became of ``launch_id``; never raises."""
    folder, job = launches_place(run), run.job
    if not ID.fullmatch(launch_id):
        return LookUp(found=LaunchState.ABSENT, text="no launch id of ours has such a name")
    if folder is None or job is None:
        return _unknown("no place in cockpit.toml where launches are noted")
    for _ in range(local.ROUNDS):
        noted = await _noted(link, folder, launch_id)
        seen = noted if isinstance(noted, str) else await _seen(link, run, launch_id)
        if isinstance(noted, str) or isinstance(seen, str):
            return _unknown(str(seen))
        host, at = seen.host, f" on {job.host}"
        found = local.told(run, launch_id, noted.note, host.processes, host.machine, at)
        if found is None and noted.note is None:
            found = _by_pid_file(run, launch_id, seen)
        if found is not None:
            return found
        if noted.note is None:
            return await _unused(send, job, folder, launch_id, meant=noted.meant)
        if await _noted(link, folder, launch_id) == noted:
            return local.ended(launch_id, noted.note)
    return local.changing(launch_id)


def _unknown(text: str) -> LookUp:
    return LookUp(found=LaunchState.UNKNOWN, text=text)


async def _noted(link: HostLink, folder: Place, launch_id: str) -> Noted | str:
    path = f"{folder.path}/{launch_id}"
    wanted = [(path, MOST), (f"{path}.intent", 0)]
    asked = ask(f"the launch notes in {folder.path}", "files", wanted=wanted)
    said = (await link.ask([asked]))[asked]
    if isinstance(said, Problem):
        return f"the notes of its launch cannot be read: {said.message}"
    note, intent = said
    if "figures" in note:
        regular = note["figures"][0] == "file"
        return Noted(launches.parsed(note["text"])) if regular else f"{path} is no file of ours"
    if note["link"] or note["errno"] not in ABSENT:
        return f"the notes of its launch: {path}: {clean(note['text'], 200)}"
    if "figures" in intent:
        return Noted(None, meant=True)
    absent = intent["errno"] in ABSENT and not intent["link"]
    return Noted(None) if absent else f"the notes of its launch: {clean(intent['text'], 200)}"


async def _seen(link: HostLink, run: RunSpec, launch_id: str) -> Seen | str:
    """Return the host's processes and the job's files, or why they are not known."""
    assert run.job is not None
    processes = processes_ask((f"{LAUNCH_ID}={launch_id}", f"{SUPERVISES}={launch_id} "))
    files, folder = files_ask(run), folder_of(run.job.pid_file)
    disks = disk_asks([] if folder is None else [folder])
    answers = await link.ask([ABOUT, processes, files, *disks.values()])
    said = (answers[each] for each in (ABOUT, processes, files))
    problem = next((each for each in said if isinstance(each, Problem)), None)
    if problem is not None:
        return problem.message
    host = host_of(answers[ABOUT], answers[processes], 0.0, 0.0)
    found = job_files(run.job, answers[files])
    return Seen(host, found, shared_by(disks_of(disks, answers)))


def _by_pid_file(run: RunSpec, launch_id: str, seen: Seen) -> LookUp | None:
    """Return what the pid file says of a launch that is noted nowhere else."""
    if seen.files.problem is not None:
        return _unknown(seen.files.problem.message)
    note = seen.files.pid
    if not isinstance(note, PidNote) or note.launch_id != launch_id:
        return None
    who = identify(run, note, HostSight(seen.host, {}, disks=seen.disks), seen.host.now)
    if who.who is Who.UNSURE:
        return _unknown(f"{launch_id} by its pid file: {who.text}")
    alive = who.who is Who.SAME
    text = f"{launch_id} {'runs' if alive else 'ended'}, by its pid file (pid {note.pid})"
    return LookUp(
        found=LaunchState.LIVE if alive else LaunchState.ENDED, text=text, job_id=f"pid:{note.pid}"
    )


async def _unused(
    send: Script, job: JobSpec, folder: Place, launch_id: str, *, meant: bool
) -> LookUp:
    """Return that nothing was started; the id of a launch that was meant is used up first."""
    if not meant:
        text = f"{launch_id} was never started on {job.host}"
        return LookUp(found=LaunchState.ABSENT, text=text)
    script = _CLOSE.format(folder=spelled(folder), name=quote(launch_id))
    try:
        said = (await send(job.host, script, deadline=CLOSING)).text.strip()
    except RemoteError as error:
        return _unknown(f"{launch_id} was noted; cannot tell whether it is closed now: {error}")
    if said != "closed":
        return _unknown(f"{launch_id} is being started")
    text = f"{launch_id} was noted but never started; its launch id is closed now"
    return LookUp(found=LaunchState.ABSENT, text=text)
