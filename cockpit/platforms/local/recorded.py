"""Which process a pid file means: that very one, another one, or nobody can tell (SPEC J).

A start of a process is its process id, its start in kernel ticks and the boot: where a launcher
noted them they decide. A file that somebody else wrote holds a number, and its own time proves
nothing: it may have been touched, restored, copied or written late, and setting the machine's
clock moves every start that is computed. There the evidence decides (command line, open files,
working folder, steps that move), and what it does not decide is unknown.

Even the very process that was noted may be another run's job: a folder that was copied to fork a
run holds the pid file of the run that it was copied from. Blocking.
"""

from __future__ import annotations

import posixpath
from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.lineage import related
from cockpit.model.run import RunSpec
from cockpit.platforms.local import files
from cockpit.platforms.local.belonging import LAUNCH_ID, LINEAGE, Sure, belongs, within
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.marks import RunMarks, named_scripts
from cockpit.platforms.local.programs import Use, arguments, is_tool, use_of
from cockpit.platforms.local.sight import Identity, Sight, Who
from cockpit.runtime.process import START_SLACK, Machine, Start, Where, same_start, where
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

CADENCES: Final = 2


def identify(run: RunSpec, note: PidNote, look: Sight, now: float) -> Identity:
    """Return whose process the id in a run's pid file is now, found out once in a look."""
    found = look.identities.get((run.name, note))
    if found is None:
        found = look.identities[run.name, note] = _identified(run, note, look, now)
    return found


def _identified(run: RunSpec, note: PidNote, look: Sight, now: float) -> Identity:
    abroad = elsewhere(note, look.machine)
    if abroad is not None:
        return abroad
    mine = files.names_machine(note) or files.proven(run, note, look.machine)
    shared = None if mine else look.places.shared(run)
    found = _found(run, note, look, now, shared=shared is not None)
    if shared is None or found.who is Who.UNSURE:
        return found
    if found.who is Who.SAME:
        files.remember(run, note, look.machine)
        return found
    return Identity(Who.UNSURE, files.doubt(note, found.text, shared))


def _found(run: RunSpec, note: PidNote, look: Sight, now: float, *, shared: bool) -> Identity:
    """Return whose process of the machine looked at it is, where it is one of these."""
    process = look.processes.get(note.pid)
    if process is None:
        return Identity(Who.GONE)
    started = look.started_at(process)
    same = same_start(Start(note.ticks, note.start), Start(process.ticks, started))
    if same is False and note.ticks is not None:  # the clock alone convicts nobody
        return Identity(Who.OTHER, _now_another(process))
    other = _of_another_run(run, note, process, look)
    if other is not None:
        return other
    if same:
        return Identity(Who.SAME)
    later = _later(note, started)
    tie = _tie(run, process, look, now, doubtful=later, shared=shared)
    if tie is not None:
        return Identity(Who.SAME, tie)
    return _untied(note, process, look, later=later, shared=shared)


def _later(note: PidNote, started: float | None) -> bool:
    """Tell whether, by the clocks, the process is not the one that was there when it was noted.

    Only a hint: a clock that was set since makes a start look later, or a file older.
    """
    if started is None:
        return False
    if note.start is None:
        return started > note.written_at + START_SLACK
    return abs(started - note.start) > START_SLACK


def elsewhere(note: PidNote, mine: Machine) -> Identity | None:
    """Return what follows from the boot, the machine or the container that a launcher noted."""
    found = where(Machine(None, note.machine, note.boot, note.space), mine)
    if found is Where.ELSEWHERE:
        name = clean(note.host or "another machine", 80)
        return Identity(Who.UNSURE, f"the pid file was written on {name}, not on this machine")
    if found is Where.UNCLEAR:
        return Identity(Who.UNSURE, "the pid file was written before a restart, or elsewhere")
    if found is Where.RESTARTED:
        return Identity(Who.GONE, "the machine was restarted since")
    if found is Where.CONTAINER:
        return Identity(Who.UNSURE, "the pid file counts the process ids of another container")
    return None


