from __future__ import annotations

import pytest
from textual.content import Content, Span

from widgets.log_stamp import brief


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("I20261121 11:41:15 25695 train step 3/9", "11:41:15 train step 3/9"),
        ("E1121 11:41:15.123456 7 x.cc:9] no room", "11:41:15 E x.cc:9] no room"),
        ("2026-11-21 11:41:15,120 - INFO - step 3", "11:41:15 INFO - step 3"),
        ("[2026-11-21T11:41:15.120Z] step 3", "11:41:15 step 3"),
        ("step 3 at 2026-11-21 11:41:15", "step 3 at 2026-11-21 11:41:15"),
        ("2026-11-21 11:41:15", "2026-11-21 11:41:15"),
        ("", ""),
    ],
)
def test_a_stamp_gives_way_to_the_words(line: str, shown: str) -> None:
    assert brief(Content(line)).plain == shown


def test_colours_stay_on_their_words() -> None:
    line = Content("I20261121 11:41:15 1 ab red", [Span(24, 27, "red")])
    cut = brief(line)
    assert [cut.plain[span.start : span.end] for span in cut.spans] == ["red"]
