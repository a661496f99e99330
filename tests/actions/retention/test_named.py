"""What something names is never deleted: a link, a small file, the trainer's own best (SPEC K).

What a text names is a whole name and a whole number, never the beginning of one.

Two lineages in one folder: nothing of them is deleted, and a relaunch takes its own (SPEC K).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cockpit.actions.retention.other_runs import keeps
from cockpit.actions.retention.retain import RecoverySources, Retain
from cockpit.actions.stopping.rollback import Rollback
from cockpit.hosts import agent
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec, CodeSpec, CustomLayout
from cockpit.sources.checkpoints.layouts import LAYOUTS
from tests.actions.resting import Rest, blocks, job
from tests.rules.making import T0, checkpoint
from tests.sources.checkpoints.layout_examples import EXAMPLES
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import NOW, hugging_face, put, settle
from tests.sources.git.repos import git, repository

STEPS = range(100, 601, 100)


def rest_of(folder: Path, layout: str = "hf") -> Rest:
    rest = Rest(folder, Retain(), final_step=None)
    spec = CheckpointSpec(path=(str(rest.root),), layout=layout, keep=2, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    return rest


def hf(folder: Path, best: Callable[[int], int | None] = lambda step: None) -> Rest:
    rest = rest_of(folder)
    for step in STEPS:
        named = best(step)
        path = None if named is None else f"out/checkpoint-{named}"
        hugging_face(rest.root, step, at=NOW - 7200 + step, best_model_checkpoint=path)
    return rest


def lightning(folder: Path) -> Rest:
    rest = rest_of(folder, "lightning")
    for step in STEPS:
        put(rest.root / f"epoch={step // 100}-step={step}.ckpt", b"x" * 99, NOW - 7200 + step)
    return rest


async def going(rest: Rest) -> dict[int | None, str]:
    """Return why each that stays does; what is listed really goes."""
    plan = await rest.plan()
    assert not plan.blocked, blocks(plan)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert plan.targets
    return {target.step: target.why for target in plan.keeps}


async def test_the_best_by_any_state_of_a_trainer_stays(tmp_path: Path) -> None:
    kept = await going(hf(tmp_path, lambda step: 100))
    assert sorted(kept, key=str) == [100, 500, 600]
    assert "the trainer's best, by checkpoint-" in kept[100]


async def test_a_state_beside_the_saves_names_the_best_too(tmp_path: Path) -> None:
    rest = hf(tmp_path)
    put(rest.root / "trainer_state.json", '{"best_model_checkpoint": "/gone/checkpoint-200/"}')
    assert "trainer's best, by trainer_state.json" in (await going(rest))[200]


async def test_a_run_that_improves_with_every_save_is_cleaned_up(tmp_path: Path) -> None:
    assert sorted(await going(hf(tmp_path, lambda step: step)), key=str) == [500, 600]


@pytest.mark.parametrize("state", [b"", b"\0" * 300, b'{"best_model_ch'])
async def test_where_a_state_cannot_be_read_nothing_whole_goes(
    tmp_path: Path, state: bytes
) -> None:
    rest = hf(tmp_path)
    put(rest.root / "checkpoint-300" / "trainer_state.json", state, NOW - 6900)
    plan = await rest.plan()
    assert all(target.step == 300 for target in plan.targets)
    kept = {target.step: target.why for target in plan.keeps}
    assert "the best one is unknown: checkpoint-300/trainer_state.json" in kept[100]


async def test_what_a_link_in_the_root_leads_to_stays(tmp_path: Path) -> None:
    rest = hf(tmp_path)
    (rest.root / "best").symlink_to("checkpoint-200")
    assert "best leads to it" in (await going(rest))[200]
    assert (rest.root / "best" / "trainer_state.json").exists()


async def test_a_link_beside_the_root_and_into_a_save_counts_too(tmp_path: Path) -> None:
    rest = hf(tmp_path)
    (rest.root.parent / "serve").symlink_to(rest.root / "checkpoint-200" / "model.safetensors")
    assert "out/serve leads to it" in (await going(rest))[200]


async def test_what_last_ckpt_leads_to_stays(tmp_path: Path) -> None:
    rest = lightning(tmp_path)
    (rest.root / "last.ckpt").symlink_to("epoch=2-step=200.ckpt")
    assert "last.ckpt leads to it" in (await going(rest))[200]
    assert (rest.root / "last.ckpt").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [("LATEST", "epoch=2-step=200.ckpt\n"), ("best_checkpoint", "out/epoch=2-step=200.ckpt")],
)
async def test_what_a_small_file_names_stays(tmp_path: Path, name: str, says: str) -> None:
    rest = lightning(tmp_path)
    put(rest.root / name, says)
    assert f"{name} names it" in (await going(rest))[200]


async def test_what_is_named_as_the_last_or_the_best_stays(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, "nanogpt")
    for name in ("ckpt_step_100.pt", "ckpt_step_200.pt", "ckpt_step_300.pt", "step_50_best.pt"):
        put(rest.root / name, b"x" * 99, NOW - 7200 + int(name.split("_")[-1][:-3] or 0)
            if name[0] == "c" else NOW - 7150)  # fmt: skip
    plan = await rest.plan()
    why = {target.path.rpartition("/")[2]: target.why for target in plan.keeps}
    assert "it is named as the best one" in why["step_50_best.pt"]


async def test_a_rejected_one_that_a_link_leads_to_stays(tmp_path: Path) -> None:
    rest = hf(tmp_path)
    (rest.root / "best").symlink_to("checkpoint-200")
    marks = '{"rejected": [{"name": "checkpoint-200", "step": 200, "at": 0, "by": "ada",'
    put(rest.root / ".cockpit" / "rejected.json", marks + ' "reason": "no good"}]}')
    assert "best leads to it" in (await going(rest))[200]


async def test_what_a_seal_tag_of_the_run_names_stays(tmp_path: Path) -> None:
    rest = hf(tmp_path)
    code = repository(tmp_path / "code")
    for tag in ("seal/toy/200", "seal/toy/final", "seal/other/300"):
        git(code, "tag", "-a", "-m", "sealed", tag)
    rest.spec = rest.spec.model_copy(update={"code": CodeSpec(repo=str(code))})
    kept = await going(rest)
    assert sorted(kept, key=str) == [200, 500, 600]
    assert kept[200] == "the run was sealed at step 200"


async def test_a_description_for_people_does_not_make_shards_whole(tmp_path: Path) -> None:
    """Some trainers write metadata.json while the shards are still being flushed."""
    rest = rest_of(tmp_path, "auto")
    for step in (100, 200, 300):
        save, at = rest.root / f"step_{step}", NOW - 7200 + step
        put(save / "metadata.json", b'{"step": %d, "tokens_seen": 1}' % step, at)
        put(save / "__0_0.distcp", b"x" * 99, at)
        if step < 300:
            put(save / ".metadata", b"m", at)
    plan = await rest.plan()
    assert {target.step for target in plan.targets} <= {300}
    assert {target.step for target in plan.keeps} >= {100, 200}


WAIT = (sys.executable, "-c", "import time; time.sleep(60)")


def using(root: Path, words: Sequence[str], reads: str) -> subprocess.Popen[bytes]:
    told = [word.replace("{root}", str(root)) for word in words]
    with Path(reads.replace("{root}", str(root))).open() as source:
        return subprocess.Popen([*WAIT, *told], cwd=root, stdin=source)


@pytest.mark.parametrize(
    ("words", "reads", "why"),
    [
        (("convert.py", "{root}/checkpoint-100"), "/dev/null", "names it"),
        (("--args=pretrained=checkpoint-100/model.bin,dtype=auto",), "/dev/null", "names it"),
        (("file://{root}/checkpoint-100",), "/dev/null", "names it"),
        (("{root}/checkpoint-100@main",), "/dev/null", "names it"),
        (("--model=~/out/checkpoints/checkpoint-100",), "/dev/null", "may name it"),
        (("../../served/model.safetensors",), "/dev/null", "names it"),
        ((), "{root}/checkpoint-100/trainer_state.json", "has it open"),
    ],
)
async def test_what_a_living_program_uses_stays(
    tmp_path: Path, words: tuple[str, ...], reads: str, why: str
) -> None:
    """An evaluation, a server or an upload would fail, or go on with half a save."""
    rest = hf(tmp_path)
    (tmp_path / "served").symlink_to(rest.root / "checkpoint-100")
    program = using(rest.root, words, reads)
    try:
        kept = await going(rest)
    finally:
        program.kill()
        program.wait()
    assert sorted(kept, key=str) == [100, 500, 600]
    assert f"pid {program.pid} " in kept[100] and kept[100].endswith(why)


async def test_a_sign_that_a_name_holds_hides_no_save_from_a_program_that_uses_it(
    tmp_path: Path,
) -> None:
    rest = lightning(tmp_path)
    program = using(rest.root, ["--ckpt={root}/epoch=2-step=200.ckpt"], "/dev/null")
    try:
        kept = await going(rest)
    finally:
        program.kill()
        program.wait()
    assert kept[200].endswith("names it")


async def test_what_a_program_has_open_behind_a_root_that_is_a_link_stays(tmp_path: Path) -> None:
    """The machine tells where the open file really lies: on the disk that the root leads to."""
    rest = hf(tmp_path)
    rest.root.rename(tmp_path / "disk")
    rest.root.symlink_to(tmp_path / "disk")
    program = using(rest.root, (), "{root}/checkpoint-100/trainer_state.json")
    try:
        kept = await going(rest)
    finally:
        program.kill()
        program.wait()
    assert kept[100].endswith("has it open")


READS_ANY = (
    ("eval.py", "--weights-dir", "{root}", "--watcher"),
    ("upload_to_hub.py", "--every", "60", "{root}/.."),
    ("train.py", "--mode=eval", "--model_dir={root}"),
    ("llamafactory-cli", "export", "{root}"),
    ("rsync", "-a", "{root}/", "host:/copy"),
    ("aws", "s3", "sync", ".", "s3://bucket/out"),
)
READS_NONE = (
    ("train.py", "--output_dir", "{root}"),
    ("tensorboard", "--logdir", "{root}"),
    ("plot.py", "{root}"),
    ("eval.py", "--weights-dir", "{root}/../../other"),
    ("rsync", "-a", "/etc", "host:/copy"),
    ("eval_loop.sh", "300"),
)


def as_named(folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that is called and told so, in a folder; scripts are run by Python."""
    told = [word.replace("{root}", str(folder)) for word in words]
    script = [sys.executable] if told[0].endswith((".py", ".sh", "-cli")) else []
    (folder.parent / told[0]).write_text("import time\ntime.sleep(60)\n")
    if script:
        return subprocess.Popen([*script, str(folder.parent / told[0]), *told[1:]], cwd=folder)
    return subprocess.Popen(
        [told[0], "-c", "import time; time.sleep(60)", *told[1:]],
        cwd=folder,
        executable=sys.executable,
    )


