"""A new run file: what it would say, setting by setting, its text, and its writing.

Each setting has the source that it was read from. Nothing is guessed silently: two sources that
disagree are a question, and so is what no source says; a person answers, or names the setting on
the command line. The file is checked as any other, and written where nothing stands.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.config.build import build
from cockpit.model.base import listed
from cockpit.model.run import CockpitFile
from cockpit.platforms.kinds import PLATFORMS
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

Key = tuple[str, ...]
"""Where a setting stands below ``[[run]]``: ``("job", "id")``, ``("name",)``."""
Value = str | int | float | bool | list[str] | list[int]


class Clue(NamedTuple):
    """One setting as one source tells it."""

    key: Key
    value: Value
    source: str


class Question(NamedTuple):
    """A setting that a person must decide; ``choices`` are what sources say or suggest.

    One that is not ``needed`` may stay open: it is then a comment in the file.
    """

    key: Key
    text: str
    choices: tuple[Clue, ...] = ()
    needed: bool = False


DISAGREE: Final = "the sources disagree"
"""Why a setting is asked for that several sources tell: its choices are what they say."""
ASKED: Final[tuple[tuple[Key, str], ...]] = (
    (("dri",), "who is responsible for the run (a name)"),
    (("output_root",), "the one folder or bucket path that the run writes; a relaunch needs it"),
    (("resubmit",), "the command that starts the job again; a relaunch needs it"),
    (("final_step",), "the exact last step, from the training config"),
    (("checkpoints", "path"), "where checkpoints are saved (a path, ssh://, gs://, s3://)"),
    (("wandb", "url"), "the address of the W&B run, or leave it and set wandb.dir"),
)
"""What is asked for when no source tells it, and may stay open."""
INSTEAD: Final[dict[Key, tuple[Key, ...]]] = {
    ("job", "controller_url"): (("job", "cluster"),),
    ("job", "session"): (("job", "match"), ("job", "pid_file")),
    ("job", "pid_file"): (("job", "match"), ("job", "done_marker"), ("job", "exit_file")),
    ("wandb", "url"): (("wandb", "id"), ("wandb", "dir"), ("mlflow", "uri"), ("finelog", "run")),
    ("final_step",): (("final_step_from",),),
}
"""Settings that do the same: with one of them, the other is not asked for."""


class Proposal:
    """The clues so far. A setting that a person has decided beats whatever sources say."""

    def __init__(self, clues: Iterable[Clue] = ()) -> None:
        self._told: dict[Key, list[Clue]] = {}
        self._decided: dict[Key, Clue] = {}
        self._suggested: dict[Key, list[Clue]] = {}
        for clue in clues:
            self.add(clue)

    def add(self, clue: Clue) -> None:
        """Take a source's word; the same word of a second source changes nothing."""
        told = self._told.setdefault(clue.key, [])
        if all(other.value != clue.value for other in told):
            told.append(clue)

    def suggest(self, clue: Clue) -> None:
        """Take what might be meant: it is shown beside the question, and never an answer."""
        told = self._suggested.setdefault(clue.key, [])
        if all(other.value != clue.value for other in told):
            told.append(clue)

    def decide(self, key: Key, value: Value, source: str) -> None:
        """Take a person's word."""
        self._decided[key] = Clue(key, value, source)

    @property
    def settled(self) -> tuple[Clue, ...]:
        """Every setting that is clear: decided, or told by all sources alike."""
        clear = {key: told[0] for key, told in self._told.items() if len(told) == 1}
        return tuple((clear | self._decided).values())

    def value(self, *key: str) -> Value | None:
        """Return a clear setting, ``None`` while it is not."""
        return next((clue.value for clue in self.settled if clue.key == key), None)

    def questions(self) -> tuple[Question, ...]:
        """Return what is still to be decided, what is needed first."""
        split = tuple(
            Question(key, DISAGREE, tuple(told), needed=True)
            for key, told in self._told.items()
            if len(told) > 1 and key not in self._decided
        )
        asked = {question.key for question in split}
        needed = tuple(each for each in self._needed() if each.key not in asked)
        row = PLATFORMS.get(str(self.value("job", "kind")))
        asked_for = (*ASKED, *(row.beside if row is not None else ()))
        open_ = tuple(
            Question(key, text)
            for key, text in asked_for
            if not self._has(key) and key not in asked
        )
        return (*split, *map(self._with_choices, (*needed, *open_)))

    def _with_choices(self, question: Question) -> Question:
        return question._replace(choices=tuple(self._suggested.get(question.key, ())))

    def _needed(self) -> Iterable[Question]:
        if not self._has(("name",)):
            yield Question(("name",), "the run's name: what a person types to confirm", needed=True)
        kind = self.value("job", "kind")
        if kind is None and not self._seen_otherwise():
            text = f"the kind of job: {', '.join(PLATFORMS)}"
            yield Question(("job", "kind"), text, needed=True)
        row = PLATFORMS.get(str(kind))
        for name, text in row.needed if row is not None else ():
            if not self._has(("job", name)):
                yield Question(("job", name), text, needed=True)

    def _has(self, key: Key) -> bool:
        keys = (key, *INSTEAD.get(key, ()))
        return any(each in self._decided or self._told.get(each) for each in keys)

    def _seen_otherwise(self) -> bool:
        """Tell whether a run without a job could be seen all the same."""
        return any(self.value("wandb", name) is not None for name in ("url", "id", "dir"))


