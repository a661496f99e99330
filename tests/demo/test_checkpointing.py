from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.demo import model
from cockpit.demo.model import ModelShape
from cockpit.demo.writing import Checkpointer, TrainingState, complete_checkpoints

SHAPE = ModelShape(vocabulary=5, context=2, embedding=2, hidden=3)


def state(step: int, seed: int = 0) -> TrainingState:
    return TrainingState(step, model.initial(SHAPE, seed), model.initial(SHAPE, seed + 1))


@pytest.fixture
def keeper(tmp_path: Path) -> Checkpointer:
    return Checkpointer(tmp_path / "checkpoints", tmp_path / "temporary", keep_temporary=2)


def steps(root: Path) -> list[int]:
    return [step for (step, _, _), _ in complete_checkpoints(root)]


def test_what_was_saved_is_loaded_to_the_bit(keeper: Checkpointer) -> None:
    folder = keeper.save(state(12), permanent=True)
    assert keeper.load(folder, SHAPE) == state(12)


def test_the_metadata_has_levanters_three_keys(keeper: Checkpointer) -> None:
    folder = keeper.save(state(12), permanent=False)
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata.keys() == {"step", "timestamp", "is_temporary"}
    assert (metadata["step"], metadata["is_temporary"]) == (12, True)


def test_the_last_temporary_ones_are_kept_and_a_permanent_save_deletes_all(
    keeper: Checkpointer,
) -> None:
    for step in (5, 9, 13):
        keeper.save(state(step), permanent=False)
    assert steps(keeper.temporary) == [9, 13]
    keeper.save(state(20), permanent=True)
    assert steps(keeper.temporary) == []
    assert steps(keeper.permanent) == [20]


def test_the_newest_over_both_roots_is_found_by_its_metadata(keeper: Checkpointer) -> None:
    keeper.save(state(100), permanent=True)
    newest = keeper.save(state(105), permanent=False)
    (keeper.permanent / "step-900").mkdir()
    (keeper.permanent / "step-901").mkdir()
    (keeper.permanent / "step-901" / "metadata.json").write_text('{"step": 901')
    assert keeper.newest() == newest


def test_without_a_complete_one_there_is_none(keeper: Checkpointer) -> None:
    assert keeper.newest() is None


def test_a_checkpoint_of_another_shape_is_refused(keeper: Checkpointer) -> None:
    folder = keeper.save(state(3), permanent=True)
    with pytest.raises(ValueError, match="numbers, expected"):
        keeper.load(folder, ModelShape(vocabulary=6, context=2, embedding=2, hidden=3))


def test_cut_off_before_the_end_it_is_torn(tmp_path: Path) -> None:
    class CutError(Exception):
        pass

    calls: list[float] = []

    def wait(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 4:
            raise CutError

    keeper = Checkpointer(tmp_path / "a", tmp_path / "b", shard_seconds=0.1, wait=wait)
    with pytest.raises(CutError):
        keeper.save(state(8), permanent=True)
    folder = keeper.permanent / "step-8"
    assert keeper.newest() is None
    assert len([path for path in (folder / "d").iterdir() if path.suffix != ".__lock"]) == 3
    assert len(list((folder / "d").glob("*.__lock"))) == 1
    assert (folder / "manifest.ocdbt").exists()
