"""What lies elsewhere is really looked at: seeds, new roots, copies, regions, saves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cockpit.actions.checks import checkpoint, places
from cockpit.actions.sealing.teardown import Teardown
from cockpit.actions.stopping.losses import BUCKET_EVERY, Saves, SavesUnknownError
from cockpit.actions.stopping.stop import Stop
from cockpit.model.clock import SystemClock
from cockpit.model.observed import Pick
from cockpit.model.place import place_of
from cockpit.model.plan import Level, Outcome
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec, TeardownSpec
from tests.actions.resting import blocks, job
from tests.actions.roots.away import BUCKET, RUN_ROOT, BucketRest, fill
from tests.sources.checkpoints.store_server import Handler, ObjectStore

pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")
CLOCK = SystemClock()
ROOT = f"s3://{BUCKET}/{RUN_ROOT}"


async def test_a_seed_is_looked_at_where_it_lies(bucket: ObjectStore) -> None:
    fill(bucket.put, 300)
    fill(bucket.put, 400, marker=False)
    good = await checkpoint.origin(place_of(f"{ROOT}/step-300"), CLOCK)
    assert good.level is Level.PASS and "step 300, complete" in good.text
    torn = await checkpoint.origin(place_of(f"{ROOT}/step-400"), CLOCK)
    assert torn.level is Level.BLOCK and not torn.overridable
    gone = await checkpoint.origin(place_of(f"{ROOT}/step-500"), CLOCK)
    assert gone.level is Level.BLOCK and not gone.overridable
    held = bucket.buckets[BUCKET]
    held[f"{RUN_ROOT}/step-7/metadata.json"] = held[f"{RUN_ROOT}/step-300/metadata.json"]
    held[f"{RUN_ROOT}/step-7/d/0"] = (b"x", time.time() - 60)
    named = await checkpoint.origin(place_of(f"{ROOT}/step-7"), CLOCK)
    assert named.level is Level.WARN and "its name says 7" in named.text


async def test_a_root_that_is_in_use_is_no_new_one(bucket: ObjectStore) -> None:
    fill(bucket.put, 300)
    assert "is not empty" in (await checkpoint.occupied(place_of(ROOT), CLOCK) or "")
    assert await checkpoint.occupied(place_of(f"s3://{BUCKET}/runs/new"), CLOCK) is None
    assert "cannot tell whether" in (
        await checkpoint.occupied(place_of("s3://nobodys/runs"), CLOCK) or ""
    )


async def test_what_cannot_be_read_is_no_checkpoint_to_load(bucket: ObjectStore) -> None:
    fill(bucket.put, 300)
    pick = place_of(f"{ROOT}/step-300")
    assert [check.level for check in await checkpoint.unreadable(pick, CLOCK)] == [Level.PASS]
    assert bucket.count() <= 6

    def denies(asked: Handler) -> bool:
        if asked.key.endswith("0c0ffee0"):
            asked.refuse(403, "AccessDenied")
            return True
        return False

    bucket.fault = denies
    (said,) = await checkpoint.unreadable(pick, CLOCK)
    assert said.level is Level.BLOCK and "d/0c0ffee0" in said.text


async def test_other_regions_are_said(bucket: ObjectStore) -> None:
    spec = CheckpointSpec(
        path=("gs://marin-us-central2/run/ckpt",),
        initialize_from="gs://marin-eu-west4/base/step-10",
    )
    run = RunSpec(name="a", output_root="gs://marin-us-central2/run", checkpoints=spec)
    (said,) = await places.region_checks(run, (), None, CLOCK)
    assert said.level is Level.WARN and "europe-west4" in said.text and "us-central2" in said.text
    words = ("iris", "job", "run", "--zone", "us-east5-a", "--", "python", "train.py")
    there = await places.region_checks(run, words, None, CLOCK)
    assert [check.level for check in there] == [Level.WARN] * 3
    same = run.model_copy(update={"checkpoints": CheckpointSpec(path=spec.path)})
    (fine,) = await places.region_checks(same, (), None, CLOCK)
    assert fine.level is Level.PASS
    far = Pick(path="gs://x-asia-northeast1/step-5", step=5, why="")
    (said,) = await places.region_checks(same, (), far, CLOCK)
    assert "the checkpoint gs://x-asia-northeast1/step-5" in said.text


async def test_a_save_is_seen_where_it_lies(bucket: ObjectStore, tmp_path: Path) -> None:
    rest = BucketRest(tmp_path, Stop(), bucket)
    rest.fill(100)
    saves = JobSpec(kind="local", log=str(tmp_path / "run.log"), save_signal="USR1")
    rest.spec = rest.spec.model_copy(update={"job": saves})
    (tmp_path / "exit").unlink()
    rest.platform.living = (job(),)
    rest.platform.on_save = lambda: rest.fill(300, at=time.time())
    plan = await rest.plan(save_first="yes")
    assert plan.can_save_first and not plan.blocked, blocks(plan)
    result = await rest.act(plan.words, save_first="yes")
    assert result.outcome is Outcome.DONE, result.message
    assert "at step 300" in (next(s for s in result.steps if s.name == "save").note or "")


async def test_where_no_save_could_be_seen_none_is_asked_for(
    bucket: ObjectStore, tmp_path: Path
) -> None:
    rest = BucketRest(tmp_path, Stop(), bucket)
    saves = Saves(rest.spec, CLOCK)
    assert saves.every == BUCKET_EVERY
    bucket.buckets[BUCKET] = {}
    assert await saves.complete() == {}, "nothing is there yet"
    rest.fill(100)
    assert list((await saves.complete()).values()) == [100]
    bucket.count()
    await saves.complete()
    assert bucket.count() <= 3, "a further look is a listing, not a survey"

    def refuses(asked: Handler) -> bool:
        asked.refuse(403, "AccessDenied")
        return True

    bucket.fault = refuses
    with pytest.raises(SavesUnknownError, match="AccessDenied"):
        await saves.complete()


async def test_a_copy_is_held_against_the_buckets_listing(
    bucket: ObjectStore, tmp_path: Path
) -> None:
    copy = tmp_path / "artifacts"
    spec = TeardownSpec(
        kind="terminate", command=("true",), pulled_to=str(copy), verify=("echo", "OK 3/3")
    )
    rest = BucketRest(tmp_path, Teardown(), bucket, teardown=spec)
    rest.fill(100)
    root = f"s3://{BUCKET}/runs/toy"
    rest.spec = rest.spec.model_copy(update={"output_root": place_of(root)})
    for key, (data, _) in bucket.buckets[BUCKET].items():
        path = copy / key.removeprefix("runs/toy/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    plan = await rest.plan()
    assert "pulled" not in blocks(plan), blocks(plan)
    assert any(c.id == "pulled" and f"equal to {root}" in c.text for c in plan.checks)
    rest.fill(200)
    assert "3 of 6 files are not pulled" in blocks(await rest.plan())["pulled"]
    bucket.buckets[BUCKET] = {}
    assert "cannot be listed" in blocks(await rest.plan())["pulled"] or (
        "no file" in blocks(await rest.plan())["pulled"]
    )