HEAD: Final = (
    "# Written by `cockpit init`; every line says where it was read. Correct what is wrong:",
    "# the cockpit reads this file again when it changes, and never writes to it.",
)
TABLES: Final = ("", *listed("job wandb mlflow finelog checkpoints monitor records code"))
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
FIRST: Final = ("name", "kind", "id")


def run_block(settled: Iterable[Clue], left: Sequence[Question] = ()) -> str:
    """Return one ``[[run]]`` with its tables; what was left open stands as comments."""
    by_table: dict[str, list[Clue]] = {table: [] for table in TABLES}
    for clue in settled:
        by_table.setdefault(_table(clue.key), []).append(clue)
    lines: list[str] = []
    for table, clues in by_table.items():
        open_ = [question for question in left if _table(question.key) == table]
        if not clues and not (open_ and not table):
            continue
        lines += (
            ["", f"[{'.'.join(('run', *map(_bare, table.split('.'))))}]"] if table else ["[[run]]"]
        )
        lines += [_setting_text(clue) for clue in sorted(clues, key=_order)]
        lines += [f"# {_name(question.key)} = … {question.text}" for question in open_]
    lines += [
        f"# [run.{_table(q.key)}] {_name(q.key)} = … {q.text}"
        for q in left
        if _table(q.key) and not by_table.get(_table(q.key))
    ]
    return "\n".join(lines) + "\n"


def run_file(block: str, schema: str = "") -> str:
    """Return a whole file around a block.

    ``schema`` is the path of the file's JSON Schema; editors look for it in the first line.
    """
    first = [f"#:schema {schema}"] if schema and schema == clean(schema, len(schema)) else []
    return "\n".join((*first, *HEAD)) + "\n\n" + block


def _table(key: Key) -> str:
    return ".".join(key[:-1])


def _bare(name: str) -> str:
    """Return a part of a key as TOML writes it: quoted where it is no plain word."""
    return name if _PLAIN.fullmatch(name) else spelled(name)


def _name(key: Key) -> str:
    return key[-1]


def _order(clue: Clue) -> int:
    name = _name(clue.key)
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _setting_text(clue: Clue) -> str:
    return f"{_bare(_name(clue.key))} = {spelled(clue.value)}  # {clean(clue.source, 200)}"


def spelled(value: Value) -> str:
    """Return a value as TOML spells it."""
    if isinstance(value, list):
        return f"[{', '.join(spelled(each) for each in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(value)  # as TOML, which writes nan and inf, where JSON has other words
    return json.dumps(value)


class ProposalError(Exception):
    """A proposal that makes no usable run file; ``problems`` holds one line for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def text_of(proposal: Proposal, path: Path, *, alone: bool = True, schema: str = "") -> str:
    """Return the text of the run file at ``path``; with ``alone`` False only its ``[[run]]``.

    ``schema`` is where its JSON Schema lies.
    Raises ``ProposalError`` for what the run file would not be read with.
    """
    settled = proposal.settled
    left = [each for each in proposal.questions() if not each.needed]
    block = run_block(settled, left)
    try:
        built = build(tomllib.loads(block), path)
    except tomllib.TOMLDecodeError:
        keys = sorted(".".join(clue.key) for clue in settled)
        text = f"these settings conflict: {clean(scrub(', '.join(keys)), 400)}"
        raise ProposalError((text,)) from None
    if not isinstance(built, CockpitFile):
        faults = {
            ".".join(str(part) for part in each.path if isinstance(part, str)): each.text
            for each in built
        }
        said = (
            f"{clean(scrub(field), 200)}: {clean(scrub(text))}" for field, text in faults.items()
        )
        raise ProposalError(tuple(said))
    return run_file(block, schema) if alone else block


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet: all of it, or none.

    Raises ``OSError``, ``FileExistsError`` among them.
    """
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink(missing_ok=True)
            raise
