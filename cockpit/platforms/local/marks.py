"""What the jobs of a run are known by: its paths, its locks, its W&B run, its commands (C-25).

A job *trains*: it writes the run's log, a checkpoint or its W&B run. A file of its own under the
output root is no proof: evaluations, notebooks, editors and databases write there too. Of a process
that names the run, the recorded script trains it; another one may only evaluate, convert or copy.
A copy that was started by hand names nothing of a run where its script holds the output root
inside. Then only what it runs tells: ``platforms.alike`` compares it with the run's own commands.

Blocking where files of this machine are read.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.model.base import Command
from cockpit.model.lineage import keys_of, tag_of
from cockpit.model.place import Place, place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, commands_in, in_folder, program_of
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.programs import (
    MODULE_FLAG,
    MOST_KNOWN,
    WRAPPERS,
    below,
    inner,
    is_interpreter,
    is_shell,
    is_tool,
    is_wrapper,
    program,
)
from cockpit.runtime.mounts import open_regular

SCRIPT: Final = re.compile(r"(?<![\w.-])[\w.-]+\.(?:py|sh|bash|jl|R|lua|pl)$")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+$")
LAUNCHERS: Final = (
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "accelerate",
    "deepspeed.launcher.runner", "deepspeed.launcher.launch", "torch_xla.distributed.xla_dist",
)  # fmt: skip
"""Modules that start the script which their arguments name."""


def commands_of(run: RunSpec) -> tuple[tuple[str, ...], ...]:
    """Return the words of the commands that the run file records."""
    words = (_split(command) for command in (run.resubmit, run.launch) if command is not None)
    return tuple(dict.fromkeys(filter(None, words)))


def _split(command: Command) -> tuple[str, ...]:
    if not isinstance(command, str):
        return tuple(command)
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return tuple(command.split())


def scripts_of(commands: Sequence[Sequence[str]]) -> frozenset[str]:
    """Return the names of what these commands run; none where they only use a tool."""
    return frozenset(name for words in commands if not is_tool(words) for name in names_of(words))


def runs_script(argv: Sequence[str], scripts: frozenset[str]) -> bool:
    """Tell whether a command line runs one of these scripts, and does not only name it."""
    return not scripts.isdisjoint(names_of(argv))


def names_of(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the names of what a command line runs, through shells, wrappers and launchers."""
    return _found(tuple(argv))


@lru_cache(maxsize=MOST_KNOWN)
def _found(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, _running(argv)))


def _running(argv: tuple[str, ...]) -> Iterator[str]:
    words = inner(argv)
    if not words:
        return
    name = program(words)
    if is_shell(words):
        code = code_of(words)
        if code is None:
            yield next((posixpath.basename(w) for w in words[1:] if not w.startswith("-")), "")
        else:
            yield from _scripts(code.replace(";", " ").split())
    elif name in LAUNCHERS or (is_wrapper(argv[:1]) and not is_interpreter(words)):
        yield name
        yield from _scripts(argv)
    elif not is_interpreter([name]):
        yield name


