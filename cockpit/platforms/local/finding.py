"""Which process is a run's job: by its pid file, its session, its pattern, or what it writes.

The pid file outweighs the other ways. A session that holds nothing but a shell that waits for a
person proves neither that the job lives nor that it ended.

The pattern of ``[run.job] match`` is searched in whole command lines, as ``pgrep -f`` does. Tools,
cockpits and shells that only name it are not meant; of several the one that writes to the run is,
else the one that runs what matches, else the newest. Blocking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.hosts.link import Answers, ask
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.belonging import Candidate, Sure, belongs
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.files import BadNote, JobFiles, PidNote
from cockpit.platforms.local.lineage import Recorded, name_of, noted, topmost
from cockpit.platforms.local.marks import names_of
from cockpit.platforms.local.programs import (
    FOLLOWERS,
    inner,
    is_cockpit,
    is_shell,
    is_supervisor,
    is_tool,
    program,
)
from cockpit.platforms.local.recorded import identify
from cockpit.platforms.local.sight import Identity, Sight, Who
from cockpit.text.safe import clean

_SCREEN: Final = re.compile(r"\s+(\d+)\.([^\t]+)\t\((?!.*Dead \?)")


class Session(NamedTuple):
    """A pane of a tmux session, or a screen session; ``status`` is that of a dead pane's program.

    ``created`` is by the host's clock.
    """

    name: str
    pid: int
    created: float | None = None
    dead: bool = False
    status: int | None = None


TMUX: Final = ask(
    "tmux", "run",
    argv=[
        "tmux", "-u", "list-panes", "-a", "-F",
        "#{session_created}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}"
        "|#{session_name}",
    ],
)  # fmt: skip
SCREEN: Final = ask("screen", "run", argv=["screen", "-ls"])
PANES: Final = (TMUX, SCREEN)


def sessions(out: str) -> list[Session]:
    """Return the panes that tmux lists."""
    found = []
    for line in out.splitlines():
        created, pid, dead, status, signal, name = (*line.split("|", 5), *[""] * 6)[:6]
        number = _integer(pid)
        if name and number is not None:
            at = _integer(created)
            since = None if at is None else float(at)
            by = _integer(signal)
            code = _integer(status) if by is None else -by
            found.append(Session(name, number, since, dead == "1", code))
    return found


def screens(out: str) -> list[Session]:
    """Return the sessions that screen lists."""
    matches = (_SCREEN.match(line) for line in out.splitlines())
    return [Session(found[2], int(found[1])) for found in matches if found]


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


_MANAGERS: Final = ("tmux", "screen")


class Multiplexed(NamedTuple):
    """The sessions of a host; ``None``: neither tmux nor screen is there to tell."""

    panes: tuple[Session, ...] | None
    problem: Problem | None = None


def multiplexed(answers: Answers) -> Multiplexed:
    """Return the sessions of both programs; ``None`` if neither is there."""
    found: list[Session] = []
    absent = 0
    for each, read in ((TMUX, sessions), (SCREEN, screens)):
        said = answers.get(each)
        if isinstance(said, Problem) and said.kind is not ErrorKind.NOT_FOUND and each is TMUX:
            return Multiplexed((), said)
        if said is None or isinstance(said, Problem):
            absent += 1
        else:
            found += read(said[1])
    return Multiplexed(None) if absent == 2 else Multiplexed(tuple(found))


class Found(NamedTuple):
    """The process that stands for the job; ``id`` where that is not its process id.

    ``status`` is the exit status that a dead pane has kept. ``absent`` says what was looked for
    and not found.
    """

    note: PidNote | BadNote | None = None
    who: Identity = Identity(Who.GONE)
    id: str | None = None
    status: int | None = None
    absent: str = ""
    idle: str = ""
    """Why what was found is no job, where that is known: another process may be."""

    def recorded(self, pid_file: Place | None = None) -> Recorded:
        """Return the same for who asks what lives of the lineage; ``pid_file`` has the note."""
        note = self.note if isinstance(self.note, PidNote) else None
        if isinstance(self.note, BadNote):
            return Recorded(trouble=f"{self.note.reason}; if nothing is running, remove the file")
        if self.who.who is Who.UNSURE:
            more = "" if pid_file is None else f"; if it is not, remove {pid_file}"
            return Recorded(note, trouble=f"{self.who.text}{more}")
        pid = note.pid if note is not None and self.who.who is Who.SAME else None
        return Recorded(note, pid, pid_file=pid_file)


def by_pid_file(run: RunSpec, files: JobFiles, sight: Sight) -> Found:
    """Return the process that a pid file means."""
    if not isinstance(files.pid, PidNote):
        return Found(files.pid)
    return Found(files.pid, identify(run, files.pid, sight, sight.now))


def by_session(job: JobSpec, session: str, found: Multiplexed, sight: Sight) -> Found:
    """Return what runs in a session; tmux and screen names are compared whole."""
    name = f"session:{session}"
    if found.problem is not None:
        return Found(who=Identity(Who.UNSURE, found.problem.message), id=name)
    if found.panes is None:
        text = f"neither tmux nor screen is installed on {job.host}"
        return Found(who=Identity(Who.UNSURE, text), id=name)
    spellings = (session, session.replace(".", "_").replace(":", "_"))
    panes = [pane for pane in found.panes if pane.name in spellings]
    if not panes:
        return Found(id=name, absent=f"no session {session} on {job.host}")
    alive = [pane for pane in panes if not pane.dead]
    note = _note((alive or panes)[0], sight)
    if not alive:
        codes = [pane.status for pane in panes if pane.status is not None]
        status = next((code for code in codes if code), 0) if codes else None
        gone = Identity(Who.GONE, f"the session {session} holds a dead pane")
        return Found(note, gone, name, status)
    if any(_works(pane, sight) for pane in alive):
        return Found(note, Identity(Who.SAME), name)
    followers = [one for pane in alive for one in _followers(pane, sight)]
    only = name_of(followers[0].argv) if followers else "a shell"
    idle = f"session {session} is there, but only {only} runs in it"
    if followers and job.log is not None and not any(job.log.path in one.argv for one in followers):
        return Found(id=name, absent=f"{idle}, which follows another file than this run's log")
    text = f"{idle}: cannot tell whether the job is over"
    return Found(note, Identity(Who.UNSURE, text), name, idle=idle)


def _note(pane: Session, sight: Sight) -> PidNote:
    process = sight.processes.get(pane.pid)
    started = None if process is None else sight.started_at(process)
    since = pane.created if pane.created is not None else started
    ticks = None if process is None else process.ticks
    return PidNote(pane.pid, since, None, since or sight.now, ticks=ticks)


def _works(pane: Session, sight: Sight) -> bool:
    """Tell whether anything but a waiting shell runs in a pane; what cannot be seen may."""
    members = sight.below(pane.pid)
    if not members:
        return True
    return any(
        not (_waits(one) or _follows(one) or program(one.argv).lower() in _MANAGERS)
        for one in members
    )


def _followers(pane: Session, sight: Sight) -> list[Process]:
    """Return the processes in a pane that only follow what others write."""
    return [one for one in sight.below(pane.pid) if _follows(one)]


def _follows(process: Process) -> bool:
    """Tell whether a process only shows what others write: no job, whatever session it is in."""
    words = inner(process.argv)
    return bool(words) and program(words) in FOLLOWERS


def _waits(process: Process) -> bool:
    """Tell whether a process is a shell that was given nothing to run."""
    rest = process.argv[1:]
    return is_shell(process.argv) and all(word.startswith("-") and word != "-c" for word in rest)


def by_lineage(run: RunSpec, candidates: Sequence[Candidate], sight: Sight) -> Found:
    """Return the oldest process that writes to the run, where the run file names no other way."""
    marks = sight.marks(run, None)
    found = [
        one.process
        for one in candidates
        if (what := belongs(marks, one, sight.files)) is not None and what.sure is Sure.YES
    ]
    tops = sorted(topmost(found, sight), key=lambda one: (one.ticks, one.pid))
    if not tops:
        return Found(absent="no process writes to the run's output root or W&B id")
    return Found(noted(tops[0], sight, sight.now), Identity(Who.SAME))


_CLASSES: Final = {
    "[:space:]": r"\s", "[:digit:]": r"\d", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9",
    "[:lower:]": "a-z", "[:upper:]": "A-Z", "[:punct:]": r"!-/:-@\[-`{-~",
}  # fmt: skip
"""Of the patterns of ``pgrep``, what Python spells in another way."""


def by_match(run: RunSpec, pattern: str, sight: Sight, now: float, where: str) -> Found:
    """Return the process of ours whose command line matches; ``now`` is by the machine's clock."""
    try:
        compiled = _compiled(pattern)
    except re.error as error:
        text = f"job.match is not a pattern: {clean(str(error), 120)}"
        return Found(who=Identity(Who.UNSURE, text))
    fits = [one for one in sight.processes.values() if _fits(one, compiled, sight)]
    found = [one for one in fits if not is_shell(one.argv) or _runs(one, compiled, fits, sight)]
    tops = topmost(found, sight)
    if not tops:
        return Found(absent=f"nothing {where} matches {clean(pattern, 80)}")
    first = min(
        tops,
        key=lambda one: (
            not writes(run, one, sight),
            not any(compiled.search(name) for name in names_of(one.argv)),
            -one.ticks,
            -one.pid,
        ),
    )
    return Found(noted(first, sight, now), Identity(Who.SAME))


