"""What something names is never deleted: a link, a small file, the trainer's own best (SPEC K)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cockpit.actions.retention.retain import Retain
from cockpit.hosts import agent
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec, CodeSpec
from tests.actions.resting import Rest, blocks
from tests.sources.checkpoints.trees import NOW, hugging_face, put
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
