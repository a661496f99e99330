"""Pages: Markdown, and the help."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from cockpit.app.for_verbs import formatted
from cockpit.model.conditions import CONDITIONS, condition, limits
from cockpit.model.run import Thresholds
from cockpit.model.wording import GLYPHS
from screens.help import help_page
from screens.hotkeys import ACTIONS
from screens.keys import Keys
from tests.widgets import reports as made
from tests.widgets.anything import words
from themes.loader import load_themes
from widgets.painting.pages import SIGNS, Help, as_svg, as_text, paint_help, paint_page

FLEET = help_page(Keys(), ("fleet", "act", "everywhere"), {"stop": "nothing is running"},
                  made.failed())  # fmt: skip


def told(page: Help, width: int = 76) -> str:
    return "\n".join(line.plain for line in paint_help(page, width))


def test_actions_come_first_and_say_why_not() -> None:
    shown = told(FLEET)
    assert shown.splitlines()[0].startswith("Act on run-failed")
    assert "gracefully first: shows a plan ▲ nothing is running" in " ".join(shown.split())
    places = [shown.index(word) for word in ("relaunch", "filter", "check now", "Move", "signs",
                                             "elsewhere")]  # fmt: skip
    assert places == sorted(places)


def test_every_action_s_description_is_whole_in_one_column_and_in_three() -> None:
    for width in (76, 164):
        seen = set(told(FLEET, width).split())
        assert all(set(each.help.split()) <= seen for each in ACTIONS if each.id != "stop")


def test_where_they_do_not_fit_all_keys_stand_on_the_first_screen_by_name() -> None:
    lines = [line.plain for line in paint_help(FLEET._replace(rows=22), 76)]
    first = " ".join(" ".join(lines[:22]).split())
    assert all(title in first for _, rows in FLEET.here for _, title, _ in rows)
    assert told(FLEET._replace(rows=400)) == told(FLEET)


def test_more_columns_take_fewer_lines() -> None:
    assert len(paint_help(FLEET, 164)) < len(paint_help(FLEET, 110)) < len(paint_help(FLEET, 76))


def test_an_open_code_says_what_it_means_and_its_limit_here() -> None:
    assert "C-01  the job ended without success" in told(FLEET)
    assert "C-05" not in told(FLEET)
    here = FLEET._replace(words="c-05", thresholds=Thresholds(throughput_drop=0.2))
    assert "more than throughput_drop (20.0 %) below the baseline" in told(here)
    found = condition("C-21")
    assert found is not None and found.id == "C-20, C-21"
    assert all("`" not in limits(each) for each in CONDITIONS)


def test_words_leave_only_what_has_them() -> None:
    shown = told(FLEET._replace(words="checkpoint roll"))
    assert "go back to an older checkpoint" in shown and "filter" not in shown
    assert told(FLEET._replace(words="no such thing at all")) == "no match"


def test_every_glyph_of_a_state_is_in_the_legend() -> None:
    legend = {mark for mark, _, _ in SIGNS}
    assert {glyph for glyph, _ in GLYPHS.values()} - {"↑", "↓"} <= legend


help_rows = st.lists(st.tuples(words, words, words), min_size=1, max_size=3)


@given(st.lists(st.tuples(words, help_rows), max_size=4), st.integers(1, 200), words)
def test_property_no_line_is_too_wide(here: list[object], width: int, letters: str) -> None:
    page = Help(here, here, ["C-05"], words=letters)  # type: ignore[arg-type]
    assert all(line.cell_length <= max(width, 12) for line in paint_help(page, width))


PAGE = """# Handoff: toy
> watch `the loss` of this one, until
## State
- Job: failed, id `pid:[17]`
| step | why |
|---:|---|
| 8,000 | complete |
| 12 | torn |
```
- as  it `is`
```
plain""".splitlines()


def rows(width: int = 40, page: list[str] = PAGE) -> list[str]:
    return [line.plain.rstrip() for line in paint_page(page, width)]


def test_marks_are_read_not_shown() -> None:
    assert rows() == [
        "Handoff: toy",
        "▏ watch the loss of this one, until",
        "State ──────────────────────────────────",
        "• Job: failed, id pid:[17]",
        "step   why",
        "8,000  complete",
        "12     torn",
        "  - as  it `is`",
        "plain",
    ]


def test_what_follows_hangs_below_its_mark() -> None:
    assert rows(22)[1:3] == ["▏ watch the loss of", "▏ this one, until"]
    assert rows(12, ["- one two three"]) == ["• one two", "  three"]
    assert all(line.cell_length <= 9 for line in paint_page(PAGE, 9))


def test_code_and_labels_are_told_apart_by_colour() -> None:
    line = paint_page(["- Job: x `c`"], 40)[0]
    styles = {line.plain[s.start : s.end]: s.style for s in line.spans}
    assert styles["Job: "] == "$dim" and styles["c"] == "$accent"


def test_nothing_of_a_line_is_markup() -> None:
    assert rows(60, ["- [bold]x[/] $accent [@click=app.quit]"]) == [
        "• [bold]x[/] $accent [@click=app.quit]"
    ]


def test_text_is_what_is_read() -> None:
    assert as_text([Content("a  "), Content("")]) == "a\n\n"
    assert formatted("# T\n- a\n", "txt") == "T\n• a\n"


def test_a_picture_stands_for_itself_and_holds_every_word() -> None:
    lines = paint_page([*PAGE, "- <script> & 値"], 40)
    picture = as_svg(lines, 40, load_themes()["cockpit-dark"].variables())
    root = ElementTree.fromstring(picture)
    said = "".join(each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text"))
    for word in "".join(line.plain for line in lines).split():
        assert word in said
    assert "<script>" not in picture and "href" not in picture
    assert picture.count("http") == 1, "the name of the format alone"
    assert 'font-weight="bold"' in picture