@pytest.mark.parametrize("words", READS_ANY)
async def test_what_may_read_any_save_of_a_folder_it_was_told_is_for_a_person_to_judge(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """An evaluation takes one after another, a copy comes to each in its turn."""
    rest = hf(tmp_path)
    program = as_named(rest.root, words)
    try:
        plan = await rest.plan()
    finally:
        program.kill()
        program.wait()
    (check,) = [each for each in plan.checks if each.stands_in_the_way]
    assert (check.id, check.overridable) == ("in-use", True)
    assert f"pid {program.pid} ({words[0]}) was told " in check.text


@pytest.mark.parametrize("words", READS_NONE)
async def test_who_trains_there_or_shows_what_is_logged_stands_in_no_way(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    rest = hf(tmp_path)
    program = as_named(rest.root, words)
    try:
        assert sorted(await going(rest), key=str) == [500, 600]
    finally:
        program.kill()
        program.wait()


SHIM = [
    5,
    1,
    5,
    5,
    0,
    "S",
    4,
    ["/usr/bin/containerd-shim-runc-v2", "-id", "3f"],
    "/",
    None,
    None,
    [],
]


@pytest.mark.parametrize(
    ("parent", "folder", "word"),
    [
        (1, None, "checkpoint-100"),
        (1, None, "../out/checkpoints/checkpoint-100/x"),
        (5, "/app", "/mounted/checkpoint-100"),
        (1, None, "100"),
        (5, "/app", "100"),
        (1, None, "their/checkpoint-100"),
        (1, "/app", "/mounted/checkpoint-100"),
    ],
)
async def test_what_the_program_of_another_user_or_container_was_told_may_lie_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: int, folder: str | None, word: str
) -> None:
    """The work folder of the one and the mounts of the other are not told to us."""
    rest = hf(tmp_path)
    argv = ["eval", f"--model={word}"]
    theirs = [7, parent, 7, 7, 1234, "S", 5, argv, folder, None, False, []]
    monkeypatch.setitem(agent.CALLS, "processes", lambda **asked: [SHIM, theirs])
    kept = await going(rest)
    elsewhere = word.isdigit() or word.startswith("their/") or (parent, folder) == (1, "/app")
    assert kept.get(100) == (None if elsewhere else "the command of pid 7 (eval) may name it")


def named(line: str, step: int = 10, path: str | None = None) -> bool:
    item = checkpoint(step, T0)
    item = item if path is None else item.model_copy(update={"path": path})
    return RecoverySources(lines=(line,)).why(item) is not None


@pytest.mark.parametrize(
    "line",
    [
        "- Next: relaunch from /c/step-10", "relaunch from `/c/step-10`.", "from: step-10, of ada",
        "back to step 10", "from step 10 (the last good one)", "resumed at step=10",
        "checkpoint 10", "/other/step-10/metadata.json", "step-000010",
    ],
)  # fmt: skip
def test_it_is_named(line: str) -> None:
    assert named(line)


@pytest.mark.parametrize(
    "line",
    [
        "- Next: relaunch from /c/step-100", "step-100", "step 100", "step 10,000", "step 10.5",
        "steps 1 to 9", "/c/step-10-old", "last-step-10", "substep 10", "2026-03-10 10:10",
        "10 checkpoints", "checkpoint 100",
    ],
)  # fmt: skip
def test_it_is_not_named(line: str) -> None:
    assert not named(line)


def test_a_bare_number_needs_a_path_or_a_word() -> None:
    assert named("from /c/10", path="/c/10") and named("step 10", path="/c/10")
    assert not named("lost 10 steps at 10:10", path="/c/10")
    assert not named("from /c/100", path="/c/10")


def test_separators_are_part_of_a_number() -> None:
    assert named("step 1,000", 1000) and named("step 1000", 1000)
    assert not named("step 1,000,000", 1000) and not named("step 21,000", 1000)


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("/c/step-10", True), ("/c/step-10/d/0", True), ("/c/step-1*", True), ("/*/step-10", True),
        ("*/step-10", True), ("*/c/step-10/d", True), ("*/step-1?/*", True), ("/c/*", True),
        ("/c", False), ("/c/step-1", False), ("/*", False), ("/*/step-1", False), ("*/*", False),
        ("/c/step-1*0/../x", True), ("*/other/step-10", False), ("*/c", False), ("*/*.bin", False),
        ("c/step-10", False), ("/d/c/step-10", False), ("/c/*/d", True), ("/*/*.bin", False),
    ],
)  # fmt: skip
def test_a_place_keeps_the_save_that_it_is_or_lies_in(place: str, kept: bool) -> None:
    assert keeps(place, "/c/step-10") is kept


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


