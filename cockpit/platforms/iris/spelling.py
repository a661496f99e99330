"""The words of an Iris command, what they must say, and the id of the job that they make. Pure."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model import check_rows as rows
from cockpit.model.base import Command
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, CommandError
from cockpit.platforms.command import places_in, words_of
from cockpit.platforms.iris.trees import is_job_id, user_of
from cockpit.runtime.account import login_name
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.safe import clean

JOB_NAME: Final = "--job-name"
USER: Final = "--user"
VARIABLE: Final = ("-e", "--env-vars")
LAUNCH_ID: Final = "{launch_id}"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_ID: Final = re.compile(r"/[^/\s]+(?:/[^/\s]+)+")
_SUBMITTED: Final = re.compile(r"Job submitted: (/\S+)")
"""Such as ``Job submitted: /ada/toy-i003``."""


class Parts(NamedTuple):
    """A command's words: up to and with ``job run``, the options of it, and the job's own words.

    ``begin`` is empty where the words do not call Iris themselves.
    """

    begin: tuple[str, ...]
    options: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def calls_iris(self) -> bool:
        """True if options can be added to it."""
        return bool(self.begin)

    def values(self, option: str) -> list[str]:
        """Return every value that an option is given; the last one counts."""
        named = [(place, word.partition("=")) for place, word in enumerate(self.options)]
        return [
            value if sign else "".join(self.options[place + 1 : place + 2])
            for place, (name, sign, value) in named
            if name == option
        ]

    def value(self, option: str) -> str | None:
        """Return the value that counts; ``None`` without the option."""
        return next(reversed(self.values(option)), None)

    def has(self, option: str) -> bool:
        """Tell whether an option is among the words."""
        return bool(self.values(option))


class Spelled(NamedTuple):
    """The id that a launch's job has, and what it is known by; ``own``: no other launch has it.

    ``certain`` is False where a script names the job: it may do so in its own way.
    """

    job_id: str
    own: bool
    certain: bool

    @property
    def name(self) -> str:
        """The job's name: the last part of its id."""
        return self.job_id.rpartition("/")[2]


def parts_of(words: Sequence[str]) -> Parts:
    """Return a command's words, apart."""
    at = next((i for i in range(len(words) - 1) if tuple(words[i : i + 2]) == ("job", "run")), None)
    if at is None:
        return Parts((), tuple(words), ())
    own = tuple(words[at + 2 :])
    end = own.index("--") if "--" in own else len(own)
    return Parts(tuple(words[: at + 2]), own[:end], own[end:])


def name_for(launch_id: str) -> str:
    """Return a launch id as the name of a job; raises ``CannotError`` if it cannot be one."""
    if _NAME.fullmatch(launch_id):
        return launch_id
    text = f"{clean(launch_id, 80)} cannot name an Iris job: letters, digits, . _ - are meant"
    raise CannotError(text)


