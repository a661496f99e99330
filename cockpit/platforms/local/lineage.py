"""Which processes of this machine are jobs of a run (SPEC J, "Which jobs belong to a run").

In this order: the lineage in its environment (every start by the cockpit puts it there); the
pid file; the output root or the W&B id in its arguments or environment; a file below the output
root, or the W&B fragment of that id, open for writing. What descends from a job is part of it.
A tool that merely names a path (an editor, ``tail``, a shell) is never a job, nor is the cockpit
itself. Paths are compared part by part: ``runs/a`` is not ``runs/ab``.

Blocking; called through ``offload``. Where there is no ``/proc``, only the pid file and the
arguments tell.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.jobs import Live, LiveJob
from cockpit.model.lineage import local_root, related, tag_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.census import (
    Census,
    Process,
    census,
    descendants,
    lineage_up,
    written_files,
)
from cockpit.platforms.local.files import BadNote, PidNote, read_pid
from cockpit.platforms.local.tools import is_cockpit, is_supervisor, is_tool
from cockpit.runtime.process import PROC, boot_time
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LAUNCH_ID: Final = "COCKPIT_LAUNCH_ID"
RUN: Final = "COCKPIT_RUN"
LINEAGE: Final = "COCKPIT_LINEAGE"
NAME_LENGTH: Final = 120
WRITES: Final = "it has "
_READS = re.compile(r"init|load|from|source|pretrain|teacher|eval|compare|baseline", re.I)
_ID_FLAG = re.compile(r"wandb|run[_-]?id$|^(?:trainer\.)?id$|^name$", re.I)
_NOT_A_PLACE = re.compile(rb"^(?:PWD|OLDPWD|_|PATH|PYTHONPATH|LD_\w+|VIRTUAL_ENV|HOME|TMPDIR)=")


class Mark(NamedTuple):
    """Why a process is taken for a job, and its launch id where it tells one."""

    why: str
    launch_id: str | None = None


class RunMarks(NamedTuple):
    """What of a run its jobs are known by."""

    run: RunSpec
    tag: str
    root: str | None
    wandb_id: str | None
    wandb_dir: str | None
    recorded: PidNote | None
    words: tuple[str, ...]
    """What a command line must hold somewhere to name the run at all: cheap to look for."""


class Candidate(NamedTuple):
    """A process that may be somebody's job; ``told`` is all that its command line tells."""

    process: Process
    tool: bool
    told: str
    tag: str | None


def live_jobs(runs: Sequence[RunSpec], proc: Path = PROC) -> dict[str, Live]:
    """Return what lives of each run on this machine, by run name; one look for all of them."""
    try:
        look = _Look(proc)
    except OSError as error:
        text = f"the process table cannot be read: {error.strerror}"
        return {run.name: Live(unknown=text) for run in runs}
    return {run.name: _live(run, look) for run in runs}


class _Look:
    """The process table at one moment, and who in it may be a job at all."""

    def __init__(self, proc: Path) -> None:
        self.processes = census(proc)
        self.own = {process.pid for process in lineage_up(self.processes, os.getpid())}
        self.files = _Files(proc)
        self.boot = _boot(proc)
        self.candidates = [
            Candidate(
                process,
                is_tool(process.argv),
                " ".join((*process.argv, process.cwd or "")),
                process.variable(LINEAGE),
            )
            for process in self.processes.values()
            if process.pid not in self.own
            and not is_supervisor(process)
            and not is_cockpit(process.argv)
        ]


def _live(run: RunSpec, look: _Look) -> Live:
    watched, trouble = _watched(run)
    marks: dict[int, Mark] = {}
    writers: dict[int, Mark] = {}
    spared: dict[int, Mark] = {}
    for candidate in look.candidates:
        mark, spare = _judge(watched, candidate, look.files)
        if mark is not None:
            (writers if mark.why.startswith(WRITES) else marks)[candidate.process.pid] = mark
        elif spare is not None:
            spared[candidate.process.pid] = spare
    processes = look.processes
    for pid, mark in writers.items():
        marks.setdefault(_whole(processes, processes[pid], look.own).pid, mark)
    jobs = _tops(watched, processes, marks)
    part_of = descendants(processes, jobs) | set(marks)
    others = {pid: mark for pid, mark in spared.items() if pid not in part_of}
    below = descendants(processes, others)
    return Live(
        jobs=tuple(_job(processes[pid], marks[pid], look.boot) for pid in jobs),
        spared=tuple(
            _job(processes[pid], mark, look.boot)
            for pid, mark in others.items()
            if pid not in below
        ),
        unknown=trouble,
    )


def _watched(run: RunSpec) -> tuple[RunMarks, str | None]:
    recorded, trouble = _recorded(run.job)
    wandb = run.wandb
    wandb_id = None if wandb is None else wandb.id
    return RunMarks(
        run=run,
        tag=tag_of(run),
        root=local_root(run),
        wandb_id=wandb_id,
        wandb_dir=None if wandb is None or not wandb.dir else posixpath.normpath(wandb.dir.path),
        recorded=recorded,
        words=tuple(filter(None, (posixpath.basename(local_root(run) or ""), wandb_id))),
    ), trouble


