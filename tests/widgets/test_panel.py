"""The panels of runs: the day, how they are tiled, what each shows.

Pages: Markdown, and the help.
"""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.content import Content

from cockpit.app.for_verbs import formatted
from cockpit.model.conditions import CONDITIONS, condition, limits
from cockpit.model.goodput import CELL, CELLS, UNSEEN, Day
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import Thresholds
from cockpit.model.wording import GLYPHS, to_ascii
from screens.help import help_page
from screens.keys import Keys
from tests.widgets import reports as made
from tests.widgets.anything import any_report, words
from themes.loader import load_themes
from widgets.painting import rows
from widgets.painting.facts import VERDICT_MARKS
from widgets.painting.line import brief
from widgets.painting.pages import SIGNS, Help, as_svg, as_text, paint_help, paint_page
from widgets.painting.panel import NARROWEST, Body, Tiling, paint_day, paint_panel, tiling

T0 = 1000 * CELL


def day(*looks: tuple[float, str], cadence: float = 600.0) -> Day:
    found = Day()
    for at, verdict in looks:
        found = found.with_look(T0 + at * CELL, verdict, cadence)
    return found


def test_a_half_hour_tells_the_worst_that_was_seen_in_it() -> None:
    found = day((0.1, "healthy"), (0.3, "critical"), (0.6, "healthy"), (1.1, "healthy"))
    assert found.cells.endswith(".ch") and found.until(T0 + 2.5 * CELL).endswith(".ch.")


def test_what_nobody_watched_is_not_told() -> None:
    found = day((0, "healthy"), (4, "healthy"))
    assert found.cells.endswith(".h...h")
    assert found.until(T0 + 100 * CELL) == Day().until(T0) == UNSEEN * CELLS


def test_a_clock_that_went_back_tells_nothing() -> None:
    found = day((4, "healthy"))
    assert found.with_look(T0, "critical", 600.0) == found


@given(st.lists(st.tuples(st.floats(0, 200), st.sampled_from(list(Verdict))), max_size=30))
def test_property_it_is_bounded_and_the_present_is_its_last_cell(
    looks: list[tuple[float, Verdict]],
) -> None:
    found = day(*((at, verdict.value) for at, verdict in sorted(looks)))
    assert len(found.cells) == CELLS and set(found.cells) <= set(VERDICT_MARKS)
    assert not looks or found.cells[-1] != UNSEEN


@pytest.mark.parametrize(("width", "cells"), [(23, 0), (24, 24), (47, 24), (48, 48), (90, 48)])
def test_the_strip_stands_where_there_is_room(width: int, cells: int) -> None:
    report = made.report(
        day=day((-1, "critical"), (0, "critical"), (0.5, "healthy"), (1, "healthy"))
    )
    shown = paint_day(report, T0 + CELL * 1.5, width)
    assert shown.cell_length <= width
    assert shown.plain[:cells].endswith("█▂"[: 1 + (cells == 48)]) or not cells
    assert ("█ critical  ▂ healthy  · not watched" in shown.plain) == (width == 90)


def test_the_panel_has_it_where_somebody_watched() -> None:
    seen = Day()
    for hour in (1.0, 0.5, 0.0):
        seen = seen.with_look(made.NOW - hour * 3600, "healthy", 1800.0)
        painted = paint_panel(made.report(day=seen), made.NOW - hour * 3600, 90, 16)
        assert any("24h" in line.plain for line in painted) is (hour == 0), "less says nothing"
    watched = made.report(day=seen)
    shown = [line.plain for line in paint_panel(watched, made.NOW, 90, 16)]
    assert any("24h   ··" in line and "▂▂▂  ▂ healthy" in line for line in shown)
    assert not any("24h" in line.plain for line in paint_panel(made.report(), made.NOW, 90, 16))


SICK, WELL = made.failed("sick"), made.report("well")


def some(kinds: str) -> list[RunReport]:
    return [SICK if kind == "s" else WELL for kind in kinds]


@example(kinds="ss", width=116, height=9, groups=0)
@given(kinds=st.text("sw", min_size=1, max_size=40), width=st.integers(0, 320),
       height=st.integers(0, 90), groups=st.integers(0, 3))  # fmt: skip
def test_property_panels_fill_the_screen_and_none_overlaps(
    kinds: str, width: int, height: int, groups: int
) -> None:
    parts = [len(kinds[at::groups]) for at in range(groups)]
    titled = [(f"group {at}", count) for at, count in enumerate(parts) if count]
    found = tiling(some(kinds), titled, width, height)
    if found is None:
        return
    assert len(found.tiles) == len(kinds) and len(found.titles) == len(titled)
    taken = [(x, title.y) for title in found.titles for x in range(width)]
    taken += [
        (x, y)
        for tile in found.tiles
        for x in range(tile.x, tile.x + tile.width)
        for y in range(tile.y, tile.y + tile.height)
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) == width - 1 and max(y for _, y in taken) == height - 1
    assert all(tile.width >= NARROWEST for tile in found.tiles)


def fits(kinds: str, width: int, height: int) -> Tiling:
    found = tiling(some(kinds), (), width, height)
    assert found is not None
    return found


