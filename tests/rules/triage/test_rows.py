"""Every line of every row is tried against all rows: none takes another's (``signatures``)."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from cockpit.rules.triage import rows as triage_rows
from cockpit.rules.triage.phrases import certain
from cockpit.rules.triage.rows import Signature, Words, all_words, expanded, signatures
from cockpit.rules.triage.signs import SIGNS

ROWS = [(sign.name, row) for sign in SIGNS for row in signatures(sign.name)]


def shown_first(line: str) -> str | None:
    said = certain(line)
    return next((sign.name for sign in SIGNS if sign.pattern.search(said)), None)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}-{row.id}" for name, row in ROWS])
def test_a_row_finds_its_lines_and_no_other_class_takes_them(name: str, row: Signature) -> None:
    for pattern in row.patterns:
        one = re.compile(expanded(pattern), re.I)
        assert any(one.search(certain(line)) for line in row.examples), f"no example: {pattern}"
    assert {line: shown_first(line) for line in row.examples} == dict.fromkeys(row.examples, name)
    whole = re.compile("|".join(map(expanded, row.patterns)), re.I)
    assert not [line for line in row.others if whole.search(certain(line))]


@pytest.mark.parametrize("row", all_words().values(), ids=all_words())
def test_words_have_a_line_for_each_pattern(row: Words) -> None:
    for pattern in row.patterns:
        one = re.compile(expanded(pattern), 0 if row.case else re.I)
        assert any(one.search(line) for line in row.examples), f"no example: {pattern}"
    assert row.about


FOLDER = Path(triage_rows.__file__).parent
TABLES = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*.toml")}


def test_no_row_hides_another_and_each_is_used() -> None:
    """Of two rows of one id, the reader would take the last; a part that none names is dead."""
    text = {name: path.read_text(encoding="utf-8") for name, path in TABLES.items()}
    assert not [name for name in text if name.startswith("signatures/") and not named(name)]
    code = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    words = re.findall(r'^id = "(\w+)"$', joined(text, "words/"), re.M)
    others = re.findall(r'^id = "(\w+)"$', joined(text, "signatures/"), re.M)
    assert [each for each, count in Counter(words + others).items() if count > 1] == []
    assert [each for each in words if f'words("{each}")' not in code] == []
    parts = tomllib.loads(text["parts.toml"])["parts"]
    assert [each for each in parts if f"<<{each}>>" not in joined(text, "")] == []


def named(table: str) -> bool:
    return table.removeprefix("signatures/").removesuffix(".toml") in {sign.name for sign in SIGNS}


def joined(text: dict[str, str], begin: str) -> str:
    return "\n".join(each for name, each in text.items() if name.startswith(begin))
