"""What became of a launch id on an ssh host: definite, by its notes, its processes, its clock.

The notes are read before the processes are looked at: whoever is noted as starting and is not
there any more never ran. A launch that was meant and has not begun is closed by a file that is
made only if there is none; the supervisor makes the same file before it starts anything, so that
one of the two comes first, however late the other arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cockpit.model.facet import Problem
from cockpit.model.jobs import Found, LookUp
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.box import words
from cockpit.platforms.box.disks import asked_of, shared_by, told_by
from cockpit.platforms.box.launching import ID, Script, launches_place
from cockpit.platforms.box.machine import Host, host_of
from cockpit.platforms.box.probe import Actor, Piece
from cockpit.platforms.box.sight import HostSight, folder_of
from cockpit.platforms.box.smallfiles import JobFiles, job_files
from cockpit.platforms.local import lookup as local
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.launcher import launches
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, SUPERVISES
from cockpit.platforms.local.recorded import Who, identify
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.text.safe import clean

CLOSING: Final = 15.0
_READ: Final = """\
f={folder}/{name}
if [ -f "$f" ]; then echo note; head -c 4096 "$f"
elif [ -e "$f" ] || [ -L "$f" ]; then echo "odd $f is no file of ours"
elif ls -d "$f" 2>&1 | grep -v 'No such file\\|Not a directory'; then :
elif [ -e "$f.intent" ]; then echo intent
else echo nothing; fi"""
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


async def look_up(actor: Actor, send: Script, run: RunSpec, launch_id: str) -> LookUp:
    """Return what became of ``launch_id``; never raises."""
    folder, job = launches_place(run), run.job
    if not ID.fullmatch(launch_id):
        return LookUp(found=Found.ABSENT, text="no launch id of ours has such a name")
    if folder is None or job is None:
        return _unknown("no place in cockpit.toml where launches are noted")
    for _ in range(local.ROUNDS):
        noted = await _noted(actor, folder, launch_id)
        seen = noted if isinstance(noted, str) else await _seen(actor, job, launch_id)
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
        if await _noted(actor, folder, launch_id) == noted:
            return local.ended(launch_id, noted.note)
    return local.changing(launch_id)


def _unknown(text: str) -> LookUp:
    return LookUp(found=Found.UNKNOWN, text=text)


async def _noted(actor: Actor, folder: Place, launch_id: str) -> Noted | str:
    script = _READ.format(folder=words.spelled(folder), name=quote(launch_id))
    piece = Piece(f"the launch notes in {folder.path}", script, "launches")
    said = (await actor.ask([piece]))[piece]
    if isinstance(said, Problem):
        return f"the notes of its launch cannot be read: {said.message}"
    head, _, text = said.decode("utf-8", "replace").lstrip("\n").partition("\n")
    if head in ("intent", "nothing"):
        return Noted(None, head == "intent")
    return (
        Noted(launches.parsed(text))
        if head == "note"
        else f"the notes of its launch: {clean(head, 200)}"
    )


async def _seen(actor: Actor, job: JobSpec, launch_id: str) -> Seen | str:
    """Return the host's processes and the job's files, or why they are not known."""
    marks = (f"{LAUNCH_ID}={launch_id}", f"{SUPERVISES}={launch_id} ")
    pieces = [words.ABOUT, words.STATS, words.ARGV, words.OWNERS, words.environments(marks)]
    files, folder = words.files([launch_id], [job]), folder_of(job.pid_file)
    disks = asked_of([] if folder is None else [folder])
    answers = await actor.ask([*pieces, files, *disks])
    said = [each for piece, each in answers.items() if piece not in disks]
    problem = next((each for each in said if isinstance(each, Problem)), None)
    if problem is not None:
        return problem.message
    told = {piece.name: said for piece, said in answers.items() if isinstance(said, bytes)}
    host = host_of(told, 0.0, 0.0)
    if host is None:
        return f"{job.host} does not list its processes"
    found = job_files(told[files.name], [job])[0]
    return Seen(host, found, shared_by(told_by(answers, disks)))


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
    return LookUp(found=Found.LIVE if alive else Found.ENDED, text=text, job_id=f"pid:{note.pid}")


async def _unused(
    send: Script, job: JobSpec, folder: Place, launch_id: str, *, meant: bool
) -> LookUp:
    """Return that nothing was started; the id of a launch that was meant is used up first."""
    if not meant:
        text = f"{launch_id} was never started on {job.host}"
        return LookUp(found=Found.ABSENT, text=text)
    script = _CLOSE.format(folder=words.spelled(folder), name=quote(launch_id))
    try:
        said = (await send(job.host, script, deadline=CLOSING)).text.strip()
    except RemoteError as error:
        return _unknown(f"{launch_id} was noted; cannot tell whether it is closed now: {error}")
    if said != "closed":
        return _unknown(f"{launch_id} is being started")
    text = f"{launch_id} was noted but never started; its launch id is closed now"
    return LookUp(found=Found.ABSENT, text=text)
