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
from screens.keys import Keys
from tests.widgets import reports as made
from tests.widgets.anything import words
from themes.loader import load_themes
from widgets.painting.pages import SIGNS, Help, as_svg, as_text, paint_help, paint_page

FLEET = help_page(Keys(), ("fleet", "act", "everywhere"), {"stop": "nothing is running"},
                  made.failed())  # fmt: skip


def told(page: Help, width: int = 76) -> str:
    return "\n".join(line.plain for line in paint_help(page, width))


def test_an_open_code_says_what_it_means_and_its_limit_here() -> None:
    assert "C-01  the job ended without success" in told(FLEET)
    assert "C-05" not in told(FLEET)
    here = FLEET._replace(words="c-05", thresholds=Thresholds(throughput_drop=0.2))
    assert "more than throughput_drop (20.0 %) below the baseline" in told(here)
    found = condition("C-21")
    assert found is not None and found.id == "C-20, C-21"
    assert all("`" not in limits(each) for each in CONDITIONS)


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
