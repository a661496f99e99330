from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import CheckpointsValue, JobValue, Phase
from cockpit.model.place import HERE
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, RunSpec, WandbSpec
from cockpit.sources.checkpoints.source import Checkpoints, list_checkpoints
from tests.queries import queries_of
from tests.sources.checkpoints.trees import NOW, levanter, put, settle

ROOT_USER = os.geteuid() == 0


def run_of(*paths: Path | str, name: str = "a", **more: Any) -> RunSpec:
    spec = CheckpointSpec(path=tuple(map(str, paths)))
    return RunSpec(name=name, checkpoints=spec, **more)


async def observed(
    source: Checkpoints, run: RunSpec, alive: bool | None = None
) -> Facet[CheckpointsValue]:
    phase = {None: Phase.UNKNOWN, True: Phase.RUNNING, False: Phase.FAILED}[alive]
    job = JobValue(id="1", state="?", phase=phase)
    return (await source.observe([Query(run=run, job=job)]))[run.name]


def value_of(facet: Facet[CheckpointsValue]) -> CheckpointsValue:
    assert facet.value is not None, facet.error
    return facet.value


def steps_of(value: CheckpointsValue) -> list[tuple[int | None, str]]:
    return [(item.step, item.state.value) for item in value.items]


async def test_permanent_and_temporary_roots_are_one_list(tmp_path: Path) -> None:
    levanter(tmp_path / "p", 900)
    levanter(tmp_path / "p", 10000, at=NOW - 900)
    levanter(tmp_path / "t", 10015, at=NOW - 60, temporary=True)
    run = run_of(tmp_path / "p", tmp_path / "t", final_step=10016)
    facet = await observed(Checkpoints(FixedClock(NOW)), run)
    value = value_of(facet)
    assert steps_of(value) == [(n, "complete") for n in (900, 10000, 10015)]
    assert [item.permanent for item in value.items] == [True, True, False]
    assert value.items[-1].protected == ("newest complete", "final")
    assert value.items[-1].saved_at == NOW - 60
    assert (facet.observed_at, facet.known) == (NOW, True)


async def test_a_dead_jobs_unfinished_save_is_incomplete_at_once(tmp_path: Path) -> None:
    levanter(tmp_path, 900)
    levanter(tmp_path, 1000, at=NOW - 5, marker=None)
    source = Checkpoints(FixedClock(NOW))
    assert steps_of(value_of(await observed(source, run_of(tmp_path), True)))[-1][1] == "writing"
    torn = value_of(await observed(source, run_of(tmp_path), False))
    assert steps_of(torn) == [(900, "complete"), (1000, "incomplete")]
    assert torn.relaunch_from is not None and torn.relaunch_from.step == 900


async def test_a_save_that_grows_between_two_looks_is_writing(tmp_path: Path) -> None:
    folder = levanter(tmp_path, 1000, at=NOW - 900, marker=None)
    source = Checkpoints(FixedClock(NOW))
    assert steps_of(value_of(await observed(source, run_of(tmp_path), True))) == [
        (1000, "incomplete")
    ]
    put(folder / "d" / "more", b"b" * 5000, NOW - 900)
    settle(folder, NOW - 900)
    assert steps_of(value_of(await observed(source, run_of(tmp_path), True))) == [(1000, "writing")]
    assert steps_of(value_of(await observed(source, run_of(tmp_path), True))) == [
        (1000, "incomplete")
    ]


async def test_rotation_is_followed_and_a_complete_one_is_walked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (100, 200, 300):
        levanter(tmp_path, step)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path)
    first = value_of(await observed(source, run))
    walked: list[str] = []
    real = os.scandir

    def counting(path: Any = ".") -> Any:
        walked.append(str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", counting)
    assert value_of(await observed(source, run)) == first
    assert walked == [str(tmp_path), str(tmp_path.parent)]  # links beside the root, too
    shutil.rmtree(tmp_path / "step-100")
    levanter(tmp_path, 400)
    after = value_of(await observed(source, run))
    assert [item.step for item in after.items] == [200, 300, 400]


async def test_a_save_written_again_under_the_same_name_is_read_again(tmp_path: Path) -> None:
    levanter(tmp_path, 100)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path)
    before = value_of(await observed(source, run)).items[0]
    shutil.rmtree(tmp_path / "step-100")
    folder = levanter(tmp_path, 100, at=NOW - 30)
    put(folder / "d" / "more", b"b" * 5000, NOW - 30)
    after = value_of(await observed(source, run)).items[0]
    assert after.saved_at == NOW - 30
    assert (after.size or 0) > (before.size or 0)


