"""Two lineages in one folder: nothing of them is deleted, and a relaunch takes its own (SPEC K)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cockpit.actions.retention.retain import Retain
from cockpit.actions.stopping.rollback import Rollback
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.sources.checkpoints.layouts import LAYOUTS
from tests.actions.resting import Rest, blocks, job
from tests.sources.checkpoints.layout_examples import EXAMPLES
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import NOW, hugging_face, put, settle

DAY = 86_400.0
OLD = {500: NOW - 2 * DAY, 600: NOW - 2 * DAY + 600, 700: NOW - 2 * DAY + 1200}
NEW = {100: NOW - 3600, 200: NOW - 3000, 300: NOW - 2400}
LOG = "".join(f"step {step} loss 2.0\n" for step in range(1, 301))


def world(folder: Path, action: Retain | Rollback, log: str = LOG) -> Rest:
    rest = Rest(folder, action, final_step=1000)
    spec = CheckpointSpec(path=(str(rest.root),), layout="hf", keep=2, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    (folder / "run.log").write_text(log)
    for step, at in {**OLD, **NEW}.items():
        hugging_face(rest.root, step, at=at)
    return rest


@pytest.mark.parametrize("log", [LOG, "started\n"])
async def test_with_two_lineages_nothing_is_deleted_and_it_is_said_which_are_whose(
    tmp_path: Path, log: str
) -> None:
    rest = world(tmp_path, Retain(), log)
    plan = await rest.plan()
    assert not plan.targets
    said = blocks(plan)["lineage"]
    assert "this run's: steps 100, 200, 300" in said and "steps 500, 600, 700" in said
    kept = {target.step: target.why for target in plan.keeps}
    assert all("not, or not surely, this run's" in kept[step] for step in OLD)
    assert (await rest.act("delete 4 from toy")).outcome is Outcome.REFUSED
    assert len(rest.names()) == 6


async def test_a_copy_whose_times_are_equal_is_judged_by_the_steps_of_the_log(
    tmp_path: Path,
) -> None:
    rest = world(tmp_path, Retain())
    for folder, _, names in os.walk(rest.root):
        for name in (*names, ""):
            os.utime(Path(folder, name), (NOW, NOW))
    plan = await rest.plan()
    assert not plan.targets and "steps 500, 600, 700" in blocks(plan)["lineage"]


async def test_one_lineage_that_was_only_continued_is_cleaned_up(tmp_path: Path) -> None:
    rest = Rest(tmp_path, Retain(), final_step=1000)
    spec = CheckpointSpec(path=(str(rest.root),), layout="hf", keep=2, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    for step in range(100, 701, 100):
        hugging_face(rest.root, step, at=NOW - DAY + step)
    plan = await rest.plan()
    assert [target.step for target in plan.targets] == [100, 200, 300, 400, 500], blocks(plan)


async def test_a_relaunch_takes_its_own_and_says_whose_the_others_are(tmp_path: Path) -> None:
    value = await world(tmp_path, Retain()).listing()
    assert value.relaunch_from is not None and value.relaunch_from.step == 300
    assert "steps 500, 600, 700" in value.relaunch_from.why
    assert value.latest_complete == 300
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 700


async def test_a_rollback_goes_to_its_own_only_and_what_it_moves_is_never_deleted(
    tmp_path: Path,
) -> None:
    rest = world(tmp_path, Rollback())
    assert "not, or not surely, this run's" in blocks(await rest.plan(to="600"))["checkpoint"]
    plan = await rest.plan(to="300")
    assert not plan.blocked, blocks(plan)
    assert any("this run's: steps 500, 600, 700" in check.text for check in plan.checks)
    assert (await rest.act(plan.words, to="300")).outcome is Outcome.DONE
    moved = {path.parent.name for path in rest.root.glob("rejected-*/*/trainer_state.json")}
    assert moved == {"checkpoint-500", "checkpoint-600", "checkpoint-700"}
    rest.action = Retain()
    again = rest.another()
    plan = await again.plan(rest.request())
    assert [target.step for target in plan.targets] == [100], blocks(plan)


async def test_what_is_rejected_where_it_lies_is_kept_if_another_run_made_it(
    tmp_path: Path,
) -> None:
    rest = world(tmp_path, Rollback())
    rest.spec = rest.spec.model_copy(update={"resubmit": "train --from {checkpoint}"})
    plan = await rest.plan(to="300")
    assert (await rest.act(plan.words, to="300")).outcome is Outcome.DONE
    rest.action = Retain()
    found = await rest.another().plan(rest.request())
    assert {target.step for target in found.targets} <= {100}
    assert {500, 600, 700} <= {target.step for target in found.keeps}


async def test_while_two_jobs_save_into_one_folder_nothing_is_deleted(tmp_path: Path) -> None:
    """The newest save of one of them is an older step than that of the other."""
    rest = Rest(tmp_path, Retain(), final_step=1000)
    spec = CheckpointSpec(path=(str(rest.root),), layout="hf", keep=1, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    for step in (100, 110, 200, 210, 300, 310):
        hugging_face(rest.root, step, at=NOW - 3600 + step)
    rest.platform.living = (job("pid:7"), job("pid:8"))
    plan = await rest.plan()
    assert not plan.targets and "pid:8" in blocks(plan)["C-25"]
    rest.platform.living = (job("pid:7"),)
    assert len((await rest.plan()).targets) == 5


async def test_saves_far_above_and_long_before_all_rows_are_not_surely_this_run_s(
    tmp_path: Path,
) -> None:
    """Nothing tells when the job began: it has an exit file only."""
    rest = world(tmp_path, Retain(), log="".join(f"step {step} loss 2.0\n" for step in range(50)))
    for step in NEW:
        shutil.rmtree(rest.root / f"checkpoint-{step}")
    for step in (300, 400):
        hugging_face(rest.root, step, at=NOW - 2 * DAY - 500 + step)
    plan = await rest.plan()
    assert not plan.targets and "the last step logged is 49" in blocks(plan)["lineage"]
    os.utime(tmp_path / "run.log", (NOW - 2 * DAY + 1300, NOW - 2 * DAY + 1300))
    assert "lineage" not in blocks(await rest.plan()), "the log counts otherwise"


@pytest.mark.parametrize("layout", sorted({*LAYOUTS} - {"nanogpt", "speechbrain"}))
async def test_no_layout_s_saves_are_deleted_beside_those_of_an_older_run(
    tmp_path: Path, layout: str
) -> None:
    """A pointer to the present run's newest save makes the older run's higher ones unknown."""
    rest = Rest(tmp_path, Retain(), final_step=1000)
    spec = CheckpointSpec(path=(str(rest.root),), keep=2, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    (tmp_path / "run.log").write_text(LOG)
    for step, at in {**OLD, **NEW}.items():
        example(rest.root, layout, step, at)
    plan = await rest.plan()
    assert not plan.targets and "steps 500, 600, 700" in blocks(plan)["lineage"]


def example(root: Path, layout: str, step: int, at: float) -> None:
    """Write a layout's own example at another step; its times are all ``at``."""

    def told(text: str) -> str:
        return re.sub("0*500", lambda found: str(step).zfill(len(found[0])), text)

    for name, content in EXAMPLES[layout].items():
        said = content if content.startswith(b"PK") else told(content.decode()).encode()
        path = put(root / told(name), said, at)
        for folder in path.parents[: len(path.relative_to(root).parts) - 1]:
            os.utime(folder, (at, at))


