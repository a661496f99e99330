from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import CheckpointState, CheckpointsValue
from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.sources.checkpoints.judge import Circumstances, SeenFolder, judge_listing, remember
from cockpit.sources.checkpoints.listing import (
    Folder,
    Listed,
    Root,
)
from cockpit.sources.checkpoints.source import list_checkpoints
from tests.sources.checkpoints.trees import NOW, metadata, put, root_from_files

OLD = NOW - 7200.0
CORPUS = Path(os.environ.get("COCKPIT_CORPORA", "no-corpora")) / "ckpt_scenarios.jsonl"


def meta(step: int, at: float = OLD, temporary: bool = False) -> bytes:
    return metadata(step, at, temporary).encode()


def save(
    step: int,
    *,
    at: float = OLD,
    name: str | None = None,
    marker: bytes | None = b"",
    temporary: bool = False,
) -> list[Listed]:
    name = name or f"step-{step}"
    files = [
        Listed(f"{name}/d/0c0ffee0", 1000, at - 2),
        Listed(f"{name}/manifest.ocdbt", 200, at - 1),
    ]
    if marker is None:
        return files
    content = marker or meta(step, at, temporary)
    return [*files, Listed(f"{name}/metadata.json", len(content), at, content)]


def judge(
    *saves: list[Listed],
    alive: bool | None = None,
    now: float = NOW,
    before: dict[str, SeenFolder] | None = None,
    spec: CheckpointSpec | None = None,
    final_step: int | None = None,
) -> CheckpointsValue:
    root = root_from_files("/r", [file for each in saves for file in each])
    return judge_listing([root], Circumstances(now, alive, before or {}, final_step), spec)


def states(value: CheckpointsValue) -> list[tuple[int | None, str]]:
    return [(item.step, item.state.value) for item in value.items]


@pytest.mark.parametrize("name", ["step-9\n", "step-9\x1b[31m", "step-9\u200b", "step-9\udcff"])
def test_one_that_no_path_leads_to_is_not_picked(name: str) -> None:
    """Beside it may lie another one whose name is what is left of its own."""
    value = judge(save(7), save(9, marker=None), save(9, name=name))
    assert value.relaunch_from is not None and value.relaunch_from.step == 7
    assert value.latest_complete == 7
    (odd,) = [each for each in value.items if each.note and "no path leads to it" in each.note]
    assert odd.state is CheckpointState.UNKNOWN and odd.saved_at is None


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        (None, "no metadata.json"),
        (b" \n", "is empty"),
        (b'{"step": 800, "timest', "truncated"),
        (b'{"timestamp": "2026-01-01T00:00:00"}', "has no step"),
        (b'{"step": true}', "has no step"),
        (b'{"step": -3}', "has no step"),
        (b"[800]", "not a JSON object"),
        (b"[" * 5000, "truncated or not JSON"),
        (b"\xff\xfe\x00", "truncated or not JSON"),
    ],
)
def test_a_marker_that_does_not_tell_a_step_makes_it_incomplete(
    marker: bytes | None, why: str
) -> None:
    value = judge(save(700), save(800, marker=marker))
    assert states(value) == [(700, "complete"), (800, "incomplete")]
    torn = value.items[-1]
    assert torn.note is not None and why in torn.note
    assert torn.saved_at is None and torn.touched_at is not None
    assert value.relaunch_from is not None and value.relaunch_from.step == 700
    assert "step 800 is incomplete" in value.relaunch_from.why


def test_files_from_the_future_prove_nothing() -> None:
    assert judge(save(8, at=NOW + 9999, marker=None), alive=True).items[0].state == "incomplete"


def test_a_complete_one_that_loses_its_marker_is_being_deleted_not_torn() -> None:
    root = root_from_files("/r", [*save(7), *save(8)])
    first = judge_listing([root], Circumstances(NOW))
    seen = remember(first, [root], {})
    half = [Listed("step-7/manifest.ocdbt", 200, NOW - 1)]
    value = judge(half, save(8), alive=True, before=seen, now=NOW + 5)
    assert value.items[0].state is CheckpointState.UNKNOWN
    assert value.items[0].note is not None and "deleted" in value.items[0].note
    later = judge(half, save(8), alive=True, before=seen, now=NOW + 500)
    assert later.items[0].state is CheckpointState.INCOMPLETE