def _recorded(job: JobSpec | None) -> tuple[PidNote | None, str | None]:
    """Return what the pid file says, or why that cannot be told."""
    if job is None or job.pid_file is None:
        return None, None
    try:
        note = read_pid(job.pid_file.path)
    except OSError as error:
        return None, f"cannot read {job.pid_file}: {error.strerror}"
    if isinstance(note, BadNote):
        return None, f"{note.reason}; if nothing runs, remove the file"
    return note, None


def _judge(
    watched: RunMarks, candidate: Candidate, files: _Files
) -> tuple[Mark | None, Mark | None]:
    """Return why a process is a job of the run, or why it looks like one and is spared."""
    process, tag = candidate.process, candidate.tag
    if tag is not None and related(watched.tag, tag):
        launch_id = clean(process.variable(LAUNCH_ID) or "", 200) or None
        return Mark(f"launch {launch_id or 'id unknown'} in its environment", launch_id), None
    if _is_recorded(watched.recorded, process):
        assert watched.recorded is not None and watched.run.job is not None
        pid_file = watched.run.job.pid_file
        return Mark(f"recorded in {pid_file}", watched.recorded.launch_id), None
    if candidate.tool:
        return None, None
    named = any(word in candidate.told for word in watched.words)
    if tag:
        other = _mention(watched, process, "another run's job") if named else None
        return None, _sibling(watched, process) or other
    why = (_in_arguments(watched, process) if named else None) or _in_environment(watched, process)
    why = why or files.why(watched, process)
    if why is not None and _is_diagnostic(watched.run, process):
        return None, Mark("a diagnostic job (job.diagnostic)")
    if why is not None or not named:
        return None if why is None else Mark(why), None
    return None, _sibling(watched, process) or _mention(watched, process, "only reads it")


def _is_recorded(note: PidNote | None, process: Process) -> bool:
    if note is None or note.pid != process.pid:
        return False
    return note.ticks is None or process.ticks in (-1, note.ticks)


def _in_arguments(watched: RunMarks, process: Process) -> str | None:
    """Return why the arguments make it a job: it is told to write to the root or the W&B run."""
    for key, value in arguments(process.argv):
        if _READS.search(key):
            continue
        if watched.root is not None and within(watched.root, value, process.cwd):
            return "the output root in its arguments"
        if watched.wandb_id is not None and value == watched.wandb_id and _ID_FLAG.search(key):
            return "the W&B id in its arguments" if _same_project(watched, process) else None
    return None


