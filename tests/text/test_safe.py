"""Whatever comes in, what goes out is safe to show, and hides nothing that matters.

Tokens by the letters their vendors begin them with, wherever they stand, and look-alikes.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import string
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style as RichStyle
from textual.style import Style as TextualStyle

from cockpit.text.safe import AS_IT_IS, LINE_LIMIT, clean, safe_line, safe_lines
from cockpit.text.scrub import MASK, scrub
from cockpit.text.secret_rows import places, table, tools
from cockpit.text.secret_shapes import holds_any
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


_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + "234567",
    "d": string.digits,
}
_HOLE = re.compile(r"<([ahlud])(\d+)>")


def _filled(form: str) -> str:
    """Return ``form`` with ``<a40>`` and its like as random characters, with one of each size."""
    dice = random.Random(form)
    return _HOLE.sub(lambda hole: _made(dice, hole[1], int(hole[2])), form)


def _made(dice: random.Random, kind: str, length: int) -> str:
    ends = {"a": "x7K", "h": "7a", "l": "x7", "u": "K7", "d": "7"}[kind]
    return "".join(dice.choice(_ALPHABETS[kind]) for _ in range(length - len(ends))) + ends


ROWS = [
    (form, name)
    for name in ("shapes", "places", "tools")
    for row in table(name)["row"]
    for form in row.get("examples", ())
]
NAMELESS = ["M<a24>.<a6>.<a27>", "whoknows_<a36>", "new-v2-<a40>"]
"""What no row has: a bot's token that begins with no word, and what nobody has named yet."""
FORMS = [
    ("echo {} | kinit ada@CORP", "<a14>"),
    ("Your temporary password is: {}", "aEqskzgBGAeg"),
    ("https://hooks.zapier.com/hooks/catch/{}", "5520634/4mnff0n"),
    ("https://maker.ifttt.com/trigger/x/with/key/{}", "<a43>"),
    ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", "<h8>-<h4>-<h4>-<h12>"),
    ("api_key,{}", "<a32>"),
    ("https://mm.corp/hooks/{}", "<l26>"),
    ("PresharedKey = {}", "<a43>="),
    ("wss://x base64url.bearer.authorization.k8s.io.{}", "<a40>"),
]
LOOK_ALIKES = [
    "chatcmpl-<a36>",
    "req_<a34>",
    "run-<a40>",
    "sha256_<h64>",
    "checkpoint_<h40>",
    "raysubmit_<a16>",
    "torchinductor_c<l50>",
    "triton-cache-<u52>",
    "file-<a36>.jsonl",
    "key-value store at 10.0.0.1:29500",
    "the password is wrong",
    "license: Apache-2.0",
    "loss,0.3333333333333333",
    "HF_TOKEN=hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
]


@pytest.mark.parametrize("form", NAMELESS + [form for form, name in ROWS if name == "shapes"])
def test_a_token_is_masked_without_any_name(form: str) -> None:
    token = _filled(form)
    assert scrub(f"retrying with {token} now") == f"retrying with {MASK} now"


@pytest.mark.parametrize("form", [form for form, name in ROWS if name != "shapes"])
def test_what_the_example_of_a_row_holds_is_masked(form: str) -> None:
    said = scrub(_filled(form))
    dice = random.Random(form)
    made = [_made(dice, kind, int(length)) for kind, length in _HOLE.findall(form)]
    assert MASK in said and not [part for part in made if len(part) > 9 and part in said], said


def test_every_row_has_an_example_and_finds_it_by_itself() -> None:
    """But the shape of a key that stands in a Kubernetes connection alone."""
    for row in table("shapes")["row"]:
        for form in row.get("examples", ()):
            token = _filled(form)
            assert re.fullmatch(row["pattern"], token), row
            assert any(hint in token for hint in row["hints"]), row
        assert row.get("examples") or "k8s" in row["pattern"], row
    for place, row in zip(places(), table("places")["row"], strict=True):
        assert any(place.pattern.search(_filled(form)) for form in row["examples"]), row
        assert not place.near or holds_any(row["examples"][0].lower(), place.near), row
    for row in table("tools")["row"]:
        for form in row["examples"]:
            assert any(rule.search(_filled(form)) for rule in tools()[row["tools"][0]]), row


@pytest.mark.parametrize(("form", "hole"), FORMS)
def test_what_a_tool_is_given_is_masked(form: str, hole: str) -> None:
    secret = _filled(hole)
    assert secret not in scrub(form.format(secret))


@pytest.mark.parametrize("form", LOOK_ALIKES)
def test_what_a_service_calls_its_things_is_left(form: str) -> None:
    text = _filled(form)
    assert scrub(text) == text


@pytest.mark.parametrize("value", ["QwTzmyfFXngYUVzeqcxn", "hPpZbTqWxRfGkLmNvBcD"])
def test_random_letters_without_a_figure_are_a_secret_where_one_is_spoken_of(value: str) -> None:
    assert scrub(f"generated admin password {value} for grafana").count(value) == 0


@pytest.mark.parametrize("name", ["NCCLWatchdogThread", "LlamaForCausalLMHead"])
def test_words_in_one_are_none(name: str) -> None:
    assert scrub(f"secret {name} and token {name}") == f"secret {name} and token {name}"


SENDERS = [
    "pover://u<a29>@<a30>",
    "slack://T1JJ3T3L2/A1BRTD4JD/<a24>",
    "discord://4174216298/<a40>",
    "tgram://123456789:<a34>/12315544",
    "sendgrid://<a40>:ada@example.org/bob",
    "ntfys://tk_<a29>@ntfy.example.org/topic",
    "gotifys://push.example.org/<a15>",
    "pbul://<a34>",
]


@pytest.mark.parametrize("form", SENDERS)
def test_the_keys_in_an_address_of_a_notification_service(form: str) -> None:
    for before, after in (("", ""), ("url = '", "'"), ("POST ", " -> 401")):
        address = _filled(form)
        said = scrub(f"{before}{address}{after}")
        key = max(re.split(r"[/@:]", address), key=len)
        assert key not in said and MASK in said and said.endswith(after)


def test_an_address_without_a_key_stays() -> None:
    for line in ("slack://a/b/c", "see push://docs", "pover://user@TOKEN", "github://org/repo@v1"):
        assert scrub(line) == line
