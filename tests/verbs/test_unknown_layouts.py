"""What the verbs say of saves that no layout knows: unknown, never torn, never from scratch."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.sources.checkpoints.assembly import FAN
from cockpit.sources.checkpoints.contents import TreeListing
from cockpit.sources.checkpoints.host import HostTree
from tests.sources.checkpoints.layout_examples import ZIP
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.test_layout_rows import STRANGE, grown

RUN = """
[cockpit]
operator = "ada"
[[run]]
name = "odd"
dri = "ada"
tier = "{tier}"
final_step = 1000
output_root = "saves"
resubmit = "python3 train.py --resume"
[run.job]
kind = "local"
log = "run.log"
pid_file = "run.pid"
exit_file = "run.exit"
[run.checkpoints]
path = "saves"
save_every = "1m"
keep = 2
rollback_depth = 2
"""


def world(folder: Path, files: Mapping[str, bytes], status: int, tier: str = "ordinary") -> None:
    """Make a run that has ended, and what it has saved an hour before."""
    now = time.time()
    grown(folder / "saves", files, now - 3600)
    (folder / "cockpit.toml").write_text(RUN.format(tier=tier))
    (folder / "train.py").write_text("")
    (folder / "run.log").write_text("".join(f"step {n}/1000 loss=2.5\n" for n in range(1, 1001)))
    (folder / "run.pid").write_text("999999999")
    (folder / "run.exit").write_text(str(status))
    for name in ("run.log", "run.exit"):
        os.utime(folder / name, (now - 60, now - 60))


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["check", "--json", "--config", str(folder / "cockpit.toml")])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["runs"][0]
    return found


@pytest.mark.parametrize(("name", "status"), [*((name, 1) for name in STRANGE), ("prime-rl", 0)])
def test_no_rule_takes_an_unknown_layout_for_torn_or_missing(
    name: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, STRANGE[name], status)
    run = checked(tmp_path, capsys)
    items = run["facets"]["checkpoints"]["value"]["items"]
    assert {item["state"] for item in items} == {"unknown"}
    found = {alert["id"] for alert in run["alerts"]}
    assert not found & {"C-07", "C-08", "C-17"}, run["alerts"]
    said = json.dumps([alert for alert in run["alerts"] if alert["id"] != "C-01"])
    assert not any(word in said for word in ("torn", "no complete checkpoint", "metadata.json"))


@pytest.mark.parametrize("name", STRANGE)
def test_nothing_of_an_unknown_layout_is_deleted_or_resumed_from(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, STRANGE[name], 1)
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    said = capsys.readouterr()
    assert "its state is unknown: no layout here knows it" in said.out + said.err
    main(["relaunch", "odd", "--dry-run"])
    out = capsys.readouterr().out
    assert "that look like saves, no layout here knows them" in out
    assert "name it in cockpit.toml ([run.checkpoints] layout, or custom)" in out
    assert "from scratch" not in out


def test_the_verb_and_the_check_agree_on_folders_of_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"mp_rank_0{n}/step={step}.ckpt": ZIP for n in range(2) for step in (10, 20)}
    world(tmp_path, files | {"mp_rank_00/step=30.ckpt": ZIP}, 1)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert main(["checkpoints", str(tmp_path / "saves"), "--json"]) == 0
    other = json.loads(capsys.readouterr().out)
    for each in (value, other):
        assert each["relaunch_from"]["step"] == 20
        assert [item["state"] for item in each["items"]] == ["complete", "complete", "incomplete"]


def test_of_saves_in_several_folders_no_verb_picks_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trial of a sweep, a model beside its optimizer: which are the run's, nobody has said."""
    world(tmp_path, {f"run-{n}/epoch=0-step={s}.ckpt": ZIP for n in (0, 1) for s in (10, 20)}, 1)
    monkeypatch.chdir(tmp_path)
    assert main(["checkpoints", "odd"]) == 0
    said = capsys.readouterr()
    assert "saves lie in several folders" in said.err
    assert "cannot tell what a relaunch would take" in said.out and "▸" not in said.out
    assert main(["checkpoints", "odd", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["relaunch_from"], document["trainer_would_load"]) == (None, None)
    assert document["unlisted"] == [str(tmp_path / "saves")]
    main(["relaunch", "odd", "--dry-run"])
    assert "saves lie in several folders" in capsys.readouterr().out


STEPS = (100, 200, 300, 400)
MANY_FILES: dict[str, Mapping[str, bytes]] = {
    "shards": {f"checkpoint_1_{s}-shard{n}.pt": ZIP for s in STEPS for n in range(2)},
    "nanochat": {f"{n}_000{s}.pt": ZIP for s in STEPS for n in ("model", "optim")}
    | {f"meta_000{s}.json": b"{}" for s in STEPS},
}


@pytest.mark.parametrize("name", MANY_FILES)
def test_a_save_of_many_files_is_no_candidate(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, MANY_FILES[name], 1)
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    said = capsys.readouterr()
    assert "nothing to delete" in said.out + said.err, said.out


TORCH = archive({"weights": {}})
ORBAX = {"_CHECKPOINT_METADATA": b"{}", "default/manifest.ocdbt": b"m", "default/d/0": b"x"}
PARTS: dict[str, tuple[str, Mapping[str, bytes]]] = {
    "optimizers beside": (
        "model_step_{}.pt",
        {f"{n}_step_{{}}.pt": TORCH for n in ("model", "optim")},
    ),
    "a state and its scheduler": (
        "step_{}.pt",
        {"step_{}.pt": TORCH, "lr_sched-step_{}.pt": TORCH},
    ),
    "two networks": (
        "actor_{}",
        {f"{n}_{{}}/{file}": x for n in ("actor", "critic") for file, x in ORBAX.items()},
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_save_without_a_part_that_all_others_have_is_not_known_to_be_whole(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill between two files of one save left the model without its optimizer."""
    first, files = PARTS[name]
    saved = {path.format(step): data for step in STEPS for path, data in files.items()}
    own = first.format(400)
    torn = {path: data for path, data in saved.items() if "400" not in path or path.startswith(own)}
    for each, state in ((saved, "complete"), (torn, "unknown")):
        shutil.rmtree(tmp_path / "saves", ignore_errors=True)
        world(tmp_path, each, 1)
        items = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]["items"]
        (item,) = [item for item in items if item["path"].endswith(f"/{own}")]
        assert item["state"] == state, item
        assert state == "complete" or re.match(
            "no .* of it, as .* is of another save", item["note"]
        )
    monkeypatch.chdir(tmp_path)
    main(["relaunch", "odd", "--dry-run"])
    assert "step 400 is newer and cannot be judged" in capsys.readouterr().out


def test_of_a_model_beside_its_optimizer_neither_is_deleted_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = PARTS["optimizers beside"][1]
    world(tmp_path, {path.format(s): data for s in STEPS for path, data in files.items()}, 1)
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    assert "nothing to delete from here: 4 saves of several files" in capsys.readouterr().out


def test_a_save_of_many_files_is_not_moved_aside_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, MANY_FILES["shards"], 1)
    monkeypatch.chdir(tmp_path)
    main(["rollback", "odd", "--to", "200", "--move", "yes", "--dry-run"])
    out = capsys.readouterr().out
    assert "checkpoint_1_300-shard0.pt is one save of 2 files: move it yourself" in out


def full(name: str, *files: str) -> dict[str, bytes]:
    return {f"{name}/{file}": b"{}" for file in files}


HF = ("model.safetensors", "optimizer.pt", "trainer_state.json")
T5X = ("checkpoint", "target.kernel/.zarray", "target.kernel/0.0")
DCP = ("model/0", "optim/.metadata", "optim/__0_0.distcp")


def saves(form: str, staged: str, *inside: str) -> dict[str, bytes]:
    """Return three saves under their own names, and a newer one that was never renamed."""
    names = [*(form.format(step) for step in (50, 100, 200)), staged]
    return {path: data for name in names for path, data in full(name, *inside).items()}


NOT_RENAMED: dict[str, Mapping[str, bytes]] = {
    "tmp-checkpoint-300": saves("checkpoint-{}", "tmp-checkpoint-300", *HF),
    "checkpoint_300.tmp-1699": saves("checkpoint_{}", "checkpoint_300.tmp-1699", *T5X),
    "step_300.tmp": saves("step_{}", "step_300.tmp", *DCP),
    "ep0-ba300-rank0.pt.tmp": {
        f"ep0-ba{n}": ZIP
        for n in ("50-rank0.pt", "100-rank0.pt", "200-rank0.pt", "300-rank0.pt.tmp")
    },
}


@pytest.mark.parametrize("name", NOT_RENAMED)
def test_what_was_never_renamed_decides_nothing_and_is_not_deleted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, NOT_RENAMED[name], 1)
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    plan = capsys.readouterr().out
    assert re.findall(r"will delete step (\d+)", plan) == ["50"]
    assert f"{name}  (its state is unknown: " in plan
    main(["relaunch", "odd", "--dry-run"])
    assert "step 300 is newer and cannot be judged" in capsys.readouterr().out
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert value["relaunch_from"]["step"] == 200
    assert (value["trainer_would_load"] or {"step": 200})["step"] == 200


def test_a_save_that_the_trainer_itself_deletes_takes_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pointer = "latest_checkpointed_iteration.txt"
    files = {f"iter_0000{step}/{name}": b"x" for step in (100, 200, 300) for name in MCORE}
    files |= {f"non_persistent/iter_0000400/{name}": b"x" for name in MCORE}
    files |= {pointer: b"300", f"non_persistent/{pointer}": b"400"}
    world(tmp_path, files, 1)
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    assert re.findall(r"will delete step (\d+)", capsys.readouterr().out) == ["100"]
    main(["relaunch", "odd", "--dry-run"])
    out = capsys.readouterr().out
    assert "Would start from step 400" in out and "non_persistent/iter_0000400" in out


MCORE = ("common.pt", ".metadata", "__0_0.distcp")


@pytest.mark.parametrize("flag", ["", " --resume_from_checkpoint latest"])
def test_a_rule_that_is_not_known_is_not_said_to_begin_anew(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("unet/diffusion_pytorch_model.safetensors", "optimizer.bin", "random_states_0.pkl")
    world(tmp_path, full("checkpoint-100", *files) | full("checkpoint-200", *files), 1)
    text = (tmp_path / "cockpit.toml").read_text()
    command = f'resubmit = "accelerate launch train.py{flag}"'
    text = text.replace('resubmit = "python3 train.py --resume"', command)
    (tmp_path / "cockpit.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    main(["relaunch", "odd", "--dry-run"])
    out = capsys.readouterr().out
    assert "would start at 0" not in out
    assert ("the command makes the trainer resume" if flag else "check its first step") in out


def test_a_save_in_an_unknown_state_is_not_passed_over_for_step_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save = {"model.safetensors": b"x", "trainer_state.json": b"{}", "latest": b"global_step9"}
    world(tmp_path, {f"checkpoint-8/{name}": data for name, data in save.items()}, 1)
    monkeypatch.chdir(tmp_path)
    main(["relaunch", "odd", "--dry-run"])
    out = capsys.readouterr().out
    assert "its latest names global_step9, which is not in it): find out about step 8" in out
    assert "from scratch" not in out


def hf_saves(*names: str) -> dict[str, bytes]:
    return {path: data for name in names for path, data in full(name, *HF).items()}


def test_a_folder_whose_names_come_late_keeps_a_pick_from_being_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, hf_saves("checkpoint-100", "checkpoint-200", "checkpoint-300", "final"), 1)
    asked = HostTree.fetch

    async def without_one(tree: HostTree, *what: Any, **more: Any) -> TreeListing:
        found = await asked(tree, *what, **more)
        found.levels.pop(str(tmp_path / "saves" / "final"), None)
        return found

    monkeypatch.setattr(HostTree, "fetch", without_one)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert value["unjudged"] == 1 and len(value["items"]) == 3
    assert value["relaunch_from"] is value["latest_complete"] is None
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    assert "not everything was listed in time: 1 folder" in capsys.readouterr().out
    main(["relaunch", "odd", "--dry-run"])
    assert "the newest may lie there: plan again" in capsys.readouterr().out
    for step in (100, 200, 300):
        shutil.rmtree(tmp_path / "saves" / f"checkpoint-{step}")
    main(["launch", "odd", "--dry-run"])
    assert "so there may be a checkpoint: plan again" in capsys.readouterr().out


def test_weights_of_which_no_save_has_a_state_are_unknown_not_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adapter that is saved by ``save_pretrained``: the trainer's own state is nowhere."""
    names = [f"checkpoint-{step}" for step in (100, 200, 300)]
    files = ("adapter_model.safetensors", "adapter_config.json")
    world(tmp_path, {k: v for name in names for k, v in full(name, *files).items()}, 1)
    run = checked(tmp_path, capsys)
    items = run["facets"]["checkpoints"]["value"]["items"]
    assert {item["state"] for item in items} == {"unknown"}
    assert not {alert["id"] for alert in run["alerts"]} & {"C-07", "C-08"}
    monkeypatch.chdir(tmp_path)
    main(["relaunch", "odd", "--dry-run"])
    assert "from scratch" not in capsys.readouterr().out
    world(tmp_path, hf_saves("checkpoint-400"), 1)  # beside one of the trainer's they are torn
    items = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]["items"]
    assert [item["state"] for item in items] == [*["incomplete"] * 3, "complete"]


def changed(folder: Path, was: str, now: str) -> None:
    path = folder / "cockpit.toml"
    path.write_text(path.read_text().replace(was, now))


@pytest.mark.parametrize(
    ("more", "loaded"),
    [
        ("", "checkpoint_last.pt"),
        (" --restore-file saves/checkpoint_2_200.pt", "checkpoint_2_200.pt"),
        (" --restore-file=./saves/checkpoint_2_200.pt", "checkpoint_2_200.pt"),
        (" --restore-file ${OUT}/checkpoint_2_200.pt", "checkpoint_2_200.pt"),
        (" --restore-file checkpoint_last.pt", "checkpoint_last.pt"),
        (" --restore-file /other/checkpoint_2_200.pt", None),
        (" --restore-file ../other/checkpoint_last.pt", None),
        (" --restore-file /other/checkpoint_9_900.pt", None),
    ],
)
def test_fairseq_loads_its_last_save_unless_its_command_names_another(
    more: str, loaded: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("checkpoint_1_100.pt", "checkpoint_2_200.pt", "checkpoint_last.pt", "checkpoint2.pt")
    world(tmp_path, dict.fromkeys(names, ZIP), 1)
    changed(tmp_path, "python3 train.py --resume", f"fairseq-train data{more}")
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    load = value["trainer_would_load"]
    assert loaded == (load and load["path"].rpartition("/")[2])


@pytest.mark.parametrize("above", ["", "lightning_logs/version_0/checkpoints/"])
def test_what_lightning_saved_before_a_requeue_is_listed_with_the_others(
    above: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{above}epoch=0-step={step}.ckpt" for step in (100, 200, 300)]
    files = dict.fromkeys(names, ZIP)
    files |= {f"hpc_ckpt_{n}.ckpt": archive({"global_step": n * 40}) for n in (2, 10, 3)}
    world(tmp_path, files, 1)
    changed(tmp_path, "train.py --resume", "train.py --ckpt_path hpc")
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert [item["step"] for item in value["items"]] == [80, 100, 120, 200, 300, 400]
    load = value["trainer_would_load"]
    assert (load["step"], load["path"].rpartition("/")[2]) == (400, "hpc_ckpt_10.ckpt")


def test_a_save_of_speechbrain_has_what_the_others_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"CKPT+2026-11-2{day}+10-00-00+00" for day in (1, 2, 3)]
    files = {f"{n}/{f}": b"x" for n in names for f in ("CKPT.yaml", "brain.ckpt", "model.ckpt")}
    world(tmp_path, {k: v for k, v in files.items() if k != f"{names[2]}/model.ckpt"}, 1)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    states = {item["path"].rpartition("/")[2]: item["state"] for item in value["items"]}
    assert states == dict(zip(names, ("complete", "complete", "incomplete"), strict=True))
    assert value["relaunch_from"]["path"].endswith(names[1])
    assert value["trainer_would_load"]["path"].endswith(names[2])
    world(tmp_path, {f"CKPT+best/{f}": b"x" for f in ("CKPT.yaml", "brain.ckpt", "model.ckpt")}, 1)
    best = tmp_path / "saves" / "CKPT+best" / "CKPT.yaml"
    os.utime(best, (time.time() - 7200,) * 2)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert value["trainer_would_load"]["path"].endswith(names[2]), "it is older than that"
    os.utime(best, (time.time() - 1800,) * 2)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert value["trainer_would_load"]["path"].endswith("CKPT+best")


def test_the_step_of_a_state_of_kohya_is_in_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = ("model.safetensors", "optimizer.bin", "random_states_0.pkl")
    names = [f"lora-step{step:08}-state" for step in (100, 200)]
    world(tmp_path, {k: v for name in names for k, v in full(name, *inside).items()}, 1)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert [(item["step"], item["state"]) for item in value["items"]] == [
        (100, "complete"),
        (200, "complete"),
    ]


def picked(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str | None]:
    """Return what a relaunch would take, and what the trainer would load: their names."""
    value = checked(folder, capsys)["facets"]["checkpoints"]["value"]
    picks = (value["relaunch_from"], value["trainer_would_load"])
    return [pick and pick["path"].rpartition("/")[2] for pick in picks]


VERL = "global_step_{}/actor/{}_world_size_1_rank_0.pt"
TORN: dict[str, tuple[Mapping[str, bytes], list[str]]] = {
    "arrays that lost their manifest": (
        {
            f"step-{step}/{name}": b'{"step": %d, "timestamp": "2026-11-21T10:00:00"}' % step
            for step in (100, 200, 300)
            for name in ("metadata.json", "d/0c", "manifest.ocdbt")
            if (step, name) != (300, "manifest.ocdbt")
        },
        ["step-200", "step-300"],
    ),
    "states of DeepSpeed that nothing names": (
        hf_saves("checkpoint-100", "checkpoint-200")
        | {"checkpoint-100/global_step100/mp_rank_00_model_states.pt": b"x"}
        | {"checkpoint-100/latest": b"global_step100"}
        | {"checkpoint-200/global_step200/mp_rank_00_model_states.pt": b"x"},
        ["checkpoint-100", "checkpoint-200"],
    ),
    "a pointer that names a torn save": (
        {"latest_checkpointed_iteration.txt": b"200", "global_step_100/data.pt": b"x"}
        | {VERL.format(100, kind): b"x" for kind in ("model", "optim")}
        | {"global_step_200/actor/model_world_size_2_rank_0.pt": b"x"},
        ["global_step_100", "global_step_200"],
    ),
    "an iteration of which one rank's file is lost": (
        {"latest_checkpointed_iteration.txt": b"200"}
        | {
            f"iter_0000{step}/mp_rank_0{rank}/{name}": b"x"
            for step in (100, 200)
            for rank in (0, 1)
            for name in ("model_optim_rng.pt", "distrib_optim.pt")
            if (step, rank, name) != (200, 1, "distrib_optim.pt")
        },
        ["iter_0000100", "iter_0000200"],
    ),
    "an iteration that is named and torn": (
        {"latest_checkpointed_iteration.txt": b"200"}
        | {f"iter_0000100/mp_rank_0{rank}/model_optim_rng.pt": b"x" for rank in (0, 1)}
        | {"iter_0000200/mp_rank_01/model_optim_rng.pt": b"x"},
        ["iter_0000100", "iter_0000200"],
    ),
}


@pytest.mark.parametrize("name", TORN)
def test_what_a_trainer_would_load_though_it_cannot_is_told_from_the_pick(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, picks = TORN[name]
    world(tmp_path, files, 1)
    assert picked(tmp_path, capsys) == picks


def test_more_folders_than_are_looked_into_are_not_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, {f"r{n:03}/note.txt": b"x" for n in range(FAN + 1)}, 1)
    monkeypatch.chdir(tmp_path)
    main(["launch", "odd", "--dry-run"])
    assert "name this run's own in path" in capsys.readouterr().out
    grown(tmp_path / "saves", hf_saves("weights/checkpoint-100"), time.time() - 3600)
    assert picked(tmp_path, capsys)[0] == "checkpoint-100"


@pytest.mark.parametrize(("name", "noted"), [("final", True), ("lost+found", False)])
def test_a_folder_that_may_not_be_read_is_noted(
    name: str,
    noted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world(tmp_path, hf_saves("checkpoint-100", name), 1)
    denied, listed = str(tmp_path / "saves" / name), os.scandir

    def refused(path: str) -> Any:
        if path == denied:
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    value = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]
    assert value["latest_complete"] == 100
    assert value.get("notes", []) == [f"{denied} may not be read (permission denied)"] * noted


@pytest.mark.parametrize("second", ["saves/run", "link"])
def test_a_root_that_is_named_twice_is_counted_once(
    second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world(tmp_path, hf_saves("run/checkpoint-100", "run/checkpoint-200", "run/checkpoint-300"), 1)
    (tmp_path / "link").symlink_to("saves/run")
    run_file = tmp_path / "cockpit.toml"
    path = f'path = ["saves", "{second}"]'
    run_file.write_text(run_file.read_text().replace('path = "saves"', path))
    items = checked(tmp_path, capsys)["facets"]["checkpoints"]["value"]["items"]
    assert [item["step"] for item in items] == [100, 200, 300]
    monkeypatch.chdir(tmp_path)
    main(["retain", "odd", "--keep", "1", "--dry-run"])
    out = capsys.readouterr().out
    assert "delete 1 from odd" in out and "2 complete checkpoints will be left" in out