async def test_folders_that_vanish_while_they_are_listed_are_left_out(tmp_path: Path) -> None:
    """Saves come and go in another thread, all through many looks."""
    levanter(tmp_path, 1)
    stop = threading.Event()

    def rotate() -> None:
        step = 2
        while not stop.is_set():
            levanter(tmp_path, step, temporary=True)
            shutil.rmtree(tmp_path / f"step-{step}")
            step += 1

    worker = threading.Thread(target=rotate)
    worker.start()
    try:
        source = Checkpoints(FixedClock(NOW))
        facets = [await observed(source, run_of(tmp_path)) for _ in range(100)]
    finally:
        stop.set()
        worker.join()
    assert all(facet.known for facet in facets)
    assert all(value_of(facet).items[0].step == 1 for facet in facets)


async def test_a_save_that_its_trainer_is_deleting_is_not_torn(tmp_path: Path) -> None:
    folder = levanter(tmp_path, 900)
    source = Checkpoints(FixedClock(NOW))
    assert value_of(await observed(source, run_of(tmp_path), True)).latest_complete == 900
    shutil.rmtree(folder / "d")
    (folder / "manifest.ocdbt").unlink()  # its marker is still there
    os.utime(folder, (NOW, NOW))
    (item,) = value_of(await observed(source, run_of(tmp_path), True)).items
    assert item.state.value == "unknown" and "now being deleted" in (item.note or "")


async def test_a_root_above_the_runs_own_folder_is_understood(tmp_path: Path) -> None:
    levanter(tmp_path / "run-a", 100)
    levanter(tmp_path / "run-b", 900)
    put(tmp_path / "run-b" / "eval_metrics.jsonl")
    run = run_of(tmp_path, name="x", wandb=WandbSpec(id="run-a"))
    assert value_of(await observed(Checkpoints(FixedClock(NOW)), run)).latest_complete == 100


async def test_the_checkpoints_of_several_runs_are_never_mixed(tmp_path: Path) -> None:
    levanter(tmp_path / "run-a", 100)
    levanter(tmp_path / "run-b", 900)
    facet = await observed(Checkpoints(FixedClock(NOW)), run_of(tmp_path, name="x"))
    assert facet.value is None and facet.error is not None
    assert "(run-a, run-b): name this run's own" in facet.error.message


async def test_both_roots_of_one_run_may_lie_below_the_path(tmp_path: Path) -> None:
    levanter(tmp_path / "run-a" / "checkpoints", 100)
    levanter(tmp_path / "run-a" / "checkpoints-temp", 115, temporary=True)
    run = run_of(tmp_path / "run-a", name="run-a")
    assert value_of(await observed(Checkpoints(FixedClock(NOW)), run)).latest_complete == 115


async def test_one_checkpoint_reached_by_two_names_is_one(tmp_path: Path) -> None:
    levanter(tmp_path, 100)
    (tmp_path / "latest-good").symlink_to("step-100")
    (tmp_path / "step-7").symlink_to("nowhere")
    value = value_of(await observed(Checkpoints(FixedClock(NOW)), run_of(tmp_path)))
    away, there = value.items
    assert there.path == str(tmp_path / "step-100")
    assert (away.step, away.state.value) == (7, "unknown")
    assert away.note == "a link that leads nowhere: nowhere"


async def test_nothing_configured(tmp_path: Path) -> None:
    facets = await Checkpoints(FixedClock(NOW)).observe(
        queries_of([RunSpec(name="a"), run_of(name="b")])
    )
    assert all(not facet.configured for facet in facets.values())


