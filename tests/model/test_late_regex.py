"""A late regex answers as ``re`` would, and costs nothing until it is asked."""

from __future__ import annotations

import re

import pytest

from cockpit.model.late_regex import late_regex


def test_it_answers_as_the_pattern_does() -> None:
    late, plain = late_regex(r"(?P<step>\d+)/\d+", re.I), re.compile(r"(?P<step>\d+)/\d+", re.I)
    for _ in range(2):  # the second answer is one that was kept
        match = late.search("step 3/10")
        assert match is not None and match["step"] == "3" and match.re is plain
        assert late.sub("x", "1/2 3/4") == "x x"
    assert late.pattern == plain.pattern and late.groupindex == plain.groupindex


def test_it_takes_bytes() -> None:
    assert late_regex(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_it_is_compiled_when_it_is_asked_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    plain = re.compile

    def noting(expression: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(expression)
        return plain(expression, flags)

    monkeypatch.setattr(re, "compile", noting)
    late = late_regex("a+")
    assert compiled == []
    late.match("aa")
    late.match("a")
    assert compiled == ["a+"]


def test_what_is_no_expression_is_told_at_its_first_use() -> None:
    late = late_regex("(")
    with pytest.raises(re.error):
        late.search("")
