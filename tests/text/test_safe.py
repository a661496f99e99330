"""Whatever comes in, what goes out is safe to show, and hides nothing that matters."""

from __future__ import annotations

import base64
import json
import os
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style as RichStyle
from textual.style import Style as TextualStyle

from cockpit.text.safe import AS_IT_IS, LINE_LIMIT, clean, safe_line, safe_lines
from tests.growing import grows_with_its_size

CORPUS = Path(os.environ.get("COCKPIT_CORPORA", "no-corpora")) / "hostile.jsonl"

INTRODUCERS = ("\x1b[", "\x1b]", "\x1bP", "\x9b", "\x9d", "\x90", "\x1b\\", "\x9c", "\x07", "\x1b")
SEQUENCES = ("\x1b[31m", "\x1b[38;5;9m", "\x1b[0m", "\x1b[2J", "\x1b[5D", "\x08", "\t", "\n", "\r")
PARTS = ("\x00", "0;", "loss NaN", "[/]", "\u202e", "\u200b", "\u0301", "\ufe0f", "\U000e0041")
ESC_PARTS = st.sampled_from([*INTRODUCERS, *SEQUENCES, *PARTS])
NASTY = st.lists(ESC_PARTS | st.text(max_size=8)).map("".join)


def assert_safe(text: str) -> None:
    for char in text:
        assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert len(text.splitlines()) <= 1
    assert all(char == " " or not char.isspace() for char in text)


@given(st.binary() | NASTY | st.text())
def test_nothing_unsafe_comes_out_of_anything(raw: bytes | str) -> None:
    line = safe_line(raw)
    assert_safe(line.plain)
    assert_safe(clean(raw))
    assert all(0 <= span.start < span.end <= len(line.plain) for span in line.spans)


@given(st.binary() | NASTY | st.text(), st.integers(1, 40))
def test_safe_text_is_left_as_it_is_and_the_limit_holds(raw: bytes | str, limit: int) -> None:
    once = safe_line(raw, limit).plain
    assert len(once) <= limit
    assert safe_line(once, limit).plain == once
    assert clean(clean(raw, limit), limit) == clean(raw, limit)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_plain_ascii_is_unchanged_and_markup_is_text(text: str) -> None:
    assert safe_line(text).plain == text
    assert safe_line(text.encode()).plain == text
    assert safe_line(f"\x1b[1m{text}\x1b[0m").plain == text


@given(st.lists(st.integers(0, 300).map(str) | st.sampled_from(["", ":", "38;5", "48:2::1:2:3"])))
def test_every_style_is_understood_by_rich_and_by_textual(codes: list[str]) -> None:
    for span in safe_line(f"a\x1b[{';'.join(codes)}mb").spans:
        RichStyle.parse(span.style)
        TextualStyle.parse(span.style)


SHOWN = [
    (b"a \x1b]52;c;ZmFrZQ==\x07b", "a b"),
    (b"\x1b]0;forged title\x1b\\step 5", "step 5"),
    (b"\x1b]8;;https://elsewhere.invalid\x1b\\the text\x1b]8;;\x1b\\", "the text"),
    (b"\x1bPq#0;2;0;0;0\x1b\\after", "after"),
    (b"\x1b]0;never closed loss NaN", "0;never closed loss NaN"),
    (b"\x1bPnever closed \x1b[31mloss NaN", "never closed loss NaN"),
    (b"\x1b[999", "999"),
    (b"a\x1b[?1049lb\x1b[2J\x1b[Hc\x1b[6nd", "abcd"),
    (b"\x1b(0x\x1b7y\x1bMz\x1bc", "xyz"),
    ("a\u009b2Jb\u009d0;t\u009cc\u0085d", "abc d"),
    (b"loss NaN\x1b[3D\x1b[K2.1", "loss NaN\N{SYMBOL FOR BACKSPACE}2.1"),
    (b"loss NaN\x08\x08\x082.1", "loss NaN\N{SYMBOL FOR BACKSPACE}2.1"),
    (b"secret \x1b[8mhidden\x1b[28m", "secret hidden"),
    (b" 1%| 1/9\r 2%| 2/9\r\n", " 2%| 2/9"),
    (b" 2%| 2/9\r\x1b[K\r   \r", " 2%| 2/9"),
    (b"\r\r\n", ""),
    (b"whole line\r\n", "whole line"),
    (b"one\r\ntwo", "one two"),
    (b"a\tb\t", "a       b       "),
    (b"\x1b[32ma\x1b[0m\tb", "a       b"),
    (b"a\x00\x00\x00b\x7f", "ab"),
    (b"\xff\xfe ok \xe2\x82", "\ufffd\ufffd ok \ufffd"),
    ("x\ud800y", "x\ufffdy"),
    ("\u202eabc\u202c \u2066d\u2069\u200e\u061c", "abc d"),
    ("re\u200blau\u2060nch\ufeff", "relaunch"),
    ("run\U000e0041\U000e0042\U000e007f", "run"),
    ("ok\u26a0\ufe0f\u034f\u3164.", "ok\u26a0."),
    ("e\u0301", "e\u0301"),
    ("\u0301start", "start"),
    ("a\u00a0b\u3000c\u2028d", "a b c d"),
    ("[rank0]: x [/] [bold [@click=app.quit]y[/]", "[rank0]: x [/] [bold [@click=app.quit]y[/]"),
    ("█▇ 日本語 é", "█▇ 日本語 é"),
]