def _now_another(process: Process) -> str:
    return f"pid {process.pid} now belongs to another process"


def _of_another_run(run: RunSpec, note: PidNote, process: Process, look: Sight) -> Identity | None:
    """Return that a process is another run's job, unless it writes a file of this run."""
    found = _another_by_word(run, note, process, look)
    if found is None:
        return None
    if any(look.files.why(look.marks(run, None), one) for one in look.below(process.pid)):
        return None
    return found


def _another_by_word(run: RunSpec, note: PidNote, process: Process, look: Sight) -> Identity | None:
    """Return the same by what a launch left in its environment, or an adoption in its pid file.

    Of a process that was started by hand only its outputs tell, which is doubt and no proof.
    """
    watched, tag = look.marks(run, None), process.variable(LINEAGE)
    launch_id = clean(note.launch_id or process.variable(LAUNCH_ID) or "", 80)
    if tag:
        if not watched.tag or related(tag, watched.tag):
            return None
        if launch_id and number_of(run.name, launch_id) is None:
            return Identity(Who.OTHER, f"pid {process.pid} is another run's job ({launch_id})")
        return _doubted(process, "it was launched for another output root and W&B id")
    if note.run == run.name:
        return None
    if note.run is not None:
        return _doubted(process, f"it was adopted for run {clean(note.run, 80)}")
    elsewhere = _log_elsewhere(watched, process, look)
    elsewhere = elsewhere or outputs_elsewhere(watched, process, look)
    return None if elsewhere is None else _doubted(process, elsewhere)


def _doubted(process: Process, why: str) -> Identity:
    text = (
        f"pid {process.pid} lives ({_short(process)}), but {why}: cannot tell whether it is the job"
    )
    return Identity(Who.UNSURE, text)


def _log_elsewhere(watched: RunMarks, process: Process, look: Sight) -> str | None:
    """Return what log a process writes in place of this run's; ``None``: none."""
    log = look.files.logs_elsewhere(process)
    names = {posixpath.basename(each) for each in watched.logs}
    if log is None or not (log in watched.logs_of_others or posixpath.basename(log) in names):
        return None
    return f"it writes the log {clean(log, 200)}"


def outputs_elsewhere(watched: RunMarks, process: Process, look: Sight) -> str | None:
    """Return which output of a process is not this run's, of those that the run's command names.

    ``None`` where there is none, or where one of them is the run's.
    """
    cwd, elsewhere = process.cwd or "", None
    own = {key for each in watched.starts for key, _ in arguments(["", *each.args]) if key}
    places = (*watched.roots, *watched.outputs)
    for key, value in arguments(process.argv):
        if key not in own or use_of(key) is not Use.WRITES or not (value and cwd):
            continue
        path = look.places.real(posixpath.normpath(posixpath.join(cwd, value)))
        if any(within(each, path, None) or within(path, each, None) for each in places):
            return None
        elsewhere = f"it writes elsewhere ({clean(key, 40)} is {clean(scrub(value), 200)})"
    return elsewhere


def _short(process: Process) -> str:
    return clean(scrub(" ".join(process.argv)), 60)


def _untied(note: PidNote, process: Process, look: Sight, *, later: bool, shared: bool) -> Identity:
    """Return what is left to say of a living process that nothing ties to the run.

    A file that was written in the moment in which the process began is a weak sign, and enough
    for one that may be a training, on a disk of its machine.
    """
    started = look.started_at(process)
    near = started is not None and abs(started - note.written_at) <= START_SLACK
    fits = near and not is_tool(process.argv)
    owner = note.uid is None or process.uid == note.uid
    if later and (is_tool(process.argv) or not owner):
        return Identity(Who.OTHER, _now_another(process))
    if not (later or shared) and owner and (fits or not look.files.readable(process)):
        return Identity(Who.SAME)
    when = ", and by the clock it started later than was noted" if later else ""
    return Identity(
        Who.UNSURE,
        f"pid {process.pid} lives ({_short(process)}), but nothing ties it to this run{when}:"
        " cannot tell whether it is the job",
    )


