"""Why a process belongs to a run, and how sure that is (SPEC J, C-25).

*Sure* is a process that trains the run, by positive evidence: it carries the run's lineage, is the
recorded one, has the run's log, a checkpoint or its W&B file open for writing, holds its lock, runs
the recorded command, or runs the recorded script and was given the output root or W&B id as the
value of an argument or variable that names an output. Of another script that was given them it
cannot be told: *possible*. So is one that writes a file of its own under the root. Who only reads
(an editor, ``tail``, a plot, a shell that sits in the folder) is *spared*. Paths are compared part
by part: ``runs/a`` is not ``runs/ab``. Blocking.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.hosts.notes import JOB_LOCK, number_of
from cockpit.model.lineage import related
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, alike, keys_of, of_another_run
from cockpit.platforms.local.census import Census, OpenFile, Process, open_files
from cockpit.platforms.local.marks import (
    LOG_NAME,
    Kind,
    RunMarks,
    Written,
    code_of,
    is_store,
    kind_of,
    runs_command,
    runs_script,
    starts_in_code,
    starts_of,
    with_links_followed,
)
from cockpit.platforms.local.programs import (
    SUBMITS,
    Use,
    arguments,
    below,
    inner,
    is_interpreter,
    is_shell,
    is_tool,
    names_a_launch,
    names_a_place,
    names_a_training,
    names_the_tracker_run,
    only_looks,
    program,
    submits_elsewhere,
    told_to_evaluate,
    told_to_look,
    trains_by_name,
    use_of,
)
from cockpit.runtime.process import PROC
from cockpit.text.safe import clean

LAUNCH_ID: Final = "COCKPIT_LAUNCH_ID"
RUN: Final = "COCKPIT_RUN"
LINEAGE: Final = "COCKPIT_LINEAGE"
WRITES: Final = "it has "
_NOT_A_PLACE = re.compile(
    r"(?:PWD|OLDPWD|INIT_CWD|_|PATH|PYTHONPATH|LD_\w+|VIRTUAL_ENV|HOME|TMP\w*)"
)
IN_WORK_FOLDER: Final = "runs a training script in the work folder of the run's job"
_SINGLE_FILE = re.compile(r"\.[A-Za-z]\w{0,7}$")


class Sure(Enum):
    """How sure it is that a process is a job of a run."""

    YES = "yes"
    POSSIBLE = "possible"
    NO = "no"


class Mark(NamedTuple):
    """Why a process is taken for a job, and its launch id where it tells one.

    ``alike``: a person decides what it is, since nothing proves that it trains this run.
    """

    why: str
    launch_id: str | None = None
    alike: bool = False


class Belongs(NamedTuple):
    """What a process has to do with a run."""

    sure: Sure
    mark: Mark


class Candidate(NamedTuple):
    """A process that may be somebody's job; ``told`` is all that its command line tells."""

    process: Process
    tool: bool
    looks: bool
    client: bool
    """It hands a job to another system: what it names is that job's."""
    evaluates: bool
    """Its arguments say that it does not train, whatever script it runs."""
    scripted: bool
    """An interpreter or a program named after training runs it: it may train."""
    told: str
    tag: str | None


def candidate_of(process: Process, real: Callable[[str], str] = posixpath.normpath) -> Candidate:
    """Return a process as one that may be a job; ``real`` follows the links of its machine."""
    command = inner(process.argv)
    script = next((word for word in command[1:] if not word.startswith("-")), "")
    name = script if is_shell(command) and "-c" not in command else program(command or [""])
    return Candidate(
        process,
        is_tool(process.argv),
        only_looks(name) or told_to_look(command or [""]),
        submits_elsewhere(process),
        told_to_evaluate(command),
        is_interpreter(command[:1]) or is_shell(command) or names_a_training(name),
        " ".join((*process.argv, process.cwd or "", *_programs(process, real))),
        process.variable(LINEAGE),
    )