def test_protection_names_its_reasons() -> None:
    spec = CheckpointSpec(protect=(20, 30), initialize_from="/r/step-10/")
    value = judge(save(10), save(20), save(30, marker=None), save(99), spec=spec, final_step=100)
    assert {item.step: item.protected for item in value.items} == {
        10: ("initialize_from",),
        20: ("protected in the run file",),
        30: (),
        99: ("newest complete", "final"),
    }


def test_a_folder_of_another_name_counts_by_its_marker_alone() -> None:
    value = judge(save(70, name="final"), save(60), [Listed("eval/metadata.json", 2, OLD, b"{}")])
    assert [(i.step, i.name_step) for i in value.items] == [(60, 60), (70, None)]


def test_an_unreadable_folder_or_marker_is_unknown_not_torn() -> None:
    folders = (
        Folder("step-8", error="permission denied"),
        Folder("step-9", (Listed("metadata.json", 70, OLD, None, "permission denied"),)),
    )
    value = judge_listing([Root("/r", folders)], Circumstances(NOW))
    assert {item.state.value for item in value.items} == {"unknown"}
    assert all("permission denied" in (item.note or "") for item in value.items)
    assert value.items[0].size is None


# other layouts


def plain(*paths: str, **contents: bytes) -> list[Listed]:
    found = [Listed(path, 100, OLD) for path in paths]
    return found + [Listed(path, len(raw), OLD, raw) for path, raw in contents.items()]


def test_orbax_a_staging_name_is_its_step_in_flight() -> None:
    value = judge(
        plain("1000/_CHECKPOINT_METADATA", "1000/items/manifest.ocdbt"),
        plain("1500.orbax-checkpoint-tmp-1763712000000000/_CHECKPOINT_METADATA"),
    )
    assert states(value) == [(1000, "complete"), (1500, "incomplete")]
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 1000


COMMITTED = b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}'


@pytest.mark.parametrize(
    ("root", "own", "state", "loads"),
    [
        ("gs://b/r", b'{"commit_timestamp_nsecs": null}', "incomplete", 1),
        ("gs://b/r", COMMITTED, "unknown", 1),  # copied there: whole, but Orbax does not see it
        ("/r", COMMITTED, "complete", 2),  # an older release wrote no such file here
        ("/r", b"{}", "unknown", 2),
        ("/r", None, "unknown", 2),
    ],
)
def test_orbax_a_save_without_the_mark_of_the_others(
    root: str, own: bytes | None, state: str, loads: int
) -> None:
    files = plain("1/_CHECKPOINT_METADATA", "1/commit_success.txt", "1/items/d/0", "2/items/d/0")
    files += plain("2/items/manifest.ocdbt", "2/items/_METADATA")
    files += [] if own is None else plain(**{"2/_CHECKPOINT_METADATA": own})
    value = judge_listing([root_from_files(root, files)], Circumstances(NOW))
    assert states(value) == [(1, "complete"), (2, state)]
    assert value.trainer_would_load is not None and value.trainer_would_load.step == loads


def test_hugging_face_is_complete_with_its_state_and_resumable_with_its_optimizer() -> None:
    whole = ("model.safetensors", "optimizer.pt", "trainer_state.json")
    value = judge(
        plain(*(f"checkpoint-500/{name}" for name in whole)),
        plain("checkpoint-6400/model.safetensors", "checkpoint-6400/optimizer.pt"),
        plain("checkpoint-1000/model.safetensors", "checkpoint-1000/trainer_state.json"),
        plain("tmp-checkpoint-7000/model.safetensors"),
    )
    assert states(value) == [
        (500, "complete"),
        (1000, "unknown"),
        (6400, "incomplete"),
        (7000, "incomplete"),
    ]
    assert value.relaunch_from is not None and value.relaunch_from.step == 500
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 6400