def arguments(argv: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (key, value) of ``--key value``, ``--key=value`` and ``key=value``; else ("", value).

    The program itself is left out.
    """
    key = ""
    for part in argv[1:]:
        name, sign, value = part.partition("=")
        if sign:
            yield name.lstrip("-+"), value
            key = ""
        elif part.startswith("-"):
            key = part.lstrip("-")
        else:
            yield key, part
            key = ""


def within(root: str, value: str, cwd: str | None) -> bool:
    """Tell whether a path is ``root`` or lies below it, compared part by part."""
    if not value or "://" in value or (not value.startswith("/") and cwd is None):
        return False
    path = posixpath.normpath(posixpath.join(cwd or "/", value))
    return path == root or path.startswith(root.rstrip("/") + "/")


def _below(root: str | None, path: str) -> bool:
    return root is not None and path.startswith(root) and within(root, path, None)


def _is_ours(root: str | None, path: str) -> bool:
    """Tell whether a file is one of the cockpit's own notes; the lock that jobs hold is not."""
    notes = posixpath.join(root or "/", ".cockpit")
    return _below(notes, path) and path != posixpath.join(notes, "job.lock")


def _in_environment(watched: RunMarks, process: Process) -> str | None:
    if process.env is None:
        return None
    if watched.wandb_id is not None and process.variable("WANDB_RUN_ID") == watched.wandb_id:
        return "the W&B id in its environment" if _same_project(watched, process) else None
    root = watched.root
    if root is None or root.encode() not in process.env:
        return None
    for part in process.env.split(b"\0"):
        value = part.partition(b"=")[2].decode("utf-8", "replace")
        if value.startswith("/") and within(root, value, None) and not _NOT_A_PLACE.match(part):
            name = clean(part.partition(b"=")[0].decode("utf-8", "replace"), 40)
            return f"the output root in its environment ({name})"
    return None


def _same_project(watched: RunMarks, process: Process) -> bool:
    """Tell whether nothing in its environment says that the W&B id is another project's."""
    wandb = watched.run.wandb
    assert wandb is not None
    told = ((wandb.project, "WANDB_PROJECT"), (wandb.entity, "WANDB_ENTITY"))
    return all(mine is None or (process.variable(name) or mine) == mine for mine, name in told)


class _Files:
    """The files that processes have open for writing, looked at once, and only where needed."""

    def __init__(self, proc: Path) -> None:
        self._uid = os.getuid()
        self._proc = proc
        self._seen: dict[int, tuple[str, ...]] = {}

    def why(self, watched: RunMarks, process: Process) -> str | None:
        """Return which file makes the process a job: one under the root, or the fragment."""
        if process.ticks < 0 or self._uid not in (0, process.uid):
            return None
        if watched.root is None and watched.wandb_dir is None:
            return None
        for path in self._of(process.pid):
            if _below(watched.root, path) and not _is_ours(watched.root, path):
                return f"{WRITES}{clean(path, 200)} open for writing"
            fragment = f"run-{watched.wandb_id}.wandb"
            if posixpath.basename(path) == fragment and _below(watched.wandb_dir, path):
                return f"{WRITES}{clean(path, 200)} open for writing"
        return None

    def _of(self, pid: int) -> tuple[str, ...]:
        if pid not in self._seen:
            self._seen[pid] = tuple(written_files(pid, self._proc))
        return self._seen[pid]


def _is_diagnostic(run: RunSpec, process: Process) -> bool:
    patterns = () if run.job is None else run.job.diagnostic
    text = " ".join(process.argv)
    return any(fnmatch.fnmatch(text, f"*{pattern.strip('*')}*") for pattern in patterns)


def _sibling(watched: RunMarks, process: Process) -> Mark | None:
    """Return why a process only looks like a job: its name or its path has the same beginning."""
    run = process.variable(RUN)
    if run is not None and run != watched.run.name and _alike(run, watched.run.name):
        return Mark(f"run {clean(run, 80)}, another one", process.variable(LAUNCH_ID))
    for _, value in arguments(process.argv):
        path = posixpath.normpath(posixpath.join(process.cwd or "/", value))
        alike = watched.root is not None and "/" in value and path.startswith(watched.root)
        if alike and not _below(watched.root, path):
            return Mark(f"writes elsewhere: {clean(path, 200)}")
        if watched.wandb_id and value != watched.wandb_id and value.startswith(watched.wandb_id):
            return Mark(f"another id: {clean(value, 80)}")
    return None


def _alike(name: str, other: str) -> bool:
    return name.startswith(other) or other.startswith(name)


def _mention(watched: RunMarks, process: Process, why: str) -> Mark | None:
    """Return a mark if the process names the output root in any way."""
    if watched.root is None:
        return None
    named = any(within(watched.root, value, process.cwd) for _, value in arguments(process.argv))
    return Mark(f"names the output root, but is {why}" if "job" in why else why) if named else None


def _whole(processes: Census, process: Process, own: set[int]) -> Process:
    """Return the topmost parent that belongs to the same job as a process that writes."""
    top = process
    for parent in lineage_up(processes, process.ppid):
        foreign = parent.pid in own or parent.pid == 1 or parent.uid != process.uid
        if foreign or is_tool(parent.argv) or is_supervisor(parent) or is_cockpit(parent.argv):
            break
        top = parent
    return top


def _tops(watched: RunMarks, processes: Census, marks: Mapping[int, Mark]) -> list[int]:
    """Return one process for each job: the topmost, and one for all of a launch id."""
    tops: dict[object, int] = {}
    order: Callable[[int], tuple[bool, int, int]] = lambda pid: (  # noqa: E731
        not _is_recorded(watched.recorded, processes[pid]), processes[pid].ticks, pid,
    )  # fmt: skip
    for pid in sorted(marks, key=order):
        above = {parent.pid for parent in lineage_up(processes, processes[pid].ppid)}
        if above.isdisjoint(marks):
            tops.setdefault(marks[pid].launch_id or pid, pid)
    return sorted(tops.values(), key=order)


def _boot(proc: Path) -> float | None:
    try:
        return boot_time(proc)
    except OSError:
        return None


def _job(process: Process, mark: Mark, boot: float | None) -> LiveJob:
    started = None
    if boot is not None and process.ticks >= 0:
        started = boot + process.ticks / os.sysconf("SC_CLK_TCK")
    why = mark.why
    if process.uid != os.getuid():
        why += f"; it belongs to user {process.uid}"
    handle = {"pid": str(process.pid), "ticks": str(process.ticks)}
    if mark.launch_id is not None and (tag := process.variable(LINEAGE)) is not None:
        handle |= {"launch_id": mark.launch_id, "lineage": tag}
    return LiveJob(
        id=f"pid:{process.pid}",
        name=name_of(process.argv),
        why=why,
        launch_id=mark.launch_id,
        started_at=started,
        handle=handle,
    )


def name_of(argv: Sequence[str]) -> str:
    """Return a command for people: one line, safe, scrubbed and short."""
    return clean(scrub(" ".join(clean(part, 400) for part in argv)), NAME_LENGTH)