def _programs(process: Process, real: Callable[[str], str]) -> Iterator[str]:
    """Yield the scripts that a command line names by their modules, by links, or in code."""
    folder = process.cwd or ""
    if is_interpreter(inner(process.argv)[:1]):
        for each in (*starts_of(process.argv, folder), *starts_in_code(process.argv, folder)):
            yield each.program
            if each.program.startswith("/"):
                yield real(each.program)


def belongs(watched: RunMarks, candidate: Candidate, files: Files) -> Belongs | None:
    """Return what a process has to do with the run, ``None`` if it is nothing."""
    process, tag = candidate.process, candidate.tag
    if candidate.client and (not tag or process.variable(SUBMITS) is not None):
        return _of_client(watched, process, files)
    if tag is not None and related(watched.tag, tag):
        launch_id = clean(process.variable(LAUNCH_ID) or "", 200) or None
        return Belongs(
            Sure.YES, Mark(f"launch {launch_id or 'id unknown'} in its environment", launch_id)
        )
    if candidate.tool:
        return None
    named = any(word in candidate.told for word in watched.words)
    if tag:
        other = _mention(watched, process, "another run's job") if named else None
        return _spared(_sibling(watched, process) or other)
    found = _evidence(watched, candidate, files, named=named)
    if found is not None and found.sure is not Sure.NO and is_diagnostic(watched.run, process):
        return Belongs(Sure.NO, Mark("a diagnostic job (job.diagnostic)"))
    if found is not None or not named:
        return found
    return _spared(_sibling(watched, process) or _mention(watched, process, "only reads it"))


def fed(candidate: Candidate, written: Written) -> Belongs | None:
    """Return what a process has to do with a run whose file it writes through a pipe."""
    if candidate.tool or candidate.tag or candidate.client:
        return None
    why = f"its output goes into {clean(written.path, 200)} through another program"
    return Belongs(Sure.POSSIBLE if candidate.looks else Sure.YES, Mark(why))


def _of_client(watched: RunMarks, process: Process, files: Files) -> Belongs | None:
    """Return what a client of another system has to do with the run: what it writes itself."""
    writes = files.written(watched, process)
    if writes is not None:
        return Belongs(Sure.YES if writes.kind.proves else Sure.POSSIBLE, Mark(_has_open(writes)))
    return _spared(_submission(watched, process))


def _spared(mark: Mark | None) -> Belongs | None:
    return None if mark is None else Belongs(Sure.NO, mark)


def _evidence(
    watched: RunMarks, candidate: Candidate, files: Files, *, named: bool
) -> Belongs | None:
    """Return the strongest that arguments, environment and open files say of a process."""
    process = candidate.process
    recorded = runs_script(process.argv, watched.scripts)
    looks = candidate.looks and not recorded
    evaluates = candidate.evaluates and not any(map(told_to_evaluate, watched.commands))
    writes = files.written(watched, process)
    if writes is not None and (writes.kind.proves or recorded):
        doubt = looks or evaluates
        why = f"is told to evaluate, and {_has_open(writes)}" if evaluates else _has_open(writes)
        mark = Mark(why, alike=evaluates)
        return Belongs(Sure.POSSIBLE if doubt else Sure.YES, mark)
    told = [*(_in_arguments(watched, process) if named else ()), *_in_environment(watched, process)]
    sure = next((mark for certain, mark in told if certain), None)
    if sure is not None and not (looks or evaluates) and (recorded or not watched.scripts):
        return Belongs(Sure.YES, sure)
    if recorded and named and _is_command(watched, process):
        return _same_command(watched, process, files)
    similar = None if looks else _similar(watched, process, files)
    if similar is not None:
        why = f"{similar}, with {sure.why}" if sure is not None else similar
        return Belongs(Sure.POSSIBLE, Mark(why, alike=True))
    if writes is not None and (sure is None or looks or not candidate.scripted):
        why = f"it writes {clean(writes.path, 200)} (not the log, a checkpoint or the W&B run)"
        return Belongs(Sure.NO if looks else Sure.POSSIBLE, Mark(why))
    if looks or not candidate.scripted:
        return None
    return _maybe(sure, told[0][1] if told else None, recorded=recorded)


