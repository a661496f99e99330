"""Whether a living job that names nothing of a run still runs what the run's job runs (C-25).

A person who submits the same script by hand leaves no launch id, and the script may hold the
output root inside. Each platform says what its jobs were started with (``Started``); here alone
it is compared. What shows that a job is of another run clears it: another output, another W&B id,
another launch id, or other values for the same arguments, as the jobs of a sweep have.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.base import Command
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import words_of
from cockpit.platforms.local.programs import (
    Use,
    arguments,
    names_the_tracker_run,
    only_looks,
    trains_by_name,
    use_of,
)

SAME_PROGRAM: Final = "runs the same script as the run's job"
SAME_COMMAND: Final = "calls the same command in its batch script as the run's job"
NAMES_OUTPUT: Final = "names the run's output root or W&B id in its batch script"
SAME_NAME: Final = "has the name and the work folder of the run's job"
_LAUNCH: Final = re.compile(r"(?:^|[\s,;=/])([\w.-]+-i\d{3,6})(?=$|[\s,;])")
_RESUMES: Final = re.compile(r"resum|restor|restart|contin|ckpt|checkpoint|load", re.I)
"""Names of arguments by which two starts of one run differ: from where it goes on."""
_OPEN: Final = re.compile(r"[{$]")
"""A placeholder or a variable in a recorded word: it may stand for any value."""
_ASSIGNED: Final = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(\S*|'[^']*'|\"[^\"]*\")")
_APART: Final = re.compile(r"&&|\|\|?|;|(?<![>&])&(?![>&\d])")
"""What stands between two commands of one line."""
_REDIRECTED: Final = re.compile(r"(?:\s\d*|&)(?:>>?&?|<)\s*[^\s<>&|]+")
_ID: Final = re.compile(r"id$", re.I)
_UNNAMED: Final = frozenset(("", "wrap", "sbatch", "bash", "sh", "python", "interactive"))
"""Names that a system gives to jobs that nobody named."""


@dataclass(frozen=True)
class Started:
    """What a job was started with, as far as its system or the run file tells."""

    program: str = ""
    """The script or program, absolute where that is known; empty where it is not told."""
    args: tuple[str, ...] = ()
    name: str = ""
    folder: str = ""
    labels: str = ""
    """Text that may hold the launch id of any run: a comment, a submission id, a job's name."""
    variables: Mapping[str, str] = field(default_factory=dict)
    untold: bool = False
    """Whether what the program is given stands in code, and not in ``args``."""


def in_folder(folder: str, program: str) -> str:
    """Return a program by its whole path where its folder is known."""
    return posixpath.normpath(posixpath.join(folder, program)) if program and folder else program


