"""Finding out what became of a start on an ssh host: its notes first, then its processes."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final, NamedTuple

from cockpit.hosts import notes
from cockpit.hosts.link import DEADLINE, HostLink, ask
from cockpit.hosts.supervisor import LAUNCH_ID, SUPERVISES
from cockpit.model.facet import Problem
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.box.machine import (
    HostPlaces,
    JobFiles,
    files_ask,
    folder_of,
    job_files,
    shared_by,
)
from cockpit.platforms.local import lookup as local
from cockpit.platforms.local.files import MOST, PidNote
from cockpit.platforms.local.host import disk_asks, disks_of
from cockpit.platforms.local.lookup import launches_place
from cockpit.platforms.local.recorded import identify
from cockpit.platforms.local.sight import ABOUT, Sight, Who, processes_ask, sight_of
from cockpit.platforms.local.starting import ID
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean

CLOSING: Final = 15.0
ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class Noted(NamedTuple):
    """What the notes of a launch id say: its note, and whether it was meant at all."""

    note: Mapping[str, str] | None
    meant: bool = False


class Seen(NamedTuple):
    """A host as it was seen after the notes were read."""

    host: Sight
    files: JobFiles


async def look_up(link: HostLink, run: RunSpec, launch_id: str) -> LookUp:
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
            return await _unused(link, folder, launch_id, meant=noted.meant)
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
        return Noted(notes.parsed_note(note["text"])) if regular else f"{path} is no file of ours"
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
    answers = await link.ask([ABOUT, processes, files, *disks.values()], patience=DEADLINE)
    said = (answers[each] for each in (ABOUT, processes, files))
    problem = next((each for each in said if isinstance(each, Problem)), None)
    if problem is not None:
        return problem.message
    places = HostPlaces(disks=shared_by(disks_of(disks, answers)))
    host = sight_of(answers[ABOUT], answers[processes], places)
    return Seen(host, job_files(run.job, answers[files]))


def _by_pid_file(run: RunSpec, launch_id: str, seen: Seen) -> LookUp | None:
    """Return what the pid file says of a launch that is noted nowhere else."""
    if seen.files.problem is not None:
        return _unknown(seen.files.problem.message)
    note = seen.files.pid
    if not isinstance(note, PidNote) or note.launch_id != launch_id:
        return None
    who = identify(run, note, seen.host, seen.host.now)
    if who.who is Who.UNSURE:
        return _unknown(f"{launch_id} by its pid file: {who.text}")
    alive = who.who is Who.SAME
    text = f"{launch_id} {'runs' if alive else 'ended'}, by its pid file (pid {note.pid})"
    return LookUp(
        found=LaunchState.LIVE if alive else LaunchState.ENDED, text=text, job_id=f"pid:{note.pid}"
    )


async def _unused(link: HostLink, folder: Place, launch_id: str, *, meant: bool) -> LookUp:
    """Return that nothing was started; the id of a launch that was meant is used up first."""
    if not meant:
        text = f"{launch_id} was never started on {link.host}"
        return LookUp(found=LaunchState.ABSENT, text=text)
    asked = ask("the launch id", "close_launch", folder=folder.path, launch_id=launch_id)
    try:
        closed = await link.act(asked, CLOSING)
    except (RemoteError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return _unknown(f"{launch_id} was noted; cannot tell whether it is closed now: {why}")
    if not closed:
        return _unknown(f"{launch_id} is being started")
    text = f"{launch_id} was noted but never started; its launch id is closed now"
    return LookUp(found=LaunchState.ABSENT, text=text)