def _maybe(sure: Mark | None, told: Mark | None, *, recorded: bool) -> Belongs | None:
    """Return what is told of another script that names the run, or of its own that may name it."""
    if sure is not None:
        alike = "environment" not in sure.why
        why = f"has {sure.why}" if alike else sure.why
        return Belongs(Sure.POSSIBLE, sure._replace(why=why, alike=alike))
    if told is None:
        return None
    why = f"runs the recorded script with {told.why}" if recorded else told.why
    return Belongs(Sure.POSSIBLE, told._replace(why=why, alike=recorded))


def _same_command(watched: RunMarks, process: Process, files: Files) -> Belongs | None:
    elsewhere = files.logs_elsewhere(process)
    for each in starts_of(process.argv, process.cwd or ""):
        if of_another_run(watched.run, watched.starts, each):
            return None  # a placeholder fits any value: another output root is another run
    other = Started(variables=_outputs_in_environment(process))
    if of_another_run(watched.run, watched.starts, other):
        why = "runs the recorded command, with another output in its environment"
        return Belongs(Sure.POSSIBLE, Mark(why, alike=True))
    if elsewhere is None or not watched.logs:
        return Belongs(Sure.YES, Mark("it runs the recorded command"))
    why = f"runs the recorded command, with its output in {clean(elsewhere, 200)}"
    return Belongs(Sure.POSSIBLE, Mark(why, alike=elsewhere not in watched.logs_of_others))


def _similar(watched: RunMarks, process: Process, files: Files) -> str | None:
    """Return why a process may be the run's job a second time, by what it runs alone (C-25)."""
    if not watched.starts or process.cwd is None or code_of(inner(process.argv)) is not None:
        return None  # what a shell's code starts is a process of its own
    there = process.cwd in watched.workdirs
    folder = _begun_in(watched, process)
    named = (*starts_of(process.argv, folder), *starts_in_code(process.argv, folder))
    for each in with_links_followed(named) if watched.here else named:
        known = each.program.startswith("/") or there
        same = known and not keys_of(watched.starts).isdisjoint(keys_of([each]))
        trains = trains_by_name(each.program) or process.variable("LOCAL_RANK") is not None
        if not same and not (watched.opaque and there and trains):
            continue
        if files.logs_elsewhere(process) in watched.logs_of_others:
            return None
        other = replace(each, variables=_outputs_in_environment(process))
        if same:
            why = alike(watched.run, watched.starts, other)
        else:
            why = None if of_another_run(watched.run, watched.starts, other) else IN_WORK_FOLDER
        if why is not None:
            return why
    return None


def _begun_in(watched: RunMarks, process: Process) -> str:
    """Return where a process was started: a trainer may go into a folder of its own (Hydra)."""
    cwd = process.cwd or ""
    if watched.here and cwd not in watched.workdirs:  # a container has another name for it
        with suppress(OSError):
            for folder in watched.workdirs:
                if (PROC / str(process.pid) / "cwd").samefile(folder):
                    return folder
    above = [each for each in watched.workdirs if watched.here and within(each, cwd, None)]
    for folder in (cwd, *above):
        scripts = [each.program for each in starts_of(process.argv, folder)]
        if all(Path(each).exists() for each in scripts if each.startswith(f"{folder}/")):
            return folder
    return cwd


def _outputs_in_environment(process: Process) -> dict[str, str]:
    """Return the variables that tell where a process writes; those of our own say nothing of it."""
    found = {}
    for part in (process.env or b"").split(b"\0"):
        name, _, value = part.decode("utf-8", "replace").partition("=")
        tells = use_of(name) is Use.WRITES or names_the_tracker_run(name)
        if tells and not _NOT_A_PLACE.fullmatch(name) and os.environ.get(name) != value:
            found[name] = value
    return found


