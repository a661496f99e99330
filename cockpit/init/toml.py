"""The text of a run file: each setting with where it comes from, what is open as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.init.proposal import Clue, Key, Question, Value
from cockpit.text.safe import clean

HEAD: Final = (
    "# Written by `cockpit init`; every line says where it was read. Correct what is wrong:",
    "# the cockpit reads this file again when it changes, and never writes to it.",
)
TABLES: Final = ("", "job", "wandb", "checkpoints", "monitor", "records", "code")
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
        lines += [_line(clue) for clue in sorted(clues, key=_order)]
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


def _line(clue: Clue) -> str:
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
