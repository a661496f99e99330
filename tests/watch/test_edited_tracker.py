"""Rows after an edit of the run file: each is folded once, and all of them are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.sources.trackers import Trackers
from cockpit.watch.fleet import Fleet
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.runstate import Rows
from tests.queries import queries_of
from tests.sources.wandb import writer

T0 = 1_700_000_000.0
EVENTS = Path(__file__).resolve().parents[1] / "data" / "tensorboard" / "scalars.tfevents"
LAST = {"wandb": 4, "tensorboard": 2000}


class Edited:
    """A fleet of one run whose tracker is read, and whose run file is edited."""

    def __init__(self, folder: Path) -> None:
        self.trackers = Trackers(SystemClock())
        self.dir = str(folder)
        rows = [writer.row(step, "2.5", T0 + step) for step in range(LAST["wandb"] + 1)]
        (folder / "run-abc.wandb").write_bytes(writer.log([writer.run("abc", T0), *rows]))
        (folder / "events.out.tfevents.1.node-1").write_bytes(EVENTS.read_bytes())
        self.fleet = Fleet(self.file(), forget=self.trackers.forget)

    def file(self, *runs: RunSpec) -> CockpitFile:
        return CockpitFile(path="/x/cockpit.toml", runs=runs)

    def run(self, kind: str, **more: Any) -> RunSpec:
        own: dict[str, Any] = {"wandb": {"id": "abc"}, "tensorboard": {}}[kind]
        return RunSpec.model_validate({"name": "hero", kind: {**own, "dir": self.dir, **more}})

    def edit(self, *runs: RunSpec) -> None:
        self.fleet.adopt(self.file(*runs))

    async def read(self) -> Rows:
        """Look at the tracker and fold all that it gives."""
        state = self.fleet.states["hero"]
        await self.trackers.observe(queries_of([state.spec]))
        while not (await feed_chunk(self.trackers, state.spec, state.rows)).caught_up:
            pass
        return state.rows


def is_whole(rows: Rows, kind: str) -> bool:
    """Tell whether every row of a tracker was folded, and once."""
    folded = rows.trend.stepping
    return rows.complete and (folded.step, folded.backs) == (LAST[kind], 0)


@pytest.fixture
def edited(tmp_path: Path) -> Edited:
    return Edited(tmp_path)


@pytest.mark.parametrize("kind", ["wandb", "tensorboard"])
async def test_another_metric_makes_no_step_one_that_was_trained_again(
    edited: Edited, kind: str
) -> None:
    edited.edit(edited.run(kind))
    assert is_whole(await edited.read(), kind)
    edited.edit(edited.run(kind, metrics={"grad_norm": "norm"}))
    assert is_whole(await edited.read(), kind)


@pytest.mark.parametrize("kind", ["wandb", "tensorboard"])
async def test_a_run_that_is_named_again_has_all_of_its_rows_again(
    edited: Edited, kind: str
) -> None:
    edited.edit(edited.run(kind))
    assert is_whole(await edited.read(), kind)
    edited.edit()
    edited.edit(edited.run(kind))
    assert is_whole(await edited.read(), kind)


async def test_another_kind_of_tracker_is_read_from_its_first_row(edited: Edited) -> None:
    for kind in ("wandb", "tensorboard", "wandb"):
        edited.edit(edited.run(kind))
        assert is_whole(await edited.read(), kind)


async def test_an_edit_that_is_not_of_the_tracker_has_no_row_read_again(edited: Edited) -> None:
    edited.edit(edited.run("wandb"))
    rows = await edited.read()
    edited.edit(edited.run("wandb").model_copy(update={"cadence": 60.0}))
    assert await edited.read() is rows and is_whole(rows, "wandb")