def _is_command(watched: RunMarks, process: Process) -> bool:
    """Tell whether it is a recorded command, and one of this run: by its folder or its words."""
    if not runs_command(process.argv, watched.commands):
        return False
    return process.cwd in watched.workdirs or any(
        within(root, value, process.cwd)
        for root in watched.roots
        for _, value in arguments(process.argv)
    )


def _has_open(writes: Written) -> str:
    if writes.kind is Kind.LOCK:
        return f"{WRITES}the lock {clean(writes.path, 200)}"
    return f"{WRITES}{clean(writes.path, 200)} open for writing"


def _in_arguments(watched: RunMarks, process: Process) -> Iterator[tuple[bool, Mark]]:
    """Yield why the arguments make it a job, and whether that is certain."""
    for key, value in arguments(process.argv):
        use = use_of(key)
        if use is Use.READS:
            continue
        if _is_folder_within(watched, value, process.cwd, keyed=bool(key)):
            yield use is Use.WRITES, Mark(f"the output root in its arguments{_as_key(key)}")
        elif watched.wandb_id is not None and value == watched.wandb_id:
            certain = names_the_tracker_run(key)
            if certain is not False and _same_project(watched, process):
                yield certain is True, Mark(f"the W&B id in its arguments{_as_key(key)}")
        elif names_a_launch(key) and number_of(watched.run.name, value) is not None:
            mine = process.uid == watched.uid
            yield mine, Mark(f"launch {clean(value, 80)} in its arguments", clean(value, 80))


def _as_key(key: str) -> str:
    return f" ({clean(key, 40)})" if key else ""


def _is_folder_within(watched: RunMarks, value: str, cwd: str | None, *, keyed: bool) -> bool:
    """Tell whether a value is the output root, or names a folder below it.

    A bare word is a path only where such a folder is there; a single file is read, or written
    once, and no place to train into.
    """
    if not any(within(root, value, cwd) for root in watched.roots):
        return False
    path = Path(posixpath.join(cwd or "/", value))
    if not watched.here:
        return (keyed or "/" in value) and _SINGLE_FILE.search(path.name) is None
    if not keyed and "/" not in value and value not in (".", ".."):
        return path.is_dir()
    if path.is_dir():
        return True
    return not path.exists() and _SINGLE_FILE.search(path.name) is None


def within(root: str, value: str, cwd: str | None) -> bool:
    """Tell whether a path is ``root`` or lies below it, compared part by part."""
    if not value or "://" in value or (not value.startswith("/") and cwd is None):
        return False
    return below(root, posixpath.normpath(posixpath.join(cwd or "/", value)))


def _in_environment(watched: RunMarks, process: Process) -> Iterator[tuple[bool, Mark]]:
    """Yield why its first environment makes it a job, and whether that is certain."""
    if process.env is None:
        return
    if watched.wandb_id is not None and process.variable("WANDB_RUN_ID") == watched.wandb_id:
        if _same_project(watched, process):
            yield True, Mark("the W&B id in its environment")
        return
    if not any(os.fsencode(root) in process.env for root in watched.roots):
        return
    for part in process.env.split(b"\0"):
        name, _, value = part.decode("utf-8", "replace").partition("=")
        inside = value.startswith("/") and any(within(root, value, None) for root in watched.roots)
        if not inside or _NOT_A_PLACE.fullmatch(name) or _SINGLE_FILE.search(value):
            continue
        use = use_of(name)
        if use is Use.WRITES or (use is Use.EITHER and names_a_place(name)):
            why = f"the output root in its environment ({clean(name, 40)})"
            yield use is Use.WRITES, Mark(why)


def _same_project(watched: RunMarks, process: Process) -> bool:
    """Tell whether nothing in its environment says that the W&B id is another project's."""
    wandb = watched.run.wandb
    assert wandb is not None
    told = ((wandb.project, "WANDB_PROJECT"), (wandb.entity, "WANDB_ENTITY"))
    return all(mine is None or (process.variable(name) or mine) == mine for mine, name in told)