def _tie(
    run: RunSpec, process: Process, look: Sight, now: float, *, doubtful: bool, shared: bool
) -> str | None:
    """Return what ties a living process to a run, the strongest first; ``None``: nothing does.

    Where the clocks speak against it (``doubtful``), what other runs have too is not enough; nor is
    there, or on a ``shared`` disk, a log that grows: by a hand that opens it for moments, or afar.
    """
    watched = look.marks(run, None)
    members = [process] if _above_all(process, look) else look.below(process.pid)
    for one in members:
        found = belongs(watched, look.candidate(one), look.files)
        if found is not None and found.sure is Sure.YES:
            return found.mark.why
        if (why := look.files.why(watched, one)) is not None:
            return why
    own_folder = _by_folder(run, watched, members, look)
    work = None if run.job is None else run.job.workdir
    if (why := (None if doubtful else own_folder) or _by_pipe(watched, members, look)) is not None:
        return why
    why = None if doubtful or shared else _by_moving_log(run, watched, members, look, now)
    if why is not None:
        return why
    # where the run's command is to be run, its other runs may work too
    there = [] if work is None else [look.places.real(work.path)]
    folder = own_folder or _works_in(there, members)
    command = _by_command(run, members)
    return (folder and command) if doubtful else (folder or command)


def _above_all(process: Process, look: Sight) -> bool:
    """Tell of a process below which lies what is not its own: init, or our session's manager.

    A pid file of a container may hold such a number: it counts its process ids anew.
    """
    return process.pid == 1 or (process.pid in look.own and is_tool(process.argv))


def _by_folder(run: RunSpec, watched: RunMarks, members: list[Process], look: Sight) -> str | None:
    """Return that it works in the run's own folder: its output root, or where its pid file is."""
    job, places = run.job, [*watched.roots]
    if job is not None and job.pid_file is not None:
        places.append(look.places.real(posixpath.dirname(job.pid_file.path)))
    return _works_in(places, members)


def _works_in(places: list[str], members: list[Process]) -> str | None:
    for one in members:
        if one.cwd is not None and any(within(place, one.cwd, None) for place in places):
            return f"it works in {clean(one.cwd, 120)}"
    return None


def _by_command(run: RunSpec, members: list[Process]) -> str | None:
    """Return that it runs the script that the run's own command names."""
    scripts = named_scripts(run)
    for one in members:
        if found := scripts & {posixpath.basename(part) for part in one.argv}:
            return f"it runs {clean(min(found), 80)}"
    return None


def _by_pipe(watched: RunMarks, members: list[Process], look: Sight) -> str | None:
    """Return that what it writes goes through another program (``tee``) into the run's files."""
    written = frozenset(pipe for one in members for pipe in look.files.piped(one)[1])
    if not written:
        return None
    for other in look.files.writers(watched, look.processes):
        if look.files.piped(other)[0] & written and look.files.why(watched, other) is not None:
            return f"its output goes through pid {other.pid} into the run's files"
    return None


def _by_moving_log(
    run: RunSpec, watched: RunMarks, members: list[Process], look: Sight, now: float
) -> str | None:
    """Return that the run's log has moved lately and since the process began, by no other hand."""
    job, started = run.job, look.started_at(members[0])
    if job is None or job.log is None or started is None or is_tool(members[0].argv):
        return None
    moved = look.places.log_moved(run)
    if moved is None:
        return None
    if abs(now - moved) > CADENCES * run.cadence or moved < started - START_SLACK:
        return None
    writers = look.files.writers(watched, look.processes)
    others = (one for one in writers if one.pid not in look.own and one not in members)
    if any(look.files.why(watched, one) is not None for one in others):
        return None
    return "the run's log is growing"
