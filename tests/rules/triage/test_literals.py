"""Each match of an expression holds one of its words, whatever the expression."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.rules.triage.literals import WordIndex, alternatives, in_small_letters, without
from cockpit.rules.triage.rows import all_words, words

LETTERS = ["a", "B", "k", "s", "i", "é", "İ", "ß", "_", "5", "{", r"\.", r"\\", r"\x41", r"\u201c"]
PLACES = [".", r"\w", r"\b", "^", "[ab]", "[]a]", r"[^\]|(]", "(?=a|b)", "(?<!xy)", r"\U0001F600"]
MANY = ["", "", "?", "*", "+", "*?", "++", "{0}", "{2}", "{,2}", "{,}", "{1,}", "{2}?"]
OPENS = ["(", "(?:", "(?i:", "(?-i:", "(?>"]


def grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(parts, min_size=1, max_size=3)
    group = st.tuples(st.sampled_from(OPENS), some, st.sampled_from(MANY))
    return some.map("".join) | group.map(lambda made: f"{made[0]}{'|'.join(made[1])}){made[2]}")


ONE = st.tuples(st.sampled_from([*LETTERS, *PLACES]), st.sampled_from(MANY)).map("".join)
EXPRESSIONS = st.lists(st.recursive(ONE, grown, max_leaves=8), min_size=1, max_size=2)


def holds(expression: re.Pattern[str], text: str) -> bool:
    small = in_small_letters(text)
    return any(
        WordIndex([small.encode("utf-8", "surrogatepass")]).holding(needs) and one.search(text)
        for needs, one in alternatives(expression)
    )


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_match_holds_a_word(data: st.DataObject) -> None:
    source = data.draw(EXPRESSIONS.map("|".join))
    try:
        expression = re.compile(source, data.draw(st.sampled_from([0, re.I])))
    except re.error:
        return
    assert holds(expression, data.draw(st.from_regex(expression)))


@pytest.mark.parametrize(
    ("source", "flags", "text"),
    [
        ("xy{,}z", 0, "xz"),
        (r"\N{LATIN SMALL LETTER A}b", 0, "ab"),
        ("(?is)abc", 0, "ABC"),
        ("ab(?#no words)", 0, "ab"),
        ("(?P<quote>')?(?(quote)end|none)", 0, "none"),
        (r"(ab)|(cd)\2", 0, "cdcd"),
        ("ab cd # and no more", re.VERBOSE, "abcd"),
        ("(?x: ab cd )", 0, "abcd"),
        ("disk full", re.I, "DİSK FULL"),
        ("session lost", re.I, "ſeſſion lost"),
    ],
)
def test_what_words_are_not_read_from(source: str, flags: int, text: str) -> None:
    expression = re.compile(source, flags)
    assert expression.search(text) and holds(expression, text)


def test_every_letter_is_looked_for_as_the_expression_compares_it() -> None:
    everything = list(map(chr, range(sys.maxunicode + 1)))
    for letter in "abcdefghijklmnopqrstuvwxyz":
        alike = re.compile(letter, re.I)
        assert {in_small_letters(each) for each in everything if alike.match(each)} == {letter}


SAID = [line for row in all_words().values() for line in row.examples]


def test_what_is_taken_out_is_what_the_expression_would_have_taken_out() -> None:
    doubt = words("doubt")
    lines = [
        *SAID,
        *map("; ".join, zip(SAID, SAID[7:], strict=False)),
        "if the node died, or\t(a, or b)",
    ]
    assert [without(doubt, line) for line in lines] == [doubt.sub(" ", line) for line in lines]
    assert any(without(doubt, line) != line for line in lines)


def test_each_of_several_in_front_has_words_of_its_own() -> None:
    parts = alternatives(re.compile(r"(?:one|two|(?:t|d)hree) more(?:s|es)?|(?:a|b)+ four"))
    assert [each.pattern.pattern for each in parts] == [
        "one more(?:s|es)?",
        "two more(?:s|es)?",
        "three more(?:s|es)?",
        "dhree more(?:s|es)?",
        "(?:a|b)+ four",
    ]