def _compiled(pattern: str) -> re.Pattern[str]:
    for posix, python in _CLASSES.items():
        pattern = pattern.replace(posix, python)
    return re.compile(pattern)


def _fits(process: Process, pattern: re.Pattern[str], sight: Sight) -> bool:
    """Tell whether a process may be a job of ours, and its command line matches."""
    if process.pid in sight.own or sight.uid not in (0, process.uid):
        return False
    if pattern.search(" ".join(process.argv)) is None:
        return False
    others = is_tool(process.argv) or is_cockpit(process.argv) or is_supervisor(process)
    return not others


def _runs(shell: Process, pattern: re.Pattern[str], fits: Sequence[Process], sight: Sight) -> bool:
    """Tell whether a shell runs what matches, and does not only name it."""
    if "-c" not in shell.argv and any(pattern.search(name) for name in names_of(shell.argv)):
        return True
    below = {one.pid for one in sight.below(shell.pid)[1:]}
    return any(one.pid in below and not is_shell(one.argv) for one in fits)


def writes(run: RunSpec, process: Process, sight: Sight) -> bool:
    """Tell whether a process, or one that it has started, certainly writes to the run."""
    marks = sight.marks(run, None)
    found = (belongs(marks, sight.candidate(one), sight.files) for one in sight.below(process.pid))
    return any(what is not None and what.sure is Sure.YES for what in found)