def lightning(step: int) -> dict[str, bytes]:
    return {"": archive({"global_step": step, "epoch": 0, "state_dict": {}})}


def kohya(step: int) -> dict[str, bytes]:
    names = ("model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl")
    return {f"/{name}": b"x" for name in names}


def saved(root: Path, names: dict[str, float], form: Callable[[int], dict[str, bytes]]) -> None:
    """Save under each name at so many seconds before now; the name tells the step."""
    for name, ago in names.items():
        for file, data in form(int(re.findall(r"step=?(\d+)", name)[0])).items():
            put(Path(f"{root / name}{file}"), data, NOW - ago)
        if (root / name).is_dir():
            settle(root / name, NOW - ago)


def named(form: str, **ago: Sequence[tuple[int, float]]) -> dict[str, float]:
    return {form.format(run, step): at for run, each in ago.items() for step, at in each}


FIRST = ((100, 9000.0), (200, 8400.0), (300, 7800.0), (400, 7200.0))
SECOND = ((150, 6000.0), (350, 5400.0), (500, 4800.0), (600, 4200.0))
AT_ONCE = ((100, 6000.0), (200, 5700.0), (300, 5400.0))
SEVERAL = {
    "one after the other": (named("{}_epoch=0_step={}.ckpt", expA=FIRST, expB=SECOND), lightning),
    "the same steps": (named("{}-step={}.ckpt", bert=FIRST, roberta=AT_ONCE), lightning),
    "by number": (named("{}-step={}.ckpt", fold0=FIRST, fold1=AT_ONCE), lightning),
    "number apart": (named("{}-step={}.ckpt", run_1=FIRST, run_2=AT_ONCE), lightning),
    "folders": (named("{}-step{:08d}-state", cat=FIRST, dog=SECOND), kohya),
}


