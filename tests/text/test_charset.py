from __future__ import annotations

import pytest

from cockpit.model.wording import GLYPHS
from cockpit.text.safe import Charset, charset_of, drawn


@pytest.mark.parametrize(
    ("variables", "codeset", "charset"),
    [
        ({}, "UTF-8", Charset.ASCII),  # what the interpreter has made of it says nothing
        ({"LANG": "C"}, "UTF-8", Charset.ASCII),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, "ANSI_X3.4-1968", Charset.ASCII),
        ({"LC_ALL": "", "LC_CTYPE": "C", "LANG": "en_US.UTF-8"}, "", Charset.ASCII),
        ({"LC_ALL": "de_DE.ISO-8859-1"}, "UTF-8", Charset.ASCII),
        ({"LANG": "de_DE"}, "ISO-8859-1", Charset.ASCII),
        ({"LANG": "en_IN"}, "UTF-8", Charset.UNICODE),
        ({"LANG": "en_US.UTF-8"}, "ANSI_X3.4-1968", Charset.UNICODE),
        ({"LC_CTYPE": "C.utf8"}, "", Charset.UNICODE),
        ({"LANG": "sr_RS.UTF-8@latin"}, "", Charset.UNICODE),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, "", Charset.CONSOLE),
        ({"TERM": "linux"}, "", Charset.ASCII),
    ],
)
def test_the_locale_as_it_was_given_decides(
    variables: dict[str, str], codeset: str, charset: Charset
) -> None:
    assert charset_of(variables, codeset) is charset


FOREIGN = "Größe 数据 ⠋ 💥 naïve e\u0301 ▸ ½ № ✅"


def test_everything_foreign_is_drawn_in_as_many_cells() -> None:
    shown = drawn(FOREIGN, Charset.ASCII)
    assert shown.isascii()
    assert shown.startswith("Grosse ????") is False  # ß is one cell: two letters would move all
    assert shown.startswith("Gro?e ???? : ?? naive e")


@pytest.mark.parametrize("charset", [Charset.ASCII, Charset.CONSOLE])
def test_every_glyph_of_ours_has_its_twin(charset: Charset) -> None:
    for glyph, _ in GLYPHS.values():
        twin = drawn(glyph, charset)
        assert len(twin) == 1
        assert twin == "?" if glyph == "?" else twin != "?"


def test_what_can_be_shown_stays() -> None:
    assert drawn(FOREIGN, Charset.UNICODE) == FOREIGN
    assert drawn("╭─ ■ Größe ▁▇ ✓ ╯", Charset.CONSOLE) == "┌─ ■ Größe _* v ┘"
    assert drawn("plain", Charset.ASCII) == "plain"