def program_of(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the program that an entrypoint runs, and its arguments.

    That is a script or ``-m module`` behind interpreters and launchers, else the first word; what
    stands before ``--`` is a submitter's own.
    """
    rest = list(words[list(words).index("--") + 1 :] if "--" in words else words)
    for at, word in enumerate(rest):
        module = at > 0 and rest[at - 1] == "-m"
        if module or word.endswith((".py", ".sh")):
            return word.removeprefix("./"), tuple(rest[at + 1 :])
    return (rest[0], tuple(rest[1:])) if rest else ("", ())


def recorded_starts(run: RunSpec) -> Iterator[Started]:
    """Yield how the run file starts a run whose system is given an entrypoint."""
    for words in recorded_commands(run):
        program, args = program_of(words)
        yield Started(program, args)


def recorded_commands(run: RunSpec) -> Iterator[tuple[str, ...]]:
    """Yield the words by which the run file starts the run, as they are written."""
    commands: tuple[Command | None, ...] = (run.resubmit, run.launch)
    for command in commands:
        try:
            yield () if command is None else words_of(command)
        except CommandError:
            continue


def commands_in(text: str, folder: str, labels: str) -> list[Started]:
    """Return the training commands of a shell script; else the last program that it calls."""
    variables: dict[str, str] = {}
    found: list[Started] = []
    for plain in _statements(text):
        assigned = _ASSIGNED.fullmatch(plain)
        if assigned is not None:
            variables[assigned[1]] = assigned[2].strip("'\"")
            continue
        words = [bare for word in plain.split() if (bare := word.strip("'\";"))]
        if words[:1] == ["cd"] and len(words) == 2 and not _OPEN.search(words[1]):
            folder = in_folder(folder, words[1])
            continue
        program, args = program_of(words)
        calls = program.endswith((".py", ".sh")) or f"-m {program}" in plain
        if calls and words[0] not in ("source", ".") and not only_looks(program):
            whole = program if "-m" in words else in_folder(folder, program)
            found.append(Started(whole, args, folder=folder, labels=labels, variables=variables))
    return [each for each in found if trains_by_name(each.program)] or found[-1:]


def _statements(text: str) -> Iterator[str]:
    """Yield the commands of a shell script one by one, without where their output goes."""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        if line.strip().startswith("#"):
            continue
        for part in _APART.split(line):
            plain = _REDIRECTED.sub(" ", part).strip()
            if plain:
                yield plain


def keys_of(starts: Iterable[Started]) -> set[object]:
    """Return what two starts must share one of, to be alike at all: cheap to compare."""
    programs = {each.program for each in starts if each.program}
    return programs | {(each.name, each.folder) for each in starts if each.name not in _UNNAMED}


def alike(
    run: RunSpec, own: Sequence[Started], other: Started, inside: Sequence[Started] = ()
) -> str | None:
    """Return why a job may be the run started a second time; ``None`` if nothing says so.

    ``inside`` is what its script calls, where that could be read.
    """
    if of_another_run(run, own, other):
        return None
    if inside and all(of_another_run(run, own, each) for each in inside):
        return None
    if any(_names_output(run, each) for each in inside):
        return NAMES_OUTPUT
    contradicted = False
    for each, why in ((other, SAME_PROGRAM), *((one, SAME_COMMAND) for one in inside)):
        same = [mine for mine in own if mine.program and mine.program == each.program]
        if any(may_be_one(run, mine, each) for mine in same):
            return why
        if same and each is other:
            return None  # one script is run with other values for each run of a sweep
        contradicted = contradicted or bool(same)
    named = {(each.name, each.folder) for each in own if each.name not in _UNNAMED}
    return SAME_NAME if not contradicted and (other.name, other.folder) in named else None


def _names_output(run: RunSpec, job: Started) -> bool:
    """Tell whether an argument or variable that is written to is the run's output root."""
    root = None if run.output_root is None else run.output_root.normal().seen_from(run.job)
    wandb_id = None if run.wandb is None else run.wandb.run_id
    return any(
        (root and use_of(key) is Use.WRITES and value and _within(root, value, job.folder or "/"))
        or (wandb_id and value == wandb_id and _ID.search(key) and names_the_tracker_run(key))
        for key, value in _told(job)
        if key
    )


def of_another_run(run: RunSpec, own: Sequence[Started], other: Started) -> bool:
    """Tell whether a job says of itself which run it is, and it is another one."""
    launches = _LAUNCH.findall(other.labels)
    if launches and all(number_of(run.name, each) is None for each in launches):
        return True
    wandb_id = None if run.wandb is None else run.wandb.run_id
    root = None if run.output_root is None else run.output_root.normal().seen_from(run.job)
    mine = {pair for each in own for pair in _told(each)}
    for key, value in _told(other):
        if not value or _OPEN.search(value) or (key, value) in mine:
            continue
        if wandb_id and _ID.search(key) and names_the_tracker_run(key) and value != wandb_id:
            return True
        writes = bool(key) and use_of(key) is Use.WRITES and "/" in value
        if root and writes and not _within(root, value, other.folder):
            return True
    return False


def _told(job: Started) -> Iterator[tuple[str, str]]:
    """Yield the arguments and the variables of a job by name."""
    yield from arguments(["", *job.args])
    yield from job.variables.items()


def _within(root: str, value: str, folder: str) -> bool:
    if "://" not in value and not value.startswith("/"):
        if not folder:
            return True
        value = posixpath.join(folder, value)
    path = value.rstrip("/") if "://" in value else posixpath.normpath(value)
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def may_be_one(run: RunSpec, own: Started, other: Started) -> bool:
    """Tell whether two lists of arguments may start the same run: no value contradicts."""
    if other.untold:
        return True
    mine, theirs = list(arguments(["", *own.args])), list(arguments(["", *other.args]))
    named = dict(theirs)
    for key, value in mine:
        if key and key in named and not _RESUMES.search(key) and _differ(value, named[key]):
            return False
    bare = [[value for key, value in each if not key] for each in (mine, theirs)]
    if any(_OPEN.search(value) for value in bare[0]):
        return True
    root = None if run.output_root is None else run.output_root.normal().seen_from(run.job)
    kept = [[v for v in each if not (root and _within(root, v, "/"))] for each in bare]
    return kept[0] == kept[1]


def _differ(mine: str, theirs: str) -> bool:
    return mine != theirs and not _OPEN.search(mine) and not _OPEN.search(theirs)