@pytest.mark.parametrize("kinds", ["s", "w", "sssswww", "sssssss"])
@pytest.mark.parametrize(("width", "height"), [(118, 38), (198, 48), (298, 78)])
def test_every_panel_shows_its_log_and_what_to_do(kinds: str, width: int, height: int) -> None:
    for report, tile in zip(some(kinds), fits(kinds, width, height).tiles, strict=True):
        shown = [line.plain for line in paint_panel(report, made.NOW, tile.width, tile.height)]
        assert sum("loss=2.31" in line for line in shown) == 2
        assert report is WELL or any("→ relaunch from step 8000" in line for line in shown)


NOW = made.NOW


def text_of(report: RunReport, width: int = 64, height: int = 12) -> list[str]:
    return [line.plain for line in paint_panel(report, NOW, width, height)]


FAILED = """\
╭ ■ run-failed ───────────────────── CRITICAL · FAILED 12m ago ╮
│ ■ ended, not success: exit 137                           12m │
│   killed by signal 9                               exit file │
│   Killed                                 /data/run.log:88214 │
│ → relaunch from step 8000                                    │
│ ▲ checkpoint 8004 is torn                                42m │
│ step  ~8,004/20,000  40.0 %                                  │
│ loss  2.314                 ⠉⠒⠒⠤⠤⠤⠤⢄⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀ 1.95–10.5  │
│ grad  0.410                 step 0            999            │
│ ckpt  8,000 ✓ 14m · 8,004 ✗ torn                             │
│ log   08:52:09 step 8003 loss=2.315                          │
│       08:52:10 step 8004 loss=2.314                          │
╰─────────────────────────────────────────────────────── local ╯"""


def test_who_tells_the_step_is_said_where_the_tracker_is_behind() -> None:
    told = made.report().progress.model_copy(update={"step_source": "log"})
    behind = made.report(progress=told)
    assert "40.0 %  by log" in "\n".join(text_of(behind))
    close = made.facets(tracker=made.tracker(last_step_at=NOW - 5))
    assert "by log" not in "\n".join(text_of(made.report(progress=told, seen=close)))


def test_a_dead_monitor_is_marked_apart_from_the_run() -> None:
    shown = "\n".join(text_of(made.report(seen=made.facets(monitor=made.monitor(fresh=False)))))
    assert "◷ STALE 41m, every 10m" in shown
    assert "HEALTHY" in shown


def test_unknown_says_why_and_is_never_blank() -> None:
    shown = "\n".join(text_of(made.lost(), 70, 12))
    assert "? no answer in 20 s" in shown
    assert "? permission denied" in shown
    assert "JOB UNKNOWN" in shown


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, None])
def test_any_figure_can_be_shown(value: float | None) -> None:
    seen = made.facets(
        tracker=made.tracker(loss=value, throughput=value, baseline=value, grad_norm=value)
    )
    assert len(text_of(made.report(eta=value, seen=seen))) == 12


def test_nothing_foreign_is_parsed() -> None:
    shown = "\n".join(text_of(made.hostile(), 120, 16))
    assert "run-[/]-[bold" in shown
    assert "[bold]x[/bold] [@click=app.quit]" in shown


@given(report=any_report(), width=st.integers(1, 130), height=st.integers(1, 30))
def test_property_any_report_fits_its_panel(report: RunReport, width: int, height: int) -> None:
    lines = paint_panel(report, NOW, width, height)
    assert len(lines) <= height
    assert all(line.cell_length <= width for line in lines)
    if width >= 8 and height >= 3:
        assert len(lines) == height
        assert {line.cell_length for line in lines} == {width}


@given(report=any_report())
def test_property_ascii_twins_keep_the_layout(report: RunReport) -> None:
    for line in paint_panel(report, NOW, 70, 12):
        assert len(to_ascii(line.plain)) == len(line.plain)


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


@given(any_report(), st.integers(20, 130), st.integers(0, 30))
def test_a_block_reads_as_painted_for_its_lines_though_it_was_painted_to_be_measured(
    report: RunReport, width: int, height: int
) -> None:
    anew = Body(report, NOW, width)
    anew._full = _Forgetful()
    for mine, theirs in zip(
        Body(report, NOW, width).lines(height), anew.lines(height), strict=True
    ):
        assert mine.is_same(theirs)


class _Forgetful(dict[str, list[Content]]):
    def __setitem__(self, name: str, lines: list[Content]) -> None:
        pass


def test_what_was_painted_to_be_measured_is_not_painted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    ages = rows.ages

    def counted(report: RunReport, now: float) -> list[Content]:
        asked.append(now)
        return ages(report, now)

    monkeypatch.setattr(rows, "ages", counted)
    shown = "\n".join(text_of(made.report(), 64, 13))
    assert "W&B 30s" in shown
    assert len(asked) == 1


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


def pages_rows(width: int = 40, page: list[str] = PAGE) -> list[str]:
    return [line.plain.rstrip() for line in paint_page(page, width)]


def test_marks_are_read_not_shown() -> None:
    assert pages_rows() == [
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
    assert pages_rows(60, ["- [bold]x[/] $accent [@click=app.quit]"]) == [
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
