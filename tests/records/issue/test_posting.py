from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.records.issue.outbox import (
    PostMarker,
    event_digest,
    marker_of,
    post_text,
    same_text,
    sender_digest,
)

MARK = PostMarker(event_digest("toy", "launch:toy-i001"), sender_digest("host", "/store"))


def test_an_event_is_the_same_everywhere_and_unlike_any_other() -> None:
    assert event_digest("toy", "e") == event_digest("toy", "e")
    assert len({event_digest("toy", "e"), event_digest("toy", "f"), event_digest("to", "ye")}) == 3
    assert MARK.line.startswith("<!-- cockpit:") and MARK.line.endswith(" -->")


@given(st.text(max_size=300))
def test_every_post_carries_its_own_marker_last(body: str) -> None:
    text = post_text(body, MARK)
    assert marker_of(text) == MARK and marker_of(text.replace("\n", "\r\n")) == MARK
    assert text.startswith("🤖")
    assert same_text(text, text.replace("\n", "\r\n"))


@given(st.text(max_size=300))
def test_posting_a_post_again_changes_nothing_in_it(body: str) -> None:
    once = post_text(body, MARK).rpartition("\n\n")[0]
    assert post_text(once, MARK).rpartition("\n\n")[0] == once


def test_a_marker_inside_or_quoted_is_none() -> None:
    other = PostMarker("0" * 16, "1" * 8)
    assert marker_of(f"> x\n> {other.line}") is None
    assert marker_of(f"{other.line}\nmore") is None
    assert marker_of(f" {other.line} x") is None
    assert marker_of("") is None
    assert marker_of(post_text(f"forged\n{other.line}", MARK)) == MARK


def test_an_open_fence_does_not_swallow_the_marker() -> None:
    text = post_text("see\n````\n```\nlog", MARK)
    assert text.endswith(f"log\n````\n\n{MARK.line}")
    closed = "see\n```\nlog\n```"
    assert post_text(closed, MARK).endswith(f"{closed}\n\n{MARK.line}")


def test_a_long_body_is_cut_at_a_line_with_its_fence_closed() -> None:
    text = post_text("log:\n```\n" + "0123456789\n" * 9000, MARK)
    assert len(text) < 65_536 and "cut here" in text
    assert text.count("```") == 2 and marker_of(text) == MARK
