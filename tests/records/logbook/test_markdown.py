"""Foreign text in Markdown: shown as written, no structure of its own, and it calls nobody."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from cockpit.records.issue.service import MOST_LINES, block, code, fields, person, prose
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

RENDER = MarkdownIt("gfm-like", {"html": True, "linkify": False})
CALLS = re.compile(r"@[\w-]|#\d|GH-\d", re.IGNORECASE)
HOSTILE = [
    "@everyone", "see #12 and owner/repo#12 and GH-7", "<!-- cockpit:0 -->", "<img src=x>",
    "`", "``` \n@ada", "~~~\n# heading", "- item", "1. item", "# title", "> quote", "---", "+ x",
    "a | b\n--|--", "![x](http://e)", "[x]: http://e", "&#64;ada", "&lt;b&gt;", "\\@ada", "*b*",
    "__b__", "~~x~~", "$x$", "\x1b[31mred\x1b[0m", "a\u202eb", "=====", "    code", "\\", "`` ` ``",
]  # fmt: skip
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*HOSTILE, "\n", " ", "word"]), max_size=6).map("".join),
)


def tokens(text: str) -> list[Token]:
    return RENDER.parse(text)


def visible(text: str) -> str:
    """What is text on the page: not code, not a hidden part."""
    children = (child for token in tokens(text) for child in token.children or ())
    return "\n".join(child.content for child in children if child.type == "text")


def shape(text: str) -> list[str]:
    kinds = [token.type for token in tokens(text)]
    inner = [child.type for token in tokens(text) for child in token.children or ()]
    return kinds + [kind for kind in inner if kind not in ("text", "text_special")]


@given(texts)
@example("@ada #1")
def test_prose_adds_no_structure_and_calls_nobody(text: str) -> None:
    written = fields([("Goal", prose(text)), ("Next", prose("x"))])
    assert shape(written) == shape(fields([("Goal", prose("word")), ("Next", prose("x"))]))
    assert not CALLS.search(visible(written))
    assert "\n" not in prose(text)


@given(texts)
def test_prose_alone_on_a_line_is_a_paragraph(text: str) -> None:
    assert shape(prose(text)) == shape("word")


@given(texts)
def test_prose_shows_what_was_written(text: str) -> None:
    shown = "".join(
        child.content for token in tokens(prose(text)) for child in token.children or ()
    )
    wanted = scrub(clean(text, 2000)) or "unknown"
    assert shown.replace("\u200b", "") == wanted.replace("\u200b", "")


@given(texts)
def test_code_cannot_be_left(text: str) -> None:
    written = f"- Path: {code(text)} and more"
    inner = [child for token in tokens(written) for child in token.children or ()]
    wanted = scrub(clean(text, 1000))
    if wanted:
        assert [child.type for child in inner] == ["text", "code_inline", "text"]
        assert inner[1].content.strip() == wanted.strip()
    assert not CALLS.search(visible(written))


@given(st.lists(texts, max_size=5))
def test_a_block_cannot_be_closed(lines: list[str]) -> None:
    written = f"{block(lines)}\n\nafter"
    kinds = [token.type for token in tokens(written)]
    assert kinds == ["fence", "paragraph_open", "inline", "paragraph_close"]


def test_a_block_keeps_the_newest_lines() -> None:
    shown = block([f"line {number}" for number in range(MOST_LINES + 40)])
    assert "… 40 lines before" in shown and f"line {MOST_LINES + 39}" in shown
    assert "line 39\n" not in shown


@pytest.mark.parametrize(
    ("name", "called"),
    [("@ada", True), ("@org/team", True), ("ada", False), ("@ada @bob", False), ("@-x", False)],
)
def test_only_a_login_written_as_one_is_called(name: str, called: bool) -> None:
    assert bool(CALLS.search(visible(person(name, call=True)))) is called
    assert not CALLS.search(visible(person(name)))


def test_secrets_are_masked_everywhere() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    for written in (prose(secret), code(f"X={secret}"), block(["x", secret])):
        assert secret not in written and "****" in written.replace("\\", "")