def ranks(step: int, count: int, skip: int = -1) -> list[Listed]:
    names = [f"bf16_zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in range(count) if n != skip]
    return plain(*(f"global_step{step}/{n}" for n in ["mp_rank_00_model_states.pt", *names]))


def test_deepspeed_goes_by_its_pointer_and_its_ranks() -> None:
    value = judge(
        ranks(100, 3, skip=1),
        ranks(200, 2),
        ranks(500, 3),
        ranks(600, 3),
        plain(latest=b"global_step500\n"),
    )
    assert states(value) == [
        (100, "incomplete"),
        (200, "unknown"),
        (500, "complete"),
        (600, "unknown"),  # newer than the pointer
    ]


def test_without_its_pointer_deepspeed_confirms_nothing() -> None:
    value = judge(ranks(500, 2))
    assert states(value) == [(500, "unknown")]
    assert value.relaunch_from is None


def test_megatron_goes_by_its_tracker() -> None:
    tracker = "latest_checkpointed_iteration.txt"
    saves = [plain(f"iter_{n:07}/mp_rank_00/model_optim_rng.pt") for n in (500, 1000, 10_000_000)]
    value = judge(*saves, plain(**{tracker: b"1000"}))
    assert states(value) == [(500, "complete"), (1000, "complete"), (10_000_000, "unknown")]
    released = judge(*saves, plain(**{tracker: b"release"}))
    assert {state for _, state in states(released)} == {"unknown"}


def test_lightning_is_one_file_per_step() -> None:
    whole = b"PK\x03\x04" + b"\0" * 18 + b"PK\x05\x06"
    files = [
        Listed("epoch=1-step=200.ckpt", 900, OLD, whole),
        Listed("epoch=2-step=400.ckpt", 900, OLD, b"PK\x03\x04" + b"\0" * 22),
        Listed("epoch=3-step=600.ckpt", 0, OLD, b""),
    ]
    assert states(judge(files)) == [(200, "complete"), (400, "incomplete"), (600, "incomplete")]


def test_a_layout_of_ones_own() -> None:
    custom = CustomLayout(pattern=r"snap_(\d+)", marker="DONE")
    spec = CheckpointSpec(layout="custom", custom=custom)
    value = judge(plain("snap_7/DONE", "snap_7/w"), plain("snap_8/w"), plain("x/DONE"), spec=spec)
    assert states(value) == [(7, "complete"), (8, "incomplete")]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (CheckpointSpec(layout="levantr"), 'did you mean "levanter"'),
        (CheckpointSpec(layout="custom"), "needs a pattern"),
        (CheckpointSpec(custom=CustomLayout(pattern="(", marker="m")), "regular expression"),
    ],
)
def test_a_layout_that_does_not_exist_is_told_in_one_line(spec: CheckpointSpec, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        judge(save(1), spec=spec)


# properties

NAMES = st.one_of(
    st.from_regex(r"\A(step-|checkpoint-|iter_|global_step|)[0-9]{1,30}\Z"),
    st.sampled_from(["latest", "ckpt.pt", "tmp-checkpoint-5", "metadata.json", "d", ".x"]),
    st.text(max_size=12),
)
FILES = st.builds(
    Listed,
    path=st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    size=st.integers(0, 10**15),
    mtime=st.floats(-1e12, 1e12),
    content=st.none()
    | st.binary(max_size=40)
    | st.integers().map(lambda n: f'{{"step": {n}}}'.encode()),
    error=st.none() | st.just("permission denied"),
)


@given(
    files=st.lists(FILES, max_size=12),
    layout=st.sampled_from(
        ["auto", "levanter", "orbax", "hf", "deepspeed", "megatron", "torchtitan"]
    ),
    alive=st.none() | st.booleans(),
)
def test_no_listing_raises_and_all_are_in_order(
    files: list[Listed], layout: str, alive: bool | None
) -> None:
    around = Circumstances(NOW, alive)
    value = judge_listing([root_from_files("/r", files)], around, CheckpointSpec(layout=layout))
    steps = [item.step for item in value.items if item.step is not None]
    assert steps == sorted(steps)
    complete = [i.step for i in value.items if i.state == "complete" and i.step is not None]
    assert value.latest_complete == max(complete, default=None)
    assert (value.relaunch_from is None) == (not complete)
    json.dumps(value.to_json())


def scenarios() -> list[Any]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines() if CORPUS.exists() else []
    found = [json.loads(line) for line in lines if line.strip()]
    return [pytest.param(each, id=each["id"]) for each in found]


@pytest.mark.skipif(not CORPUS.exists(), reason="COCKPIT_CORPORA names no corpus")
@pytest.mark.parametrize("scenario", scenarios())
def test_scenarios_of_the_corpora(scenario: dict[str, Any], tmp_path: Path) -> None:
    for file in scenario["listing"]:
        content = file.get("content", "x" * min(file["size"], 100))
        put(tmp_path / file["path"], content, datetime.fromisoformat(file["mtime"]).timestamp())
    value = list_checkpoints([str(tmp_path)], now=4e9)
    shown = [[i.step, i.state] for i in reversed(value.items) if i.step is not None]
    assert [step for step, _ in shown] == [step for step, _ in scenario["expect_order"]]
    for (_, state), (_, complete) in zip(shown, scenario["expect_order"], strict=True):
        assert (state is CheckpointState.COMPLETE) == (complete is True)
    assert value.latest_complete == scenario["newest_complete"]