@pytest.mark.parametrize(("raw", "shown"), SHOWN)
def test_what_is_shown(raw: bytes | str, shown: str) -> None:
    assert safe_line(raw).plain == shown


STYLES = [
    ("\x1b[1;31mx", "bold red"),
    ("\x1b[91mx", "red"),
    ("\x1b[90mx", "dim"),
    ("\x1b[38;5;1mx", "red"),
    ("\x1b[38;2;255;0;0mx", "#ff0000"),
    ("\x1b[38:2::255:0:0mx", "#ff0000"),
    ("\x1b[38;2;255;0;0;1mx", "bold #ff0000"),
    ("\x1b[7;5;31mx", "reverse red"),
    ("\x1b[37;41mx", "reverse red"),
    ("\x1b[1;3;4;9mx", "bold italic strike underline"),
]


@pytest.mark.parametrize(("raw", "style"), STYLES)
def test_colours_become_spans_that_end_with_the_line(raw: str, style: str) -> None:
    assert safe_line(raw).spans == ((0, 1, style),)
    assert safe_line("next").spans == ()


@pytest.mark.parametrize(
    "sgr", ["30", "37", "97", "8", "5", "30;40", "38;5;16", "38;2;0;0;0", "40"]
)
def test_no_colour_hides_text(sgr: str) -> None:
    line = safe_line(f"\x1b[{sgr}mhidden")
    assert (line.plain, line.spans) == ("hidden", ())


def test_a_colour_ends_where_it_is_reset() -> None:
    line = safe_line("\x1b[31ma\x1b[31mb\x1b[39mc\x1b[1md\x1b[22me\x1b[32mf\x1b[mg")
    assert line.plain == "abcdefg"
    assert line.spans == ((0, 2, "red"), (3, 4, "bold"), (5, 6, "green"))


def test_combining_marks_are_capped() -> None:
    assert (
        safe_line("l" + "\u0336\u0317\u0301\u0489" * 200 + "oss").plain == "l\u0336\u0317\u0301oss"
    )


def test_a_long_line_is_cut_visibly() -> None:
    line = safe_line("\x1b[31m" + "x" * 9000)
    assert len(line.plain) == LINE_LIMIT
    assert line.plain.endswith("x…")
    assert line.spans == ((0, LINE_LIMIT, "red"),)


HUGE = [
    b"A" * 10_000_000,
    b"\r\x1b[K" * 1_000_000,
    b"\x1b]" * 3_000_000,
    b"\x1b[" + b"0" * 9_000_000,
    b"\x1b[38;5" * 1_000_000 + b"m",
    "\x9b0".encode() * 2_000_000,
    ("a" + "\u0301" * 4_000_000).encode(),
    b"\n" * 9_000_000 + b"x",
]


@pytest.mark.parametrize("raw", HUGE, ids=range(len(HUGE)))
def test_a_huge_line_is_cheap(raw: bytes) -> None:
    assert len(safe_line(raw).plain) <= LINE_LIMIT
    assert grows_with_its_size(lambda size: safe_line(raw[:size]), len(raw))


def test_clean_takes_anything_and_keeps_all_of_it() -> None:
    assert clean(None) == ""
    assert clean(ValueError("bad\nnews\r\nand\rmore")) == "bad news and more"
    assert clean(b" name\x1b[31m ") == "name"
    assert clean(3.5) == "3.5"
    assert clean("x" * 900, limit=10) == "x" * 9 + "…"


def test_lines_are_split_at_line_feeds_only() -> None:
    lines = safe_lines(b"one\r\ntw\x0bo\n\nthree\rfour\n")
    assert [line.plain for line in lines] == ["one", "tw o", "", "four"]


@pytest.mark.skipif(not CORPUS.exists(), reason="COCKPIT_CORPORA names no corpus")
def test_the_corpus_of_hostile_lines() -> None:
    for entry in map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines()):
        raw = base64.b64decode(entry["b64"]) if entry["b64"] else b"A" * entry["length"]
        line = safe_line(raw)
        assert_safe(line.plain)
        assert entry["should_still_show"] in line.plain


def test_what_is_taken_in_runs_is_shown_as_it_is_character_by_character() -> None:
    taken = re.compile(f"[{AS_IT_IS}]")
    for code in range(0x30000):
        char = chr(code)
        if taken.match(char):
            assert safe_line(f"\x7f{char}").plain == char
