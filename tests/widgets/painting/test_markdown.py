"""Pages as they are meant, on the screen and in files of their own."""

from __future__ import annotations

from xml.etree import ElementTree

from textual.content import Content

from cockpit.app.for_verbs import formatted
from themes.loader import load_themes
from widgets.painting.export import as_svg, as_text
from widgets.painting.markdown import paint_page

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