def _scripts(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        name = posixpath.basename(word.strip("'\""))
        if SCRIPT.fullmatch(name):
            yield name


def runs_command(argv: Sequence[str], commands: Sequence[Sequence[str]]) -> bool:
    """Tell whether a command line is a recorded one, from its script on, placeholders apart."""
    return any(_same(argv, words) for words in commands)


def _same(argv: Sequence[str], words: Sequence[str]) -> bool:
    names = set(names_of(words))
    mine, theirs = (_from_script(each, names) for each in (argv, words))
    if not theirs or len(mine) != len(theirs):
        return False
    return all(
        one == other or "{" in other or "$" in other
        for one, other in zip(mine, theirs, strict=True)
    )


def _from_script(words: Sequence[str], names: set[str]) -> list[str]:
    """Return the words of a command line from the script on that it runs, by its name."""
    for at, word in enumerate(words):
        if posixpath.basename(word) in names:
            return [posixpath.basename(word), *words[at + 1 :]]
    return []


def named_scripts(run: RunSpec) -> set[str]:
    """Return the names of all scripts and modules that the run's commands name anywhere."""
    names = (posixpath.basename(word) for words in commands_of(run) for word in words)
    return {name for name in names if SCRIPT.search(name) or _MODULE.fullmatch(name)}


MOST_TEXT: Final = 65_536
"""Bytes of a recorded script that are read."""
MOST_SCRIPTS: Final = 8
"""Scripts that call one another and are read for one run."""
_CARRIES: Final = WRAPPERS.union(LAUNCHERS)
_TASKS: Final = frozenset(("make", "just", "pixi", "pdm", "hatch", "rye"))
"""Programs that run what a file of theirs says under a name."""
Read = Callable[[str], str]
"""Returns the text of a script, empty where it cannot be read."""


def starts_of(words: Sequence[str], folder: str) -> tuple[Started, ...]:
    """Return what a command line runs in a folder, through shells, wrappers and launchers.

    A script is a whole path; a module and an installed program are only their names.
    """
    return _starts_of(tuple(words), folder)


@lru_cache(maxsize=MOST_KNOWN)
def _starts_of(argv: tuple[str, ...], folder: str) -> tuple[Started, ...]:
    words = inner(argv)
    if not words or is_tool(argv):
        return ()
    code = code_of(words)
    if code is not None:
        return tuple(commands_in(code, folder, ""))
    task = next((each for each in argv[: -len(words)] if posixpath.basename(each) in _TASKS), None)
    if task is not None and not (is_interpreter(words) or is_shell(words)):
        return (Started(task, tuple(words), folder=folder),)
    rest = _from_program(words)
    if not rest:
        return ()
    carries = posixpath.basename(rest[0]) in _CARRIES
    if carries or (is_wrapper(argv) and rest == words and SCRIPT.search(rest[0]) is None):
        # The options of these launchers have values of their own: the script is what ends so.
        name, args = program_of(rest[carries:])
        module = "-m" in rest[: len(rest) - len(args)]
    else:
        name, args = rest[0], tuple(rest[1:])
        module = rest != words and MODULE_FLAG.fullmatch(words[-len(rest) - 1]) is not None
    if not name:
        return ()
    programs = [posixpath.basename(name)]
    if module:  # another start may name its file
        programs = [name, in_folder(folder, f"{name.replace('.', '/')}.py")]
    elif SCRIPT.search(name) or is_shell(words) or (rest == words and "/" in name):
        programs = [in_folder(folder, name)]
    return tuple(Started(each, args, folder=folder) for each in programs)


_IMPORTED: Final = re.compile(r"(?m)(?:^|;)\s*(?:import|from)\s+([A-Za-z_][\w.]*)")
_QUOTED: Final = re.compile(r"[\"']([^\"'\n]+\.py)[\"']")


def starts_in_code(argv: Sequence[str], folder: str) -> tuple[Started, ...]:
    """Return the scripts that an interpreter's code (``-c``) imports or names as files."""
    words = inner(argv)
    if not is_interpreter(words) or "-c" not in words[:-1]:
        return ()
    code = words[words.index("-c") + 1]
    names = [f"{name.replace('.', '/')}.py" for name in _IMPORTED.findall(code)]
    paths = dict.fromkeys(in_folder(folder, name) for name in (*names, *_QUOTED.findall(code)))
    return tuple(Started(path, folder=folder, untold=True) for path in paths)


def _from_program(words: list[str]) -> list[str]:
    """Return the words of a command from the program on that an interpreter or a shell runs."""
    if is_shell(words):
        at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), None)
    elif is_interpreter(words):
        name = program(words)
        names = enumerate(posixpath.basename(word) for word in words)
        at = next((at for at, word in names if at and word == name), None)
    else:
        at = 0
    return [] if at is None else words[at:]


def code_of(words: Sequence[str]) -> str | None:
    """Return the code that a shell was given in its arguments (``-c``, ``-lc``)."""
    rest = iter(words[1:] if is_shell(words) else ())
    for word in rest:
        if not word.startswith("-"):
            return None
        if word.endswith("c") and not word.startswith("--"):
            return next(rest, None)
        if word.endswith("o") and not word.startswith("--"):
            next(rest, None)  # ``-eo pipefail``
    return None


def own_starts(run: RunSpec, folders: Sequence[str], read: Read | None) -> tuple[Started, ...]:
    """Return how the run's job starts: by its commands, and by the scripts that these call."""
    found: list[Started] = []
    for words in commands_of(run):
        for folder in folders or ("",):
            found += starts_of(words, folder)
    scripts = 0
    for each in found:  # it grows: a script may call another one
        if read is None or scripts == MOST_SCRIPTS or not each.program.startswith("/"):
            continue
        text = read(each.program)
        if text:
            scripts += 1
            found += [call for call in commands_in(text, each.folder, "") if call not in found]
    return tuple(found) if read is None else with_links_followed(found)


def with_links_followed(starts: Sequence[Started]) -> tuple[Started, ...]:
    """Return the same and, where links lead to a script of this machine, the script itself."""
    real = {
        each.program: os.path.realpath(each.program) for each in starts if each.program[:1] == "/"
    }
    linked = (each for each in starts if real.get(each.program, each.program) != each.program)
    return (*starts, *(replace(each, program=real[each.program]) for each in linked))


def hides_its_training(each: Started) -> bool:
    """Tell of a start that it only calls what trains: a shell script or a makefile."""
    name = posixpath.basename(each.program)
    plain = each.program.startswith("/") and "." not in name
    return plain or name.endswith((".sh", ".bash")) or name in _TASKS


