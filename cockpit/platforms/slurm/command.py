"""The words of a submit: sbatch's options in them, and what two submits have in common."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.model import check_rows as rows
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, commands_in, in_folder, recorded_commands
from cockpit.platforms.base import CannotError
from cockpit.platforms.slurm.record import Record
from cockpit.runtime.ssh import quote
from cockpit.text.checks import blocked, passed, warned

OWN: Final = ("-H", "--parsable")
_BEFORE: Final = frozenset(("env", "exec", "command", "nohup"))
"""Words that may stand before sbatch and leave its arguments alone, beside ``NAME=value``."""
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SHELLS: Final = ("sh", "bash", "zsh", "dash", "ksh")
_ELSEWHERE: Final = ("ssh", "srun", "salloc", "sudo", "su", "env", "docker", "setsid")
"""Programs whose sbatch would not have the environment that it is given."""
_FLAGS: Final = (
    *("contiguous", "exclusive", "get-user-env", "help", "hold", "ignore-pbs", "nice", "no-kill"),
    *("no-requeue", "overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot"),
    *("requeue", "spread-job", "share", "test-only", "usage", "use-min-nodes", "verbose"),
    *("version", "wait"),
)
"""Long options that take no word after them; every other one does, unless it has its ``=``."""
_SHORT_FLAGS: Final = "hHIkKOQsvVWuX"
_UNDOING: Final = {
    "comment": "its own comment would take the place of the launch id",
    "hold": "it is submitted held and let go by the cockpit, which would undo this one",
    "wait": "sbatch would not return before the job has ended",
    "test-only": "it submits nothing",
    "clusters": "jobs of another cluster are not seen here: name its login node as job.host",
    "help": "it submits nothing",
    "usage": "it submits nothing",
    "version": "it submits nothing",
}
_SHORT: Final = {
    "H": "hold", "W": "wait", "M": "clusters", "h": "help", "V": "version",
}  # fmt: skip
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_NOTHING: Final = ("NONE", "NIL")


class Option(NamedTuple):
    """An option of sbatch: its whole name, its value if it has one, and where its word stands."""

    name: str
    value: str | None
    at: int


def sbatch_at(words: Sequence[str]) -> int | None:
    """Return where sbatch stands, ``None`` for a wrapper: a program that calls it itself."""
    for at, word in enumerate(words):
        if PurePosixPath(word).name == "sbatch":
            return at
        if PurePosixPath(word).name not in _BEFORE and not _ASSIGNED.fullmatch(word):
            return None
    return None


def held_words(words: Sequence[str], launch_id: str) -> tuple[str, ...]:
    """Return the words with the hold and the launch id behind sbatch; of a wrapper as they are."""
    at = sbatch_at(words)
    if at is None:
        return tuple(words)
    return (*words[: at + 1], *OWN, f"--comment={launch_id}", *words[at + 1 :])


def plain_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words without a hold, a comment and ``--parsable``, whoever has added them."""
    at, left = sbatch_at(words), list(words)
    for option in reversed([] if at is None else [*options_of(words, at)]):
        if option.name in ("comment", "parsable") or words[option.at] in ("-H", "--hold"):
            apart = option.value is not None and words[option.at] == f"--{option.name}"
            del left[option.at : option.at + 1 + apart]
    return tuple(left)


def options_of(words: Sequence[str], at: int) -> Generator[Option, None, int]:
    """Yield the options of the sbatch that stands at ``at``, as it reads them.

    Returns where its script stands.
    """
    place = at + 1
    while place < len(words):
        word = words[place]
        if not word.startswith("-") or word in ("-", "--"):
            return place + (word == "--")
        taken = yield from _read(words, place)
        place += 1 + taken
    return place


