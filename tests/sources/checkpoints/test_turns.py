"""Very many step folders: the newest at once, the others over later looks, the rest counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import FixedClock
from cockpit.sources.checkpoints import host
from cockpit.sources.checkpoints.contents import HERE, TreeListing
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.source import Checkpoints, list_checkpoints
from tests.sources.checkpoints.test_source import observed, run_of, value_of
from tests.sources.checkpoints.trees import NOW, levanter

COUNT, NEWEST, MORE = 90, 10, 10


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root with many folders, of which a look has time for ``MORE`` beside the newest."""
    for step in range(1, COUNT + 1):
        levanter(tmp_path / "c", 7 * step, at=NOW - 1000)
    monkeypatch.setattr(host, "HERE", HERE._replace(newest=NEWEST, growth=1, rounds=3))
    return tmp_path / "c"


async def test_the_newest_steps_come_first_and_the_rest_over_later_looks(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = Checkpoints(FixedClock(NOW)), run_of(root)
    left = []
    for _ in range(3):
        value = value_of(await observed(source, run, alive=True))
        seen = [item.step for item in value.items]
        assert seen == [7 * step for step in range(COUNT - len(seen) + 1, COUNT + 1)]
        assert value.latest_complete == 7 * COUNT and value.relaunch_from is not None
        assert len(seen) + value.unjudged == COUNT
        assert value.to_json().get("unjudged", 0) == value.unjudged
        assert (value.trainer_would_load is None) == bool(value.unjudged), "it may go by others"
        left.append(value.unjudged)
    assert left == [COUNT - NEWEST - MORE, COUNT - 2 * (NEWEST + MORE), 0]
    monkeypatch.undo()
    assert value.items == list_checkpoints([str(root)], now=NOW).items


async def test_none_is_picked_while_the_only_whole_ones_have_had_no_turn(root: Path) -> None:
    for step in range(COUNT - NEWEST - MORE + 1, COUNT + 1):
        (root / f"step-{7 * step}" / "metadata.json").unlink()
    source, run = Checkpoints(FixedClock(NOW)), run_of(root)
    value = value_of(await observed(source, run, alive=True))
    assert value.unlisted == (str(root),) and value.latest_complete is None
    value = value_of(await observed(source, run, alive=True))
    assert value.unlisted == () and value.latest_complete == 7 * (COUNT - NEWEST - MORE)
    whole = [item for item in value.items if item.complete]
    assert len(value.items) == 2 * (NEWEST + MORE) and len(whole) == NEWEST + MORE, (
        "none is lost again"
    )


async def test_one_that_goes_bad_later_is_noticed_when_its_turn_comes(root: Path) -> None:
    source, run = Checkpoints(FixedClock(NOW)), run_of(root)
    for _ in range(3):
        await observed(source, run, alive=True)
    (root / "step-7" / "metadata.json").unlink()
    for _ in range(3):
        value = value_of(await observed(source, run, alive=True))
    assert [item.step for item in value.items if not item.complete] == [7]


async def test_a_folder_above_one_that_came_late_is_looked_into_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levanter(tmp_path / "c" / "run" / "checkpoints", 7)
    monkeypatch.setattr(host, "HERE", HERE._replace(barren=5))
    asked, late = HostTree.fetch, {str(tmp_path / "c" / "run" / "checkpoints")}

    async def without_some(tree: HostTree, *what: Any, **more: Any) -> TreeListing:
        found = await asked(tree, *what, **more)
        for path in late:
            found.levels.pop(path, None)
        return found

    monkeypatch.setattr(HostTree, "fetch", without_some)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path / "c")
    first = value_of(await observed(source, run, alive=True))
    assert first.items == () and first.unjudged
    late.clear()
    assert value_of(await observed(source, run, alive=True)).latest_complete == 7