def read_script(path: str) -> str:
    """Return the text of a shell script of this machine, empty for another file. Blocking."""
    text = begin_of(path)
    shell = path.endswith((".sh", ".bash")) or (text.startswith("#!") and "sh" in text[:40])
    return text if shell and "\0" not in text else ""


def begin_of(path: str) -> str:
    """Return the begin of a file of this machine, empty where it cannot be read. Blocking."""
    try:
        info = os.stat(path)  # noqa: PTH116 - asked for each run at each look
        return _text(path, info.st_mtime_ns, info.st_size)
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _text(path: str, changed: int, size: int) -> str:
    with open_regular(path) as (handle, _):
        return os.read(handle, MOST_TEXT).decode("utf-8", "replace")


Spellings = Callable[[Place], tuple[str, ...]]
"""Returns the paths of a place on the machine looked at: as written, and with links followed."""


class RunMarks(NamedTuple):
    """What of a run its jobs are known by."""

    run: RunSpec
    tag: str
    roots: tuple[str, ...]
    """The output root as it is written, and what it is when links are followed."""
    outputs: tuple[str, ...]
    """Files and folders of the run that lie elsewhere: its log, its checkpoints."""
    locks: frozenset[str]
    wandb_id: str | None
    wandb_dir: str | None
    recorded: PidNote | None
    words: tuple[str, ...]
    """What a command line must hold somewhere to name the run at all: cheap to look for."""
    uid: int
    """Who looks: whose launches they are."""
    places: tuple[str, ...] = ()
    """How the path of whatever only its jobs write begins: cheap to look for, and not enough."""
    in_environment: tuple[bytes, ...] = ()
    """What an environment must hold somewhere to name the run's root or its W&B run."""
    logs: tuple[str, ...] = ()
    """The run's log, or the patterns of it."""
    logs_of_others: tuple[str, ...] = ()
    """The logs of the run file's other runs: what writes one of them is that run's."""
    commands: tuple[tuple[str, ...], ...] = ()
    """The words of the commands that are recorded for it."""
    scripts: frozenset[str] = frozenset()
    """What those commands run, by name; empty where nothing is recorded to compare with."""
    workdirs: tuple[str, ...] = ()
    """Where they are run."""
    starts: tuple[Started, ...] = ()
    """What those commands start there, and what the scripts call that they start."""
    opaque: bool = False
    """All of ``starts`` only call something else: what the job runs in the end is not known."""
    here: bool = True
    """Whether all this is of this machine: of another one only names tell what a path is."""


def marks_of(run: RunSpec, uid: int, spellings: Spellings, read: Read | None = None) -> RunMarks:
    """Return what a run's jobs are known by on its machine, for this user there.

    ``read`` returns the text of a script; without it what a script calls is not known.
    """
    job, wandb = run.job, run.wandb
    log = None if job is None else job.log
    workdir = (None if job is None else job.workdir) or run.workdir
    folders = _spelled(spellings, None if wandb is None else wandb.dir)
    marks = marked(
        run,
        None,
        _spelled(spellings, run.output_root),
        _spelled(spellings, *outputs_of(run)),
        folders[-1] if folders else None,
        uid,
    )
    return started_in(marks, _spelled(spellings, workdir), read)._replace(
        logs=_spelled(spellings, log),
        logs_of_others=_spelled(spellings, *map(place_of, run.logs_of_others)),
    )


def _spelled(spellings: Spellings, *places: Place | None) -> tuple[str, ...]:
    return tuple(path for place in places if place is not None for path in spellings(place))


def locks_of(run: RunSpec) -> frozenset[str]:
    """Return the names of the lineage's locks, whatever folder they lie in."""
    keys = (hashlib.sha256(key.encode()).hexdigest()[:24] for key in keys_of(run))
    return frozenset(f"{key}.lock" for key in keys)


def outputs_of(run: RunSpec) -> list[Place]:
    """Return the places that only a job of the run writes to, beside its output root."""
    log = run.job.log if run.job is not None else None
    plain = [log] if log is not None and "*" not in log.path else []
    return [*plain, *(run.checkpoints.path if run.checkpoints is not None else ())]


def started_in(marks: RunMarks, folders: tuple[str, ...], read: Read | None = None) -> RunMarks:
    """Return the same with what the run's commands start where they are run.

    ``read`` returns the text of a script; without it what a script calls is not known.
    """
    starts = own_starts(marks.run, folders, read)
    opaque = bool(starts) and all(map(hides_its_training, starts))
    called = {posixpath.basename(each.program) for each in starts}
    return marks._replace(
        workdirs=folders,
        starts=starts,
        opaque=opaque,
        scripts=marks.scripts | {name for name in called if marks.scripts and SCRIPT.search(name)},
        words=tuple(dict.fromkeys((*marks.words, *sorted(called), *(folders if opaque else ())))),
    )