def script_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the batch script and its arguments; none of a wrapper, or where none is named."""
    at = sbatch_at(words)
    options = iter(()) if at is None else options_of(words, at)
    while True:
        try:
            next(options)
        except StopIteration as end:
            return tuple(words[end.value :]) if at is not None else ()


def _read(words: Sequence[str], place: int) -> Generator[Option, None, int]:
    """Yield what one word says; returns how many words after it are its value."""
    word = words[place]
    after = words[place + 1] if place + 1 < len(words) else None
    if word.startswith("--"):
        name, sign, value = word[2:].partition("=")
        alone = bool(sign) or _is_flag(name)
        yield Option(_full_option(name), value if sign else None if alone else after, place)
        return int(not alone)
    for index, letter in enumerate(word[1:], 1):
        if letter in _SHORT_FLAGS:
            yield Option(_SHORT.get(letter, letter), None, place)
            continue
        rest = word[index + 1 :]
        yield Option(_SHORT.get(letter, letter), rest or after, place)
        return int(not rest)
    return 0


def _is_flag(name: str) -> bool:
    return name in _FLAGS or any(len(name) > 2 and each.startswith(name) for each in _FLAGS)


def _full_option(name: str) -> str:
    """Return the option that a name cut short stands for, where it is one of those that matter."""
    known = (*_UNDOING, "export")
    if name in known or len(name) < 2 or name == "export-file":
        return name
    return next((each for each in known if each.startswith(name)), name)


def command_checks(words: Sequence[str]) -> list[Check]:
    """Return what speaks for and against the recorded words (placeholders unfilled)."""
    at = sbatch_at(words)
    if at is None:
        return [_of_wrapper(words)]
    found = [
        blocked(rows.SBATCH, f"{words[each.at]}: {_UNDOING[each.name]}; take it out")
        for each in options_of(words, at)
        if each.name in _UNDOING
    ]
    text = "submitted held and known by its launch id; let go once that was read back"
    return found or [passed(rows.SBATCH, text)]


def _of_wrapper(words: Sequence[str]) -> Check:
    name = PurePosixPath(words[0]).name
    runs_a_script = len(words) > 1 and not words[1].startswith("-")
    if name in _ELSEWHERE or (name in _SHELLS and not runs_a_script):
        text = f"{name} does not say how it submits: name sbatch, or a script that calls it"
        return blocked(rows.SBATCH, f"{text} (job.host is where that is run)")
    text = f"{name} calls sbatch itself: it finds one that holds its job, once; any other call of"
    return warned(rows.SBATCH, f"{text} sbatch is refused. It must not start anything else")


def with_names(words: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the words with more variables for the job, as their own ``--export`` allows.

    Without one sbatch hands on all of its environment. Raises ``CannotError`` for words that
    hand on nothing.
    """
    at, found = sbatch_at(words), list(words)
    if not names or at is None:
        return tuple(found)
    told = [each for each in options_of(words, at) if each.name == "export" and each.value]
    if not told or told[-1].value is None or told[-1].value.split(",")[0] == "ALL":
        return tuple(found)
    last = told[-1]
    assert last.value is not None
    if last.value in _NOTHING:
        text = f"--export={last.value} keeps {', '.join(names)} from the job: name them there"
        raise CannotError(text)
    value = ",".join((last.value, *names))
    if "=" in found[last.at]:
        found[last.at] = f"{found[last.at].partition('=')[0]}={value}"
    else:
        found[last.at + 1] = value
    return tuple(found)


def names_export(words: Sequence[str]) -> bool:
    """Tell whether the words say themselves what the job's environment is."""
    at = sbatch_at(words)
    return at is not None and any(each.name == "export" for each in options_of(words, at))


def variables_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the variables that the words name: they resolve where the command is run."""
    found = (match[1] or match[2] for word in words for match in _VARIABLE.finditer(word))
    return tuple(dict.fromkeys(found))


def for_shell(words: Sequence[str]) -> str:
    """Return the words for ``sh``: each is one word there, with its variables filled in."""
    return " ".join(_one(word, first=index == 0) for index, word in enumerate(words))


def _one(word: str, *, first: bool) -> str:
    home = first and word.startswith("~/")
    parts, end = (['"$HOME"'], 1) if home else ([], 0)
    for match in _VARIABLE.finditer(word):
        parts += [quote(word[end : match.start()])] if match.start() > end else []
        parts.append(f'"${{{match[1] or match[2]}}}"')
        end = match.end()
    parts += [quote(word[end:])] if end < len(word) or not parts else []
    return "".join(parts)


MOST_NEEDLES: Final = 20_000
"""Characters of what is looked for in the jobs of other users: it travels with the question."""
_EXPORTED: Final = re.compile(r"--export[= ](\S+)")
"""Such as ``--export=ALL,LR=1``."""
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


_SIGNAL: Final = re.compile(
    r"(?:^|\s)--signal[= ](?:[RB]+:)?(?:SIG)?([A-Z][A-Z0-9]+|\d{1,2})(?:@(\d{1,6}))?(?=\s|$)", re.I
)
"""Such as ``--signal=B:USR1@120``: to the batch shell, 120 s before the time limit."""
SIGNAL_BEFORE: Final = 60.0
"""Seconds before the limit where ``--signal`` names none."""


def signal_of(run: RunSpec, record: Record, scripts: Mapping[str, str]) -> tuple[str, float] | None:
    """Return which signal a job asked for before its time limit, and how many seconds before.

    What the command line says beats what the script says, as for sbatch.
    """
    script = scripts.get(record.base) or scripts.get(record.script, "")
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    for text in (record.command, *(" ".join(words) for words in recorded_commands(run)), *lines):
        found = _SIGNAL.search(text)
        if found is not None:
            return found[1].upper(), float(found[2] or SIGNAL_BEFORE)
    return None


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
        found[f"Comment=[^ ]*{_escaped(run.name)}-i[0-9]"] = None
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
