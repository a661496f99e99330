"""What jobs of Slurm were started with, so that one can be compared with a run's own job."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, commands_in, in_folder, recorded_commands
from cockpit.platforms.slurm.command import options_of, sbatch_at, script_words
from cockpit.platforms.slurm.record import Record

MOST_NEEDLES: Final = 20_000
"""Characters of what is looked for in the jobs of other users: it travels with the question."""
_EXPORTED: Final = re.compile(r"--export[= ](\S+)")
_SPECIAL: Final = re.compile(r"[][.*+?(){}|$/]")


def started(record: Record) -> Started:
    """Return what Slurm tells of a job's start; an array's tasks have the same."""
    program, *args = record.script.split() or [""]
    exported = (match[1].split(",") for match in _EXPORTED.finditer(record.command))
    pairs = (each.partition("=") for words in exported for each in words)
    return Started(
        program=in_folder(record.workdir, program),
        args=tuple(args),
        name=record.name,
        folder=record.workdir,
        labels=record.comment,
        variables={name: value for name, sign, value in pairs if sign},
    )


def inside(record: Record, scripts: Mapping[str, str]) -> list[Started]:
    """Return what a job's batch script calls, where that was read."""
    text = scripts.get(record.base, "")
    return commands_in(text, record.workdir, record.comment) if text else []


def own_starts(
    run: RunSpec, records: Sequence[Record], scripts: Mapping[str, str]
) -> list[Started]:
    """Return how the run's job starts: by the run file's commands, and as its records tell.

    ``scripts`` are batch scripts by the number of their job, and files by their path.
    """
    top = [*map(started, records), *_recorded(run)]
    called = [each for record in records for each in inside(record, scripts)]
    for each in top:
        if text := scripts.get(each.program, ""):
            called += commands_in(text, each.folder, each.labels)
    return [*top, *called]


def programs_of(runs: Iterable[RunSpec], records: Iterable[Record]) -> list[str]:
    """Return the scripts of these runs, by their whole paths."""
    starts = [*map(started, records), *(each for run in runs for each in _recorded(run))]
    return list(dict.fromkeys(each.program for each in starts if each.program.startswith("/")))


def _recorded(run: RunSpec) -> Iterator[Started]:
    place = (None if run.job is None else run.job.workdir) or run.workdir
    for words in recorded_commands(run):
        at = sbatch_at(words)
        if at is None:
            continue
        told = {option.name: option.value or "" for option in options_of(words, at)}
        folder = told.get("chdir") or told.get("D") or ("" if place is None else place.path)
        name = told.get("job-name") or told.get("J") or ""
        program, *args = script_words(words) or [""]
        flat = tuple(part for word in args for part in word.split())
        # sbatch resolves the script where it is called, and not where the job works
        called = "" if place is None else place.path
        yield Started(in_folder(called, program), flat, name, folder)


def needles_of(runs: Iterable[RunSpec], records: Iterable[Record] = ()) -> str:
    """Return an expression for awk: what of these runs another user's job may name.

    That is their scripts, their work folders, their output roots and their launch ids. Of very
    many runs the first ones count.
    """
    found: dict[str, None] = {}
    for run in runs:
        starts = list(_recorded(run))
        found |= dict.fromkeys(
            f"Command={_escaped(each.program)}" for each in starts if each.program
        )
        found |= dict.fromkeys(f"Comment=[^ ]*{_escaped(run.name)}-i[0-9]" for _ in (1,))
        if run.output_root is not None:
            root = run.output_root.normal().seen_from(run.job)
            if posixpath.dirname(root) not in ("", "/"):
                found[_escaped(root)] = None
    for record in records:
        if record.script:
            found[f"Command={_escaped(in_folder(record.workdir, record.script.split()[0]))}"] = None
        if record.workdir.count("/") > 1:
            found[f"WorkDir={_escaped(record.workdir)}"] = None
    expression = ""
    for each in found:
        if len(expression) + len(each) > MOST_NEEDLES:
            break
        expression += f"|{each}" if expression else each
    return expression


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("^", "\\^")
    return _SPECIAL.sub(lambda match: f"[{match[0]}]" if match[0] != "]" else "[]]", plain)