def marked(
    run: RunSpec,
    recorded: PidNote | None,
    roots: tuple[str, ...],
    outputs: tuple[str, ...],
    wandb_dir: str | None,
    uid: int,
) -> RunMarks:
    """Return what a run's jobs are known by where its root and its outputs are these paths."""
    wandb_id = None if run.wandb is None else run.wandb.id
    commands = commands_of(run)
    scripts = scripts_of(commands)
    return RunMarks(
        run=run,
        tag=tag_of(run),
        roots=roots,
        outputs=outputs,
        locks=locks_of(run),
        wandb_id=wandb_id,
        wandb_dir=wandb_dir,
        recorded=recorded,
        words=tuple(
            filter(None, (*map(posixpath.basename, roots), wandb_id, run.name, *sorted(scripts)))
        ),
        commands=commands,
        scripts=scripts,
        uid=uid,
        places=tuple(filter(None, (*roots, *outputs, wandb_dir))),
        in_environment=tuple(os.fsencode(each) for each in (*roots, wandb_id) if each),
    )


TRIED: Final = ".cockpit-try-"
"""How the name of a file begins that a cockpit makes to see whether a folder takes one."""
_STEP: Final = re.compile(
    r"(?:^|[-_.=])(?:step|steps|iter|iteration|checkpoint|ckpt|epoch|global_step|save|model)"
    r"[-_=]?\d+(?!\d)|^\d+$",
    re.IGNORECASE,
)
"""A part of a path that is named after a step."""
_WEIGHTS: Final = re.compile(
    r"\.(?:pt|pth|ckpt|safetensors|bin|distcp|msgpack|orbax|nemo|params)(?:$|[._-])", re.IGNORECASE
)
_NO_WEIGHTS: Final = re.compile(
    r"\.(?:log|txt|out|err|json|jsonl|csv|tsv|md|html?|png|jpe?g|svg|pdf|ya?ml|toml|ipynb|py|sh"
    r"|db|sqlite\d?|parquet)$",
    re.IGNORECASE,
)
_EDITED: Final = re.compile(r"^\..*\.sw[a-p]$|^\.#|~$|\.ipynb$|\.kate-swp$|\.sqlite-(?:wal|shm)$")
"""Files of editors and notebooks: whoever has one open edits."""
_STORE: Final = re.compile(r"/cockpit/store(?:-[^/]+)?\.sqlite(?:-wal|-shm)?$")


LOG_NAME: Final = re.compile(r"\.(?:log|out|err|txt)(?:\.\d+)?$")


class Kind(IntEnum):
    """What a file is to the run, the strongest evidence last."""

    OWN = 1
    SAVE = 2
    LOG = 3
    TRACKER = 4
    LOCK = 5

    @property
    def proves(self) -> bool:
        """True where only a job of the run writes it."""
        return self is not Kind.OWN


class Written(NamedTuple):
    """A file of the run that a process has open for writing, or has locked."""

    kind: Kind
    path: str


def kind_of(watched: RunMarks, path: str) -> Kind | None:
    """Return what a file that is written is to the run; ``None``: nothing of it."""
    fragment = f"/run-{watched.wandb_id}.wandb"
    folders = () if watched.wandb_id is None else (watched.wandb_dir, *watched.roots)
    if path.endswith(fragment) and any(below(each, path) for each in folders):
        return Kind.TRACKER
    if any(path == log or fnmatch.fnmatchcase(path, log) for log in watched.logs):
        return Kind.LOG
    places = (*watched.roots, *watched.outputs)
    rest = [path[len(each) :].strip("/") for each in places if below(each, path)]
    if not rest or any(_is_ours(each) for each in rest):
        return None
    shortest = min(rest, key=len)
    if _EDITED.search(posixpath.basename(path)):
        return None
    return Kind.SAVE if _is_save(shortest or posixpath.basename(path)) else Kind.OWN


def _is_ours(rest: str) -> bool:
    """Tell whether a file is one of the cockpit's own notes; the lock that jobs hold is not."""
    parts = rest.split("/")
    return parts[0] == ".cockpit" or any(part.startswith(TRIED) for part in parts)


def _is_save(rest: str) -> bool:
    """Tell whether a path below the run's places is a part of a checkpoint, by its names."""
    name = posixpath.basename(rest)
    if _NO_WEIGHTS.search(name):
        return False
    return any(_STEP.search(part) for part in rest.split("/")) or bool(_WEIGHTS.search(name))


def is_store(path: str) -> bool:
    """Tell whether a file is a cockpit's store: whoever has it open is a cockpit."""
    return _STORE.search(path) is not None
