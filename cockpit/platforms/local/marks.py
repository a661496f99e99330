"""What a run's jobs are known by on a machine: its paths, its locks, its W&B run. Blocking."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cockpit.model.lineage import keys_of, local_root, tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started
from cockpit.platforms.local.commanded import SCRIPT, commands_of, scripts_of
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.starts import Read, hides_its_training, own_starts, read_script

Real = Callable[[str], str]
"""Follows the links of a path."""


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


def marks_of(run: RunSpec, recorded: PidNote | None, real: Real = os.path.realpath) -> RunMarks:
    """Return what a run's jobs are known by on this machine; ``real`` follows links."""
    wandb, root = run.wandb, local_root(run)
    folder = None if wandb is None or not wandb.dir else _with_real(wandb.dir.path, real)[-1]
    roots = () if root is None else _with_real(root, real)
    job = run.job
    log = None if job is None or job.log is None or not job.log.here else job.log.path
    workdir = (None if job is None else job.workdir) or run.workdir
    marks = marked(run, recorded, roots, tuple(_outputs(run, real)), folder, os.getuid())
    folders = () if workdir is None or not workdir.here else _with_real(workdir.path, real)
    return started_in(marks, folders, read_script)._replace(
        logs=() if log is None else _with_real(log, real),
        logs_of_others=tuple(
            path for other in run.logs_of_others for path in _with_real(other, real)
        ),
    )


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
    keys = (hashlib.sha256(key.encode()).hexdigest()[:24] for key in keys_of(run))
    return RunMarks(
        run=run,
        tag=tag_of(run),
        roots=roots,
        outputs=outputs,
        locks=frozenset(f"{key}.lock" for key in keys),
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


def _with_real(path: str, real: Real) -> tuple[str, ...]:
    plain = posixpath.normpath(path)
    return tuple(dict.fromkeys((plain, real(plain))))


def _outputs(run: RunSpec, real: Real) -> Iterator[str]:
    """Yield the paths of this machine that only a job of the run writes to."""
    job, checkpoints = run.job, run.checkpoints
    if job is not None and job.log is not None and job.log.here and "*" not in job.log.path:
        yield from _with_real(job.log.path, real)
    for place in checkpoints.path if checkpoints is not None else ():
        if place.here:
            yield from _with_real(place.path, real)