@pytest.mark.parametrize(
    ("path", "kind", "told"),
    [
        ("{tmp}/nowhere", ErrorKind.NOT_FOUND, "does not exist"),
        ("{tmp}/file", ErrorKind.NOT_FOUND, "is not a folder"),
        ("/tmp/\0", ErrorKind.BAD_ANSWER, "null"),
        ("hdfs://host/run", ErrorKind.UNSUPPORTED, "hdfs:// checkpoints cannot be read"),
    ],
)
async def test_what_cannot_be_listed_is_unknown_in_one_line(
    tmp_path: Path, path: str, kind: ErrorKind, told: str
) -> None:
    put(tmp_path / "file")
    facet = await observed(Checkpoints(FixedClock(NOW)), run_of(path.format(tmp=tmp_path)))
    assert facet.value is None and facet.error is not None
    assert facet.error.kind is kind
    assert told in facet.error.message and "\n" not in facet.error.message


async def test_an_unknown_layout_is_unknown_not_a_crash(tmp_path: Path) -> None:
    spec = CheckpointSpec(path=(str(tmp_path),), layout="levantr")
    facet = await observed(Checkpoints(FixedClock(NOW)), RunSpec(name="a", checkpoints=spec))
    assert facet.error is not None and 'did you mean "levanter"' in facet.error.message


@pytest.mark.skipif(ROOT_USER, reason="root may read everything")
async def test_no_permission_is_unknown(tmp_path: Path) -> None:
    root = tmp_path / "r"
    levanter(root, 100)
    root.chmod(0)
    try:
        facet = await observed(Checkpoints(FixedClock(NOW)), run_of(root))
    finally:
        root.chmod(0o755)
    assert facet.error is not None and facet.error.kind is ErrorKind.PERMISSION


def test_a_run_folder_shows_both_roots_below_it_and_no_export(tmp_path: Path) -> None:
    levanter(tmp_path / "checkpoints", 100)
    levanter(tmp_path / "checkpoints-temp", 115, temporary=True)
    put(tmp_path / "hf" / "step-100" / "config.json")
    put(tmp_path / "hf" / "step-100" / "model.safetensors")
    put(tmp_path / "data" / "metadata.json", "{}")
    levanter(tmp_path / "rejected-2026-01-01", 999)
    value = list_checkpoints([str(tmp_path)], now=NOW)
    assert steps_of(value) == [(100, "complete"), (115, "complete")]


def test_a_path_may_be_one_checkpoint(tmp_path: Path) -> None:
    levanter(tmp_path, 100)
    levanter(tmp_path, 200, marker=None)
    for step, state in ((100, "complete"), (200, "incomplete")):
        value = list_checkpoints([str(tmp_path / f"step-{step}")], now=NOW)
        assert steps_of(value) == [(step, state)]


def test_an_empty_folder_and_empty_saves(tmp_path: Path) -> None:
    assert list_checkpoints([str(tmp_path)], now=NOW).items == ()
    (tmp_path / "step-400" / "d").mkdir(parents=True)
    settle(tmp_path, NOW - 900)
    assert steps_of(list_checkpoints([str(tmp_path)], now=NOW)) == [(400, "incomplete")]


def test_a_single_file_that_was_cut_off_is_told_from_a_whole_one(tmp_path: Path) -> None:
    import zipfile

    whole = tmp_path / "step=10.ckpt"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("data.pkl", b"x" * 5000)
    put(tmp_path / "step=20.ckpt", whole.read_bytes()[:3000])
    value = list_checkpoints([str(tmp_path)], now=NOW)
    assert steps_of(value) == [(10, "complete"), (20, "incomplete")]


async def test_what_is_complete_and_lies_there_as_before_is_not_judged_again(
    tmp_path: Path,
) -> None:
    levanter(tmp_path, 900)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path)
    first = [value_of(await observed(source, run)) for _ in range(2)]
    again = value_of(await observed(source, run, alive=False))
    assert again is first[-1] and again == first[0]
    torn = levanter(tmp_path, 1000, at=NOW - 30)
    (torn / "metadata.json").unlink()
    settle(torn, NOW - 30)
    seen = [value_of(await observed(source, run, alive)) for alive in (True, True, False)]
    states = [each.items[-1].state.value for each in seen]
    assert states == ["writing", "writing", "incomplete"], "the job decides what an unfinished is"


