"""What each trainer's own files tell: whole, torn, ahead of its pointer, one save of many files."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.observed import CheckpointsValue
from cockpit.model.place import place_of
from cockpit.sources.checkpoints.assembly import Surveyed, Want
from cockpit.sources.checkpoints.bucket import Survey
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.judge import Circumstances, judge_listing
from tests.sources.checkpoints.layout_examples import ZIP
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import NOW, put, roots_at, settle

X = b"x"


def grown(folder: Path, files: Mapping[str, bytes], at: float = NOW - 3600) -> Path:
    for path, content in files.items():
        put(folder / path, content, at)
    return settle(folder, at)


def value_of(folder: Path) -> CheckpointsValue:
    return judge_listing(roots_at(folder), Circumstances(NOW, alive=False))


def told(folder: Path) -> dict[str, str]:
    return {
        item.path.removeprefix(f"{folder}/"): item.state.value for item in value_of(folder).items
    }


def verl(step: int, ranks: tuple[int, ...] = (0, 1), data: bool = True) -> dict[str, bytes]:
    kinds = ("model", "optim", "extra_state")
    actor = f"global_step_{step}/actor"
    files = {f"{actor}/{kind}_world_size_2_rank_{r}.pt": X for kind in kinds for r in ranks}
    return {**files, **({f"global_step_{step}/data.pt": X} if data else {})}


def veomni(step: int, manifest: bool = True, without: str = "") -> dict[str, bytes]:
    name = f"global_step_{step}"
    files = {f"{name}/extra_state/rank_0.pt": X, f"{name}/model/lr_scheduler.pt": X}
    for part in ("ckpt", "optimizer"):
        files |= {f"{name}/model/{part}/__0_0.distcp": X}
        files |= {f"{name}/model/{part}/.metadata": X} if part != without else {}
    return files | ({f"{name}/checkpoint_manifest.json": b"{}"} if manifest else {})


def of_modules(
    step: int, *lost: str, manifest: bytes = b'{"modules": ["a", "b"]}'
) -> dict[str, bytes]:
    name = f"global_step_{step}"
    files = {f"{name}/checkpoint_manifest.json": manifest, f"{name}/extra_state/rank_0.pt": X}
    for module in ("a", "b"):
        files |= {f"{name}/model/{module}/lr_scheduler.pt": X}
        for part in ("ckpt", "optimizer"):
            below = f"{name}/model/{module}/{part}"
            files |= {f"{below}/__0_0.distcp": X, f"{below}/.metadata": X}
    return {path: content for path, content in files.items() if not any(map(path.count, lost))}


def nemo(name: str, described: bool = True) -> dict[str, bytes]:
    files = {f"{name}/weights/__0_0.distcp": X, f"{name}/context/model.yaml": X}
    return {**files, **({f"{name}/weights/.metadata": X} if described else {})}


def automodel(step: int, described: bool = True, mark: bool = False) -> dict[str, bytes]:
    name = f"epoch_0_step_{step}"
    files = {f"{name}/model/model.safetensors": X, f"{name}/optim/__0_0.distcp": X}
    files |= {f"{name}/optim/.metadata": X} if described else {}
    return files | ({f"{name}/.incomplete": b""} if mark else {})


def nanochat(step: int, ranks: int = 2) -> dict[str, bytes]:
    files = {f"model_{step:06}.pt": ZIP, f"meta_{step:06}.json": b"{}"}
    return files | {f"optim_{step:06}_rank{rank}.pt": ZIP for rank in range(ranks)}


def core(step: int, marker: bool = True) -> dict[str, bytes]:
    files = {
        f"step{step}/train/rank0.pt": X,
        f"step{step}/model_and_optim/.metadata": X,
        f"step{step}/model_and_optim/__0_0.distcp": X,
    }
    return files | ({f"step{step}/.metadata.json": b"{}"} if marker else {})


TRACKER = "latest_checkpointed_iteration.txt"
CASES: dict[str, tuple[Mapping[str, bytes], Mapping[str, str]]] = {
    "VeOmni: the shards of an asynchronous save go on after its manifest": (
        veomni(100) | veomni(200, without="optimizer") | veomni(300, manifest=False),
        {
            "global_step_100": "complete",
            "global_step_200": "incomplete",
            "global_step_300": "incomplete",
        },
    ),
    "VeOmni: its manifest names the modules, each of which has weights": (
        of_modules(100) | of_modules(200, "model/b/ckpt") | of_modules(300, "model/b/"),
        {
            "global_step_100": "complete",
            "global_step_200": "incomplete",
            "global_step_300": "incomplete",
        },
    ),
    "VeOmni: no module alone lacks its optimizer, and no save the state of the ranks": (
        of_modules(100, "b/optimizer")
        | of_modules(200)
        | of_modules(300, "extra_state")
        | of_modules(400, "/optimizer"),
        {
            "global_step_100": "unknown",
            "global_step_200": "complete",
            "global_step_300": "unknown",
            "global_step_400": "complete",
        },
    ),
    "VeOmni: the manifest is damaged": (
        of_modules(100)
        | of_modules(200, manifest=b'{"modules": [')
        | of_modules(300, manifest=b""),
        {
            "global_step_100": "complete",
            "global_step_200": "incomplete",
            "global_step_300": "incomplete",
        },
    ),
    "verl: a rank's file of the world size is missing": (
        verl(90) | verl(100, ranks=(0,)),
        {"global_step_90": "complete", "global_step_100": "incomplete"},
    ),
    "verl: the state of the data comes last, and may be missing": (
        verl(90, data=False),
        {"global_step_90": "unknown"},
    ),
    "verl: newer than the pointer": (
        verl(90) | verl(100) | {TRACKER: b"90"},
        {"global_step_90": "complete", "global_step_100": "unknown"},
    ),
    "NeMo: its own mark lies beside it": (
        nemo("gpt--step=99") | nemo("gpt--step=199-last") | {"gpt--step=199-last-unfinished": b""},
        {"gpt--step=99": "complete", "gpt--step=199-last": "incomplete"},
    ),
    "NeMo: shards that nothing describes": (
        nemo("gpt--step=99") | nemo("gpt--step=199-last", described=False),
        {"gpt--step=99": "complete", "gpt--step=199-last": "incomplete"},
    ),
    "AutoModel: its own mark lies in it": (
        automodel(20) | automodel(40, mark=True),
        {"epoch_0_step_20": "complete", "epoch_0_step_40": "incomplete"},
    ),
    "AutoModel: the optimizer is not described": (
        automodel(20) | automodel(40, described=False) | {"LATEST": b"epoch_0_step_20"},
        {"epoch_0_step_20": "complete", "epoch_0_step_40": "incomplete"},
    ),
    "AutoModel: newer than LATEST": (
        automodel(20) | automodel(40) | {"LATEST.txt": b"epoch_0_step_20"},
        {"epoch_0_step_20": "complete", "epoch_0_step_40": "unknown"},
    ),
    "Composer: files": (
        {"ep0-ba1000-rank0.pt": ZIP, "ep0-ba2000-rank0.pt": ZIP[:-30], "ep1-ba3000-rank0.pt": b""},
        {
            "ep0-ba1000-rank0.pt": "complete",
            "ep0-ba2000-rank0.pt": "incomplete",
            "ep1-ba3000-rank0.pt": "incomplete",
        },
    ),
    "Composer: folders of shards": (
        {
            "ep0-ba10/.metadata": X,
            "ep0-ba10/__0_0.distcp": X,
            "ep0-ba20/__0_0.distcp": X,
        },
        {"ep0-ba10": "complete", "ep0-ba20": "incomplete"},
    ),
    "torchtune: the recipe's state comes last": (
        {
            "epoch_0/model-00001-of-00001.safetensors": X,
            "epoch_0/recipe_state.pt": X,
            "epoch_1/model-00001-of-00001.safetensors": X,
        },
        {"epoch_0": "complete", "epoch_1": "unknown"},
    ),
    "torchtune: a part of the weights is missing": (
        {"step_10/model-00001-of-00002.safetensors": X, "step_10/recipe_state.pt": X},
        {"step_10": "incomplete"},
    ),
    "litgpt: the descriptions come last": (
        {
            "step-00000100/lit_model.pth": X,
            "step-00000100/hyperparameters.yaml": X,
            "step-00000200/lit_model.pth": X,
        },
        {"step-00000100": "complete", "step-00000200": "incomplete"},
    ),
    "litgpt: an adapter cannot be resumed": (
        {"step-000100/lit_model.pth.lora": X, "step-000100/hyperparameters.yaml": X},
        {"step-000100": "unknown"},
    ),
    "OLMo-core: its mark comes last": (
        core(100) | core(200, marker=False),
        {"step100": "complete", "step200": "incomplete"},
    ),
    "OLMo: whole under its own name": (
        {
            **{f"step100-unsharded/{n}.pt": X for n in ("model", "optim", "train")},
            **{f"step200-unsharded/{n}.pt": X for n in ("model", "optim")},
            **{f"step300-tmp/{n}.pt": X for n in ("model", "optim", "train")},
        },
        {
            "step100-unsharded": "complete",
            "step200-unsharded": "unknown",
            "step300-tmp": "incomplete",
        },
    ),
    "nanochat: as many optimizers as its neighbours": (
        nanochat(100) | nanochat(200, ranks=1),
        {"model_000100.pt": "complete", "model_000200.pt": "incomplete"},
    ),
    "torchtitan: another description": (
        {
            "step-500/metadata.pkl": X,
            "step-500/__0_0.distcp": X,
            "step-1000/__0_0.distcp": X,
        },
        {"step-500": "complete", "step-1000": "incomplete"},
    ),
    "DeepSpeed: tags of one's own": (
        {f"{tag}/mp_rank_00_model_states.pt": X for tag in ("best", "epoch_3", "epoch_10")}
        | {"latest": b"epoch_10"},
        {"best": "complete", "epoch_3": "complete", "epoch_10": "complete"},
    ),
    "accelerate: names of one's own": (
        {
            f"lora-00000{n}-state/{name}": X
            for n in (1, 2)
            for name in (*("random_states_0.pkl", "optimizer.bin", "model.safetensors"),)
        },
        {"lora-000001-state": "complete", "lora-000002-state": "complete"},
    ),
    "a staging name, however whole": (
        {
            f"{name}/{file}": b"{}"
            for name in ("checkpoint-10", "tmp-checkpoint-20")
            for file in ("model.safetensors", "optimizer.pt", "trainer_state.json")
        },
        {"checkpoint-10": "complete", "tmp-checkpoint-20": "unknown"},
    ),
    "t5x: whole once it is renamed": (
        {
            f"checkpoint_{step}/{file}": X
            for step in ("100", "200", "300.tmp-1699")
            for file in ("checkpoint", "target.kernel/.zarray", "target.kernel/0.0")
        },
        {
            "checkpoint_100": "complete",
            "checkpoint_200": "complete",
            "checkpoint_300.tmp-1699": "unknown",
        },
    ),
    "Ray Train: a trainer's files in a folder of that name, and a count for a step": (
        {
            f"checkpoint_{n:06d}/checkpoint/{file}": X
            for n in range(3)
            for file in ("model.safetensors", "optimizer.pt", "trainer_state.json")
        },
        {f"checkpoint_{n:06d}": "unknown" for n in range(3)},
    ),
    "Orbax before it had a mark at the top": (
        {
            f"{n}/items/{file}": X
            for n in (100, 200)
            for file in ("_METADATA", "d/0", "manifest.ocdbt")
        },
        {"100": "complete", "200": "complete"},
    ),
    "Orbax: beside marked saves its trainer takes whatever is named like one": (
        {
            f"{n}/{file}": X
            for n in (100, 200)
            for file in ("_CHECKPOINT_METADATA", "items/_METADATA", "items/d/0")
        }
        | {"300/items/_METADATA": X, "300/items/d/0": X, "400/items/d/0": X, "2026/notes.txt": X}
        | {"eval_7/notes.txt": X},
        {
            "100": "complete",
            "200": "complete",
            "300": "unknown",
            "400": "unknown",
            "2026": "unknown",
        },
    ),
    "SkyRL: newer than its pointer": (
        {path.replace("actor", "policy"): X for step in (90, 100) for path in verl(step)}
        | {"latest_ckpt_global_step.txt": b"90"},
        {"global_step_90": "complete", "global_step_100": "unknown"},
    ),
    "Lightning: a folder of each start": (
        {f"lightning_logs/version_0/checkpoints/epoch=0-step={n}.ckpt": ZIP for n in (100, 200)},
        {
            f"lightning_logs/version_0/checkpoints/epoch=0-step={n}.ckpt": "complete"
            for n in (100, 200)
        },
    ),
    "a mark of somebody's own": (
        {f"step-{n}/{name}": X for n in (10, 20) for name in (".metadata", "__0_0.distcp")}
        | {"step-10/.complete": b""},
        {"step-10": "complete", "step-20": "unknown"},
    ),
    "litgpt: none has a description": (
        {f"step-00000{n}00/lit_model.pth": X for n in (1, 2)},
        {"step-00000100": "unknown", "step-00000200": "unknown"},
    ),
    "nanochat: fewer ranks from a step on": (
        nanochat(100) | nanochat(200, ranks=1) | nanochat(300, ranks=1),
        {f"model_000{n}00.pt": "complete" for n in (1, 2, 3)},
    ),
    "shards: one save of many files": (
        {f"checkpoint_2_100-model_part-0-shard{n}.pt": ZIP for n in range(4)}
        | {f"checkpoint_2_200-model_part-0-shard{n}.pt": ZIP for n in (0, 1, 3)}
        | {"checkpoint_2_200-model_part-0-shard2.pt.tmp": ZIP},
        {
            "checkpoint_2_100-model_part-0-shard0.pt": "complete",
            "checkpoint_2_200-model_part-0-shard0.pt": "incomplete",
        },
    ),
    "shards: one of them is cut off": (
        {f"checkpoint_2_100-shard{n}.pt": ZIP for n in range(2)}
        | {"checkpoint_2_200-shard0.pt": ZIP, "checkpoint_2_200-shard1.pt": ZIP[:-30]},
        {"checkpoint_2_100-shard0.pt": "complete", "checkpoint_2_200-shard0.pt": "incomplete"},
    ),
    "shards: nothing tells how many there must be": (
        {f"checkpoint_2_100-shard{n}.pt": ZIP for n in range(2)},
        {"checkpoint_2_100-shard0.pt": "unknown"},
    ),
    "ranks: a folder each": (
        {f"mp_rank_0{n}/step=20.ckpt": ZIP for n in range(2)} | {"mp_rank_00/step=30.ckpt": ZIP},
        {"mp_rank_00/step=20.ckpt": "complete", "mp_rank_00/step=30.ckpt": "incomplete"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_save_is_judged_by_what_its_trainer_writes(case: str, tmp_path: Path) -> None:
    files, expected = CASES[case]
    assert told(grown(tmp_path / "saves", files)) == expected


MEGATRON = ("__0_0.distcp", "__1_0.distcp", "common.pt", ".metadata", "metadata.json")


def megatron(folder: Path, steps: tuple[int, ...], pointer: bytes) -> Path:
    files = {f"iter_{step:07}/{name}": X for step in steps for name in MEGATRON}
    return grown(folder, {**files, TRACKER: pointer})


def test_a_pointer_that_was_set_back_does_not_tear_what_is_newer(tmp_path: Path) -> None:
    value = value_of(megatron(tmp_path, (100, 200, 300), b"200"))
    assert [item.state.value for item in value.items] == ["complete", "complete", "unknown"]
    assert value.items[-1].note == f"newer than {TRACKER}, which names 200"
    assert value.relaunch_from is not None and value.relaunch_from.step == 200


@pytest.mark.parametrize("inner", [100, 300])
def test_megatron_takes_the_greater_of_its_two_pointers(inner: int, tmp_path: Path) -> None:
    megatron(tmp_path / "run", (100, 200), b"200")
    megatron(tmp_path / "run" / "non_persistent", (inner,), str(inner).encode())
    for path in (tmp_path, tmp_path / "run"):
        pick = value_of(path).trainer_would_load
        assert pick is not None and pick.step == max(200, inner)


@pytest.mark.parametrize("newer", [(300,), (300, 400)])
def test_fewer_files_than_the_named_one_are_torn_unless_there_are_fewer_ranks(
    newer: tuple[int, ...], tmp_path: Path
) -> None:
    rank = "mp_rank_0{}/model_optim_rng.pt".format
    files = {f"iter_0000200/{rank(n)}": X for n in range(4)} | {TRACKER: b"200"}
    files |= {f"iter_0000{step}/{rank(n)}": X for step in newer for n in range(2)}
    states = {item.state.value for item in value_of(grown(tmp_path, files)).items[1:]}
    assert states == {"incomplete" if len(newer) == 1 else "unknown"}


def test_a_release_has_weights_only(tmp_path: Path) -> None:
    root = grown(tmp_path, {f"release/{name}": X for name in MEGATRON} | {TRACKER: b"release"})
    value = value_of(root)
    assert (value.items[0].state.value, value.relaunch_from) == ("unknown", None)
    assert "begins at iteration 0" in (value.items[0].note or "")
    assert value.trainer_would_load is not None
    assert value.trainer_would_load.path.endswith("/release")


def test_of_tags_without_steps_the_one_that_the_pointer_names_is_the_newest(tmp_path: Path) -> None:
    tags = ("best", "epoch_3", "epoch_10")
    grown(tmp_path, {f"{tag}/mp_rank_00_model_states.pt": X for tag in tags})
    put(tmp_path / "epoch_3" / "mp_rank_00_model_states.pt", X, NOW - 3500)  # copied last
    put(tmp_path / "latest", b"epoch_10", NOW - 3400)
    value = value_of(tmp_path)
    for pick in (value.relaunch_from, value.trainer_would_load):
        assert pick is not None and pick.path == str(tmp_path / "epoch_10")


@pytest.mark.parametrize("how", ["link", "text"])
def test_composer_resumes_from_what_its_link_leads_to(how: str, tmp_path: Path) -> None:
    grown(tmp_path, {f"ep0-ba{n}-rank0.pt": ZIP for n in (1000, 2000, 10000)})
    if how == "link":
        (tmp_path / "latest-rank0.pt").symlink_to("ep0-ba2000-rank0.pt")
    else:  # as it is put into an object store
        put(tmp_path / "latest-rank0.pt.symlink", "run/checkpoints/ep0-ba2000-rank0.pt")
    value = value_of(tmp_path)
    assert [item.step for item in value.items] == [1000, 2000, 10000]
    assert value.relaunch_from is not None and value.relaunch_from.step == 10000
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 2000


async def test_a_host_tells_a_save_under_two_names_once(tmp_path: Path) -> None:
    root = grown(tmp_path / "saves", automodel(20) | automodel(40))
    (root / "LATEST").symlink_to("epoch_0_step_20")
    (root / "checkpoint-600").symlink_to("/mnt/away/checkpoint-600")
    want = Want(place_of(str(root)))
    until = asyncio.get_running_loop().time() + 20.0
    answer = (await Survey(HostTree(None)).look([want], until))[want]
    assert isinstance(answer, Surveyed)
    value = judge_listing(answer.roots, Circumstances(NOW, alive=False))
    assert [(item.step, item.state.value) for item in value.items] == [
        *((20, "complete"), (40, "unknown"), (600, "unknown"))
    ]
    assert value.items[1].note == "newer than LATEST, which names epoch_0_step_20"
    assert value.items[2].note == "a link that leads nowhere: /mnt/away/checkpoint-600"


def hugging_face(root: Path, name: str, latest: str = "global_step8") -> None:
    for file in ("model.safetensors", "trainer_state.json"):
        put(root / name / file, b"{}")
    put(root / name / "global_step8" / "mp_rank_00_model_states.pt", X)
    put(root / name / "latest", latest)
    settle(root, NOW - 3600)


def test_a_save_whose_own_pointer_names_nothing_cannot_be_resumed(tmp_path: Path) -> None:
    hugging_face(tmp_path, "checkpoint-8", "global_step9")
    value = value_of(tmp_path)
    assert value.relaunch_from is None
    note = "cannot be resumed: its latest names global_step9, which is not in it"
    assert (value.items[0].state.value, value.items[0].note) == ("unknown", note)


@pytest.mark.parametrize("pointer", [("latest", b"global_step9"), (TRACKER, b"9")])
def test_a_pointer_to_nothing_is_said(pointer: tuple[str, bytes], tmp_path: Path) -> None:
    name, content = pointer
    saves = {f"global_step{n}/mp_rank_00_model_states.pt": X for n in (4, 8)}
    if name == TRACKER:
        saves = {f"iter_000000{n}/mp_rank_00/model_optim_rng.pt": X for n in (4, 8)}
    value = value_of(grown(tmp_path, {**saves, name: content}))
    assert value.trainer_would_load is None
    assert value.notes == (f"{name} names {content.decode()}, which is not there",)


def test_transformers_takes_the_greatest_number_however_it_is_spelled(tmp_path: Path) -> None:
    for name in ("checkpoint-300", "checkpoint-10000000000000000000", "checkpoint-٥٠٠"):
        hugging_face(tmp_path, name)
    value = value_of(tmp_path)
    assert value.trainer_would_load is not None
    assert value.trainer_would_load.path.endswith("checkpoint-10000000000000000000")
    assert {item.step for item in value.items} == {300, 500, None}
    (odd,) = (item for item in value.items if item.step is None)
    assert odd.note == "the number in its name has 20 digits"


def test_a_link_whose_disk_is_away_is_said(tmp_path: Path) -> None:
    hugging_face(tmp_path, "checkpoint-500")
    (tmp_path / "checkpoint-600").symlink_to("/mnt/away/checkpoint-600")
    (tmp_path / "best").symlink_to("/mnt/away/best")
    value = value_of(tmp_path)
    assert [(item.step, item.state.value) for item in value.items] == [
        *((500, "complete"), (600, "unknown"))
    ]
    assert value.items[1].note == "a link that leads nowhere: /mnt/away/checkpoint-600"
    assert value.notes == ("best is a link that leads nowhere: /mnt/away/best",)


STRANGE: dict[str, Mapping[str, bytes]] = {
    "fairseq2": {
        f"step_{n}/{part}/rank_00.pt": X for n in (1, 2) for part in ("model", "optimizer")
    },
    "EasyLM": {f"streaming_train_state_{n}": X for n in (1000, 2000)},
    "big_vision": {f"checkpoint.bv-00000{n}000": X for n in (1, 2)},
    "MLX": {f"0000{n}00_adapters.safetensors": X for n in (1, 2)},
    "RecBole": {f"BPR-Nov-2{n}-2026_03-32-13.pth": X for n in (1, 2)},
    "stable-baselines3": {f"rl_model_{n}_steps.zip": X for n in (100, 200)},
    "Paddle": {f"{n}.pdparams": X for n in (1, 2)},
    "TensorFlow's ckpt": {f"cp-000{n}.ckpt.index": X for n in (1, 2)},
    "in folders that a trainer puts around its saves": {
        f"a/lightning_logs/version_0/checkpoints/model-{n}.pth": X for n in (1000, 2000)
    },
    "flax": {"checkpoint_1000": X, "checkpoint_2000": X},
    "RLinf": {f"global_step_{n}/actor/dcp_checkpoint/__0_0.distcp": X for n in (10, 20)}
    | {f"global_step_{n}/data/data.pt": X for n in (10, 20)},
    "prime-rl": {f"step_{n}/trainer/__0_0.distcp": X for n in (10, 20)},
    "DCP, with facts for people": {
        f"global_step{n}/{name}": text
        for n in (10, 20)
        for name, text in {
            "__0_0.distcp": X,
            ".metadata": X,
            "metadata.json": b'{"world": 2}',
        }.items()
    },
    "KempnerForge": {
        f"step_{n}/{name}": text
        for n in (10, 20)
        for name, text in {
            "__0_0.distcp": X,
            ".metadata": X,
            "train_state.pt": X,
            "metadata.json": f'{{"step": {n}, "tokens_seen": 5}}'.encode(),
        }.items()
    },
    "own folders": {f"epoch_{n}/weights.npz": X for n in (1, 2)},
    "own files": {f"weights_{n}.safetensors": X for n in (1000, 2000)},
    "TensorFlow": {f"model.ckpt-{n}.index": X for n in (100, 200)},
    "numbers alone": {f"{n}/rank_0.pt": X for n in (100, 200)},
    "the number first": {f"llama-{n}steps/model.tensors": X for n in (10, 20)},
    "capitals": {f"trainer-STEP-{n}.pt": X for n in (1000, 2000)},
    "an export": {f"step-{n}/model.safetensors": X for n in (100, 200)},
    "Stable-Baselines3": {f"rl_model_{n}_steps.zip": ZIP for n in (10000, 20000)},
    "AudioCraft": {"checkpoint.th": ZIP, "checkpoint_10.th": ZIP},
    "VITS": {f"{net}_2000.pth": ZIP for net in "DG"},
    "RWKV": {f"rwkv-{n}.pth": ZIP for n in (1, 2)},
}


def test_a_name_of_tensorflow_tells_its_step(tmp_path: Path) -> None:
    value = value_of(grown(tmp_path / "saves", STRANGE["TensorFlow"]))
    assert [item.step for item in value.items] == [100, 200]


@pytest.mark.parametrize(
    ("names", "loads"),
    [
        (("model_0000999.pth", "model_0001999.pth", "model_final.pth"), "model_final.pth"),
        (("iter_1000.pth", "iter_2000.pth", "epoch_1.pth"), "iter_1000.pth"),
    ],
)
def test_what_last_checkpoint_names_is_what_a_resume_loads(
    names: tuple[str, ...], loads: str, tmp_path: Path
) -> None:
    """It may be an older one than the newest by its step."""
    files = {**dict.fromkeys(names, ZIP), "last_checkpoint": loads.encode()}
    load = value_of(grown(tmp_path / "saves", files)).trainer_would_load
    assert load is not None and load.path.endswith(f"/{loads}") and "last_checkpoint" in load.why


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    assert main(["checkpoints", str(root), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["checkpoints", str(root)]) == 0
    return document, capsys.readouterr().out


@pytest.mark.parametrize("name", STRANGE)
def test_a_layout_that_no_row_knows_is_unknown(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, out = listed(grown(tmp_path / "saves", STRANGE[name]), capsys)
    assert {item["state"] for item in value["items"]} == {"unknown"}
    assert len(value["items"]) == 2
    assert (value["relaunch_from"], value["trainer_would_load"]) == (None, None)
    assert "that look like saves, no layout here knows them: " in out
    assert "cannot tell what a relaunch would take" in out
    assert not any(word in out for word in ("from scratch", "incomplete", "torn", "metadata.json"))


@pytest.mark.parametrize(
    ("save", "copy"),
    [
        ("last.pth.tar", "model_best.pth.tar"),
        ("latest.pth", "valid.acc.best.pth"),
        ("checkpoint_10000.pth", "best_model_8000.pth"),
        ("iter_300.pth", "best_coco_bbox_mAP_iter_300.pth"),
        ("epoch=1-step=300.ckpt", "epoch=1-step=300-ema.ckpt"),
    ],
)
def test_a_copy_that_is_made_after_a_save_is_not_resumed_from(
    save: str, copy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = archive({"model": {}})
    root = grown(tmp_path / "saves", {save: weights, copy: weights})
    os.utime(root / copy, (NOW, NOW))
    value, _ = listed(root, capsys)
    assert value["relaunch_from"]["path"].endswith(f"/{save}")


def test_a_copy_that_is_further_on_or_alone_is_resumed_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = grown(tmp_path / "saves", {"step=200.ckpt": ZIP, "best-step=300.ckpt": ZIP})
    assert listed(root, capsys)[0]["relaunch_from"]["step"] == 300
    (root / "step=200.ckpt").unlink()
    assert listed(root, capsys)[0]["relaunch_from"]["step"] == 300


@pytest.mark.parametrize(
    ("names", "pointed"),
    [
        (("iter_100.pth", "iter_200.pth", "iter_300.pth"), "/runs/a/iter_200.pth"),
        (("model_0000100.pth", "model_0000200.pth", "model_0000300.pth"), "model_0000200.pth"),
    ],
)
def test_a_save_beyond_last_checkpoint_is_unknown(
    names: tuple[str, ...], pointed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = grown(
        tmp_path / "saves", {**dict.fromkeys(names, ZIP), "last_checkpoint": pointed.encode()}
    )
    value, out = listed(root, capsys)
    assert [item["state"] for item in value["items"]] == ["complete", "complete", "unknown"]
    assert value["relaunch_from"]["step"] == 200
    assert "newer than last_checkpoint" in out and "which is not there" not in out


def test_what_a_pointer_names_is_said_of_an_unknown_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = grown(tmp_path / "saves", {**STRANGE["RLinf"], TRACKER: b"10"})
    (root / "newest").symlink_to("global_step_20")
    _, out = listed(root, capsys)
    assert f"{TRACKER} names 10" in out
    assert "newest leads to global_step_20" in out


def test_what_only_looks_like_a_save_is_none_beside_saves(tmp_path: Path) -> None:
    hugging_face(tmp_path, "checkpoint-500")
    put(tmp_path / "final" / "model.safetensors", X)
    put(tmp_path / "runs" / "events.pt", X)
    assert [item.step for item in value_of(settle(tmp_path, NOW - 3600)).items] == [500]


def test_another_trainers_save_beside_the_others_is_unknown_not_torn(tmp_path: Path) -> None:
    files = {f"step-{n}/d/0": X for n in (50, 100)} | verl(200)
    files |= {f"step-{n}/metadata.json": b'{"step": %d}' % n for n in (50, 100)}
    assert told(grown(tmp_path / "saves", files)) == {
        "step-50": "complete",
        "step-100": "complete",
        "global_step_200": "unknown",
    }