Pipes = tuple[frozenset[str], frozenset[str]]
"""Those that are read, and those that are written."""


class _Holding(NamedTuple):
    """The processes that write files or have locked them, and the paths of all of these."""

    processes: Sequence[Process]
    locks: bool
    paths: str
    """Each after a line break."""

    def may_name(self, watched: RunMarks) -> bool:
        """Tell whether one of the files may be the run's: a lock has names of many kinds."""
        return self.locks or any(f"\n{place}" in self.paths for place in watched.places)


class Files:
    """The files that processes have open, looked at once, and only where needed."""

    def __init__(
        self,
        proc: Path,
        uid: int | None = None,
        seen: Mapping[int, tuple[OpenFile, ...]] | None = None,
    ) -> None:
        """``uid`` is who looks, ``seen`` what is known already."""
        self._uid = os.getuid() if uid is None else uid
        self._proc = proc
        self._seen = dict(seen or {})
        self._held_by: dict[int, tuple[OpenFile, ...]] = {}
        self._pipes: dict[int, Pipes] = {}
        self._holding: _Holding | None = None

    def readable(self, process: Process) -> bool:
        """Tell whether we may look at the files of a process at all."""
        return self._uid in (0, process.uid)

    def written(self, watched: RunMarks, process: Process) -> Written | None:
        """Return the file of the run that a process writes or has locked: the strongest evidence.

        ``None`` too for a cockpit, which has its store open.
        """
        found: Written | None = None
        for each in self.held(process):
            kind = _kind(watched, each)
            if kind is not None and (found is None or kind > found.kind):
                found = Written(kind, each.path)
        if found is not None and any(is_store(each.path) for each in self.held(process)):
            return None
        return found

    def logs_elsewhere(self, process: Process) -> str | None:
        """Return the log that a process writes; asked where it writes nothing of the run.

        Runs that differ only by their environment share one command and one folder.
        """
        logs = (each.path for each in self.held(process) if LOG_NAME.search(each.path))
        return next(logs, None)

    def why(self, watched: RunMarks, process: Process) -> str | None:
        """Return which file ties the process to the run: any that it writes there."""
        writes = self.written(watched, process)
        return None if writes is None else _has_open(writes)

    def writers(self, watched: RunMarks, processes: Census) -> Sequence[Process]:
        """Return the processes that may have a file of the run open: all that write, or none.

        It is asked for every run of a fleet, and most are named by no open file at all.
        """
        if self._holding is None:
            holding = [each for each in processes.values() if self.held(each)]
            files = [file for each in holding for file in self.held(each)]
            paths = "".join(f"\n{file.path}" for file in files)
            self._holding = _Holding(holding, any(file.locked for file in files), paths)
        return self._holding.processes if self._holding.may_name(watched) else ()

    def held(self, process: Process) -> tuple[OpenFile, ...]:
        """Return the files that a process writes or has locked: of most programs few or none."""
        held = self._held_by.get(process.pid)
        if held is None:
            mine = (each for each in self.of(process) if each.path.startswith("/"))
            held = tuple(each for each in mine if each.writes or each.locked)
            self._held_by[process.pid] = held
        return held

    def holds_lock(self, watched: RunMarks, process: Process) -> bool:
        """Tell whether a process holds the lineage's lock: nothing can start beside it."""
        return any(_is_held(watched, each) for each in self.of(process))

    def piped(self, process: Process) -> Pipes:
        """Return the pipes that a process reads and those that it writes."""
        found = self._pipes.get(process.pid)
        if found is None:
            pipes = [each for each in self.of(process) if each.path.startswith("pipe:")]
            reads = frozenset(each.path for each in pipes if each.reads and not each.writes)
            writes = frozenset(each.path for each in pipes if each.writes and not each.reads)
            found = self._pipes[process.pid] = reads, writes
        return found

    def feeding(self, watched: RunMarks, processes: Census) -> dict[int, Written]:
        """Return who writes a file of the run through a pipe, by process id.

        In ``train.py | tee run.log`` only ``tee`` has the log open.
        """
        carried: dict[str, Written] = {}
        for process in self.writers(watched, processes):
            writes = self.written(watched, process) if is_tool(process.argv) else None
            if writes is not None and writes.kind.proves:
                carried |= dict.fromkeys(self.piped(process)[0], writes)
        found: dict[int, Written] = {}
        known = -1
        while carried and known != len(carried):  # one tool may read from another one
            known = len(carried)
            for pid, process in processes.items():
                writes = next(
                    (carried[each] for each in self.piped(process)[1] & carried.keys()), None
                )
                if writes is not None:
                    found[pid] = writes
                    through = self.piped(process)[0] if is_tool(process.argv) else ()
                    carried |= {each: writes for each in through if each not in carried}
        return found

    def of(self, process: Process) -> tuple[OpenFile, ...]:
        """Return what a process has open."""
        if not self.readable(process):
            return ()
        if process.pid not in self._seen:
            self._seen[process.pid] = open_files(process.pid, self._proc)
        return self._seen[process.pid]


