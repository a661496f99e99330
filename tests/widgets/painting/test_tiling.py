"""Where the panels stand: every run has one, none overlaps, the screen is filled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.report import RunReport, Verdict
from tests.widgets import reports as made
from widgets.painting.panel import paint_panel
from widgets.painting.tiling import NARROWEST, Tiling, tiling

SICK, WELL = made.failed("sick"), made.report("well")


def some(kinds: str) -> list[RunReport]:
    return [SICK if kind == "s" else WELL for kind in kinds]


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


def test_sick_runs_are_wide_and_high_and_healthy_ones_a_few_lines() -> None:
    tiles = fits("sssswww", 198, 48).tiles
    assert {tile.width for tile in tiles[:4]} == {98, 99}
    assert min(tile.height for tile in tiles[:4]) > max(tile.height for tile in tiles[4:])
    assert len({tile.y for tile in tiles[4:]}) == 1
    assert len({tile.y for tile in fits("sssssss", 118, 38).tiles}) == 4
    assert tiling(some("s" * 9), (), 118, 38) is None
    assert len(fits("w" * 60, 298, 78).tiles) == 60


def test_panels_of_runs_that_are_not_read_yet_are_as_high_as_of_healthy_ones() -> None:
    waits = made.report("waits", Verdict.UNKNOWN, not_read_yet="job: not asked")
    assert fits("w" * 12, 118, 38) == tiling([waits] * 12, (), 118, 38)
    unknown = waits.model_copy(update={"not_read_yet": None})
    assert tiling([unknown] * 12, (), 118, 38) is None


@pytest.mark.parametrize("kinds", ["s", "w", "sssswww", "sssssss"])
@pytest.mark.parametrize(("width", "height"), [(118, 38), (198, 48), (298, 78)])
def test_every_panel_shows_its_log_and_what_to_do(kinds: str, width: int, height: int) -> None:
    for report, tile in zip(some(kinds), fits(kinds, width, height).tiles, strict=True):
        shown = [line.plain for line in paint_panel(report, made.NOW, tile.width, tile.height)]
        assert sum("loss=2.31" in line for line in shown) == 2
        assert report is WELL or any("→ relaunch from step 8000" in line for line in shown)


def test_the_cursor_goes_to_the_nearest_panel_of_the_next_row() -> None:
    found = fits("sswww", 198, 48)
    assert [found.below(at, 1) for at in range(5)] == [2, 4, 2, 3, 4]
    assert [found.below(at, -1) for at in range(5)] == [0, 1, 0, 0, 1]
