"""Every line of every row is tried against all rows: none takes another's (``signatures``)."""

from __future__ import annotations

import re

import pytest

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