def _kind(watched: RunMarks, file: OpenFile) -> Kind | None:
    if _is_held(watched, file):
        return Kind.LOCK
    if not file.writes or not file.path.startswith(watched.places):
        return None
    return kind_of(watched, file.path)


def _is_held(watched: RunMarks, file: OpenFile) -> bool:
    if not file.locked:
        return False
    own = (posixpath.join(root, *JOB_LOCK.parts) for root in watched.roots)
    return posixpath.basename(file.path) in watched.locks or file.path in own


def is_diagnostic(run: RunSpec, process: Process) -> bool:
    """Tell whether a process is what the run file calls a diagnostic job."""
    patterns = () if run.job is None else run.job.diagnostic
    text = " ".join(process.argv)
    return any(fnmatch.fnmatch(text, f"*{pattern.strip('*')}*") for pattern in patterns)


def _sibling(watched: RunMarks, process: Process) -> Mark | None:
    """Return why a process only looks like a job: its name or its path has the same beginning."""
    run, name = process.variable(RUN), watched.run.name
    if run not in (None, name) and (run.startswith(name) or name.startswith(run)):
        return Mark(f"run {clean(run, 80)}, another one", process.variable(LAUNCH_ID))
    root = watched.roots[0] if watched.roots else None
    if root is None and not watched.wandb_id:
        return None
    for _, value in arguments(process.argv):
        path = posixpath.normpath(posixpath.join(process.cwd or "/", value))
        alike = root is not None and "/" in value and path.startswith(root)
        if alike and not below(root, path):
            return Mark(f"writes elsewhere: {clean(path, 200)}")
        if watched.wandb_id and value != watched.wandb_id and value.startswith(watched.wandb_id):
            return Mark(f"another id: {clean(value, 80)}")
    return None


def _submission(watched: RunMarks, process: Process) -> Mark | None:
    """Return which launch of the run a client hands to another system, if it is one of it."""
    values = [process.variable(SUBMITS) or "", *(value for _, value in arguments(process.argv))]
    of_run = (each for each in values if number_of(watched.run.name, each) is not None)
    if (launch := next(of_run, None)) is not None:
        return Mark(f"submits {clean(launch, 80)} to another system", clean(launch, 80))
    return _mention(watched, process, "only submits to another system")


def _mention(watched: RunMarks, process: Process, why: str) -> Mark | None:
    """Return a mark if the process names the output root in any way."""
    values = [value for _, value in arguments(process.argv) if "/" in value]
    named = any(within(root, value, process.cwd) for root in watched.roots for value in values)
    return Mark(f"names the output root, but is {why}" if "job" in why else why) if named else None