def mixed_lightning(step: int) -> dict[str, bytes]:
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


def mixed_named(form: str, **ago: Sequence[tuple[int, float]]) -> dict[str, float]:
    return {form.format(run, step): at for run, each in ago.items() for step, at in each}


FIRST = ((100, 9000.0), (200, 8400.0), (300, 7800.0), (400, 7200.0))
SECOND = ((150, 6000.0), (350, 5400.0), (500, 4800.0), (600, 4200.0))
AT_ONCE = ((100, 6000.0), (200, 5700.0), (300, 5400.0))
SEVERAL = {
    "one after the other": (
        mixed_named("{}_epoch=0_step={}.ckpt", expA=FIRST, expB=SECOND),
        mixed_lightning,
    ),
    "the same steps": (
        mixed_named("{}-step={}.ckpt", bert=FIRST, roberta=AT_ONCE),
        mixed_lightning,
    ),
    "by number": (mixed_named("{}-step={}.ckpt", fold0=FIRST, fold1=AT_ONCE), mixed_lightning),
    "number apart": (mixed_named("{}-step={}.ckpt", run_1=FIRST, run_2=AT_ONCE), mixed_lightning),
    "by a setting": (
        mixed_named("{}-step={}.ckpt", **{"lr=0.1": FIRST, "lr=1e-2": AT_ONCE}),
        mixed_lightning,
    ),
    "folders": (mixed_named("{}-step{:08d}-state", cat=FIRST, dog=SECOND), kohya),
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
    "a loss in each name": mixed_named("epoch=0-step={1}-val_loss={1}.5{0}.ckpt", **{"": FIRST}),
    "two files a save": mixed_named("m-step={1}{0}.ckpt", **{"": FIRST, "-EMA": FIRST}),
    "the best ones besides": mixed_named("{0}step={1}.ckpt", **{"": FIRST, "best-": FIRST[1:2]}),
    "a new name from one step on": mixed_named("{0}-step={1}.ckpt", warm=FIRST[:2], main=FIRST[2:]),
    "the time of each start": mixed_named(
        "{0}-step={1}.ckpt", **{"20261120": FIRST[:3], "20261121": FIRST[3:]}
    ),
}


@pytest.mark.parametrize("name", ONE_RUN)
async def test_what_else_a_name_says_makes_no_second_run(name: str, tmp_path: Path) -> None:
    rest = resting(tmp_path)
    saved(rest.root, ONE_RUN[name], mixed_lightning)
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