def resting(folder: Path) -> Rest:
    rest = Rest(folder, Retain(), final_step=1000)
    spec = CheckpointSpec(path=(str(rest.root),), keep=2, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    return rest


@pytest.mark.parametrize("name", SEVERAL)
async def test_what_has_the_names_of_several_runs_is_no_ones_for_sure(
    name: str, tmp_path: Path
) -> None:
    rest = resting(tmp_path)
    saved(rest.root, *SEVERAL[name])
    plan = await rest.plan()
    assert not plan.targets and "saves of several runs lie here" in blocks(plan)["lineage"]
    value = await rest.listing()
    assert value.relaunch_from is None and all(item.complete for item in value.items)


ONE_RUN = {
    "a loss in each name": named("epoch=0-step={1}-val_loss={1}.5{0}.ckpt", **{"": FIRST}),
    "two files a save": named("m-step={1}{0}.ckpt", **{"": FIRST, "-EMA": FIRST}),
    "the best ones besides": named("{0}step={1}.ckpt", **{"": FIRST, "best-": FIRST[1:2]}),
    "a new name from one step on": named("{0}-step={1}.ckpt", warm=FIRST[:2], main=FIRST[2:]),
    "the time of each start": named(
        "{0}-step={1}.ckpt", **{"20261120": FIRST[:3], "20261121": FIRST[3:]}
    ),
}


@pytest.mark.parametrize("name", ONE_RUN)
async def test_what_else_a_name_says_makes_no_second_run(name: str, tmp_path: Path) -> None:
    rest = resting(tmp_path)
    saved(rest.root, ONE_RUN[name], lightning)
    plan = await rest.plan()
    assert {target.step for target in plan.targets} == {100, 200}, blocks(plan)


async def test_a_layout_of_its_own_tells_which_are_the_runs(tmp_path: Path) -> None:
    rest = resting(tmp_path)
    saved(rest.root, *SEVERAL["one after the other"])
    own = CustomLayout(pattern=r"expA.*step=(\d+)\.ckpt", marker="")
    spec = rest.spec.checkpoints
    assert spec is not None
    rest.spec = rest.spec.model_copy(
        update={"checkpoints": spec.model_copy(update={"layout": "custom", "custom": own})}
    )
    plan = await rest.plan()
    assert [target.step for target in plan.targets] == [100, 200], blocks(plan)