async def test_one_that_is_rejected_later_is_told_though_it_lies_there_as_before(
    tmp_path: Path,
) -> None:
    levanter(tmp_path, 900)
    levanter(tmp_path, 1000)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path)
    for _ in range(3):
        assert value_of(await observed(source, run)).latest_complete == 1000
    bad = Rejected(step=1000, path=f"{tmp_path}/step-1000", at=NOW, by="ada", reason="spike")
    value = value_of((await source.observe([Query(run=run, rejected=(bad,))]))["a"])
    assert steps_of(value) == [(900, "complete"), (1000, "rejected")]
    assert value_of(await observed(source, run)).latest_complete == 1000


async def test_a_rejected_one_is_listed_and_never_picked(tmp_path: Path) -> None:
    levanter(tmp_path, 900)
    levanter(tmp_path, 1000)
    bad = Rejected(step=1000, path=f"{tmp_path}/step-1000", at=NOW, by="ada", reason="spike")
    found = await Checkpoints(FixedClock(NOW)).observe(
        [Query(run=run_of(tmp_path), rejected=(bad,))]
    )
    value = value_of(found["a"])
    assert steps_of(value) == [(900, "complete"), (1000, "rejected")]
    assert value.relaunch_from is not None and value.relaunch_from.step == 900
    assert "step 1,000 is rejected" in value.relaunch_from.why
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 1000
    levanter(tmp_path, 1000, at=NOW + 5)
    found = await Checkpoints(FixedClock(NOW)).observe(
        [Query(run=run_of(tmp_path), rejected=(bad,))]
    )
    assert value_of(found["a"]).latest_complete == 1000


@pytest.mark.parametrize("name", ["rejected-2026-03-11", ".cockpit", "step-7.deleting-abcdef12"])
def test_what_was_moved_aside_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    root = tmp_path / "run" / "checkpoints"
    levanter(root, 900)
    levanter(root, 1000, name=name)
    levanter(root / name, 1100)
    assert steps_of(list_checkpoints([str(root)], now=NOW)) == [(900, "complete")]
    assert steps_of(list_checkpoints([str(root.parent)], now=NOW)) == [(900, "complete")]


async def test_a_root_that_cannot_be_listed_leaves_the_others_and_picks_nothing(
    tmp_path: Path,
) -> None:
    levanter(tmp_path / "p", 900)
    put(tmp_path / "file")
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path / "p", tmp_path / "file")
    facet = await observed(source, run)
    value = value_of(facet)
    assert steps_of(value) == [(900, "complete")] and value.unlisted == (str(tmp_path / "file"),)
    assert (value.latest_complete, value.relaunch_from, value.trainer_would_load) == (None,) * 3
    assert facet.error is not None and "is not a folder" in facet.error.message
    assert value.to_json()["unlisted"] == [str(tmp_path / "file")]
    (tmp_path / "file").unlink()
    whole = await observed(source, run)
    assert whole.known and value_of(whole).latest_complete == 900
    assert "unlisted" not in value_of(whole).to_json()


async def test_roots_of_several_endpoints_are_asked_apart_and_joined(tmp_path: Path) -> None:
    levanter(tmp_path, 900)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path, "gs://b/x", "s3://c/y")
    (query,) = queries_of([run])
    first = source.join(HERE, await source.observe([query], HERE))["a"]
    assert first.error is not None and value_of(first).unlisted == ("gs://b/x", "s3://c/y")
    assert "gs://b/x: no answer yet; s3://c/y: no answer yet" in first.error.message
    hung = unknown(ErrorKind.TIMEOUT, "no answer within 30 s", "gs://b", NOW)
    joined = source.join("gs://b", {"a": hung})["a"]
    assert joined.error is not None and joined.error.kind is ErrorKind.TIMEOUT
    assert "gs://b/x: no answer within 30 s" in joined.error.message
    assert steps_of(value_of(joined)) == [(900, "complete")]
    alone = source.join("gs://b", {"other": hung})["other"]
    assert alone is hung