def formed(words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
    """Return the filled words with what they leave to the client: the job's name, whose it is.

    Raises ``CommandError`` for words that do not name the job.
    """
    parts = parts_of(words)
    if not parts.calls_iris:
        return tuple(words)
    added: list[str] = []
    for option, value in ((JOB_NAME, launch_id), (USER, user_for(run, words))):
        told = parts.value(option)
        if told is None:
            added += [option, value]
        elif not _NAME.fullmatch(told):
            text = f"resubmit says {option} {clean(told, 80) or '(nothing)'}: expected a plain name"
            raise CommandError(text)
    return (*parts.begin, *added, *parts.options, *parts.rest)


def with_variables(words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with variables for the job: Iris carries no environment along.

    They stand last among the options, where they win. Raises ``CannotError`` where they cannot.
    """
    parts = parts_of(words)
    if not parts.calls_iris:
        return tuple(words)
    added = [word for name, value in variables.items() for word in ("-e", name, value)]
    if parts.rest:
        return (*parts.begin, *parts.options, *added, *parts.rest)
    for place, word in enumerate(parts.options[:-1]):
        if word in VARIABLE and parts.options[place + 1] in variables:
            text = f"the command sets {parts.options[place + 1]} itself, and no -- ends its options"
            raise CannotError(text)
    return (*parts.begin, *added, *parts.options)


def user_for(run: RunSpec, words: Sequence[str] = ()) -> str:
    """Return whose a job is: as the words say, else the recorded job's, else who acts here."""
    told = parts_of(words).value(USER)
    if told is not None:
        return told
    job_id = (run.job.id if run.job is not None else None) or ""
    if is_job_id(job_id):
        return user_of(job_id)
    try:
        return os.environ.get("IRIS_USER") or getpass.getuser()
    except (OSError, KeyError, ImportError):
        return login_name()


def spelled(run: RunSpec, launch_id: str, words: Sequence[str]) -> Spelled:
    """Return the id of the job that words make, filled or not."""
    parts = parts_of(words)
    told = parts.value(JOB_NAME)
    own = told is None or launch_id in told or "launch_id" in places_in([told])
    name = launch_id if told is None else told.replace(LAUNCH_ID, launch_id)
    return Spelled(f"/{user_for(run, words)}/{name}", own, parts.calls_iris)


def spellings(run: RunSpec, launch_id: str) -> tuple[Spelled, ...]:
    """Return what the job of a launch id may be called, by the run file's commands."""
    commands = map(_command_words, (run.resubmit, run.launch))
    found = [spelled(run, launch_id, words) for words in commands if words]
    plain = Spelled(f"/{user_for(run)}/{launch_id}", own=True, certain=False)
    return tuple(dict.fromkeys(found)) or (plain,)


def _command_words(command: Command | None) -> tuple[str, ...]:
    try:
        return () if command is None else words_of(command)
    except CommandError:
        return ()


def submitted_id(out: str, err: str, meant: Spelled) -> str | None:
    """Return the id of the job that a command says it has submitted, ``None`` if it says none.

    The bare id on standard output, else the line of the log; of several the one that is meant.
    """
    bare = [line.strip() for line in out.splitlines() if _ID.fullmatch(line.strip())]
    told = _SUBMITTED.findall(err)
    found = [each for each in (*bare, *told) if each.count("/") == 2]
    if meant.job_id in found:
        return meant.job_id
    named = [each for each in found if each.endswith(f"/{meant.name}")]
    return named[-1] if named else None


def failure_text(err: str, out: str) -> str:
    """Return what a command says of its failure: click's own line, else its last one."""
    lines = [line.strip() for line in (err.strip() or out.strip()).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("Error: ")]
    return own[-1] if own else (lines[-1] if lines else "")


def is_usage(rc: int, err: str) -> bool:
    """Tell whether a command was refused for its words alone: it has asked nobody."""
    return rc == 2 and any(line.startswith("Usage: ") for line in err.splitlines())


def command_checks(run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return what speaks against an Iris command (IRIS, SPEC A-2).

    ``words`` are the recorded ones: a job name that holds a placeholder is no fixed one.
    """
    parts = parts_of(words)
    if not parts.calls_iris:
        return _script(words)
    return [*_blocks(run, parts), *_job_name(parts), *_lost(parts), *_user(run, parts)]


def _script(words: Sequence[str]) -> list[Check]:
    """Return what is said of a script that calls Iris in its own way."""
    if "launch_id" in places_in(words):
        text = "the words do not call iris … job run: what they call must name the job {launch_id}"
        return [warned(rows.IRIS_JOB_NAME, text)]
    text = "the words neither call iris … job run nor hold {launch_id}: whether a lost answer"
    text += " had started a job could never be told"
    return [blocked(rows.IRIS_JOB_NAME, text)]


def _blocks(run: RunSpec, parts: Parts) -> list[Check]:
    found = []
    if not parts.has("--no-wait"):
        found.append(finding(rows.IRIS_NO_WAIT, "without --no-wait the command never returns"))
    name = (run.hardware or "").lower()
    is_tpu = "tpu" in name or (name[:1] == "v" and name[1:2].isdigit())
    if (parts.has("--reserve") or is_tpu) and not parts.has("--tpu"):
        text = "a TPU run needs --tpu: --reserve holds capacity but attaches no devices"
        found.append(finding(rows.IRIS_TPU, text))
    if "marin-core:cpu" in parts.values("--extra"):
        text = "--extra marin-core:cpu replaces the accelerator's libraries: leave it out"
        found.append(finding(rows.IRIS_EXTRA, text))
    return found


def _job_name(parts: Parts) -> list[Check]:
    name = parts.value(JOB_NAME)
    if name is None:
        text = f"{JOB_NAME} {{launch_id}} is added: each launch has a job name of its own"
        return [passed(rows.IRIS_JOB_NAME, text)]
    if "launch_id" in places_in([name]):
        return [passed(rows.IRIS_JOB_NAME, "each launch has a job name of its own")]
    text = f"the job name {name} is fixed: Iris replaces the finished job of that name, and a lost"
    text += " answer takes a minute to settle; {launch_id} in it avoids both"
    return [warned(rows.IRIS_JOB_NAME, text, value=name)]


def _lost(parts: Parts) -> list[Check]:
    """Say beforehand what a look-up may leave on the controller."""
    name = parts.value(JOB_NAME)
    if name is not None and "launch_id" not in places_in([name]):
        return []
    text = (
        "should its answer be lost, its name is closed by a job of yours that waits for a day and"
    )
    text += " never runs, nor wants an accelerator; where Iris' own workers do not place all tasks"
    return [finding(rows.IRIS_LOST, f"{text}, it takes a minute of answers instead")]


def _user(run: RunSpec, parts: Parts) -> list[Check]:
    told, recorded = parts.value(USER), user_for(run)
    if told is None or run.job is None or not run.job.id or told == recorded:
        return []
    text = f"{USER} {told} makes the job another user's than the recorded {run.job.id}: its"
    return [finding(rows.IRIS_USER, f"{text} lineage would not be seen together")]
