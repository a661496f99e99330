"""A-6 in a bucket: the marker goes first, then the listed keys; cut short it is never complete.

A-4 in a bucket: markers move aside, marks are put by condition, and nothing else is touched.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cockpit.actions.retention.retain import Retain
from cockpit.actions.stopping.rollback import Rollback
from cockpit.model.observed import CheckpointState
from cockpit.model.plan import Outcome
from cockpit.sources.checkpoints.source import list_anywhere
from tests.actions.resting import blocks
from tests.actions.roots.away import BUCKET, RUN_ROOT, BucketRest
from tests.sources.checkpoints.store_server import Handler, ObjectStore

pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")


LONG = pytest.mark.skipif(not os.environ.get("SOAK"), reason="long: set SOAK=1")


@pytest.fixture(params=["s3", pytest.param("gs", marks=LONG)])
def rest(request: pytest.FixtureRequest, bucket: ObjectStore, tmp_path: Path) -> BucketRest:
    world = BucketRest(tmp_path, Retain(), bucket, scheme=request.param, keep=2)
    world.fill(100, 200, 300, 400)
    return world


def steps(rest: BucketRest) -> set[str]:
    return {key.partition("/")[0] for key in rest.keys}


def writes_to_a_step(asked: Handler) -> bool:
    named = [asked.key, *asked.deletes]
    return asked.command in ("PUT", "POST", "DELETE") and any("/step-" in key for key in named)


async def test_what_was_listed_goes_and_nothing_that_appeared_since(rest: BucketRest) -> None:
    plan = await rest.plan()
    assert plan.words == "delete 2 from toy" and not plan.blocked, blocks(plan)
    rest.fill(50)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert steps(rest) == {"step-50", "step-300", "step-400"}
    (entry,) = rest.book.entries
    assert "2 checkpoints deleted" in entry.status and "step-100" in entry.evidence


async def test_the_marker_is_the_first_to_go(rest: BucketRest) -> None:
    rest.bucket.asked.clear()
    assert (await rest.act("delete 2 from toy")).outcome is Outcome.DONE
    base = f"{RUN_ROOT}/step-100"
    writes = [line for line in rest.bucket.asked if base in line and not line.startswith("GET")]
    writes = [line for line in writes if not line.startswith("HEAD")]
    assert writes[0].startswith(f"PUT {BUCKET} {base}/metadata.json.deleting-")
    assert writes[1] == f"PUT {BUCKET} {base}/metadata.json"


async def test_a_listed_one_that_is_another_now_stops_it(rest: BucketRest) -> None:
    plan = await rest.plan()
    rest.bucket.put(BUCKET, f"{RUN_ROOT}/step-100/d/new", b"x", rest.clock.now() - 1800)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED and "is not the one that was listed" in result.message
    assert len(steps(rest)) == 4


@pytest.mark.parametrize("dies_at", (2, 3, 5))
async def test_cut_short_anywhere_it_is_never_complete_and_can_be_gone_on_with(
    rest: BucketRest, dies_at: int
) -> None:
    """The store answers no more from some write on; what lies there then is half or whole."""
    writes = 0
    whole = {key for key in rest.keys if key.startswith("step-100/")}

    def stops(asked: Handler) -> bool:
        nonlocal writes
        if writes_to_a_step(asked):
            writes += 1
            if writes >= dies_at:
                asked.refuse(400, "InvalidRequest")
                return True
        return False

    plan = await rest.plan()
    rest.bucket.fault = stops
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome in (Outcome.FAILED, Outcome.UNKNOWN), result.message
    rest.bucket.fault = None
    there = {key for key in rest.keys if key.startswith("step-100/")}
    value = await rest.listing()
    state = {item.name_step: item.state for item in value.items}.get(100)
    complete = state is CheckpointState.COMPLETE
    assert complete == (there == whole), "what has lost anything is not complete"
    (entry,) = rest.book.entries
    gone = not there
    assert ("step 100" in entry.evidence) == gone, entry.evidence
    again = await rest.plan()
    result = await rest.service.act(rest.request(), again.words, shown=again.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert steps(rest) == {"step-300", "step-400"}


async def test_a_save_that_comes_where_one_was_half_deleted_is_left_alone(rest: BucketRest) -> None:
    refused: list[list[str]] = []

    def stops(asked: Handler) -> bool:
        if writes_to_a_step(asked) and asked.deletes and "d/0c0ffee0" in asked.deletes[0]:
            refused.append(asked.deletes)
            asked.refuse(400, "InvalidRequest")
            return True
        return False

    rest.bucket.fault = stops
    assert (await rest.act("delete 2 from toy")).outcome is Outcome.FAILED
    rest.bucket.fault = None
    assert refused and "step-100/metadata.json" not in rest.keys
    rest.fill(100, at=rest.clock.now() + 60)
    value = await rest.listing()
    assert {item.name_step: item.state for item in value.items}[100] is CheckpointState.COMPLETE


async def test_no_right_to_delete_blocks_with_words(rest: BucketRest) -> None:
    rest.bucket.kept = lambda key: True
    said = blocks(await rest.plan())["deletable"]
    assert "nothing can be deleted there" in said and "grant" in said


async def test_where_only_steps_may_not_be_deleted_it_stays_whole(rest: BucketRest) -> None:
    rest.bucket.kept = lambda key: "/step-" in key
    plan = await rest.plan()
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.FAILED and "may not be deleted" in result.message
    value = await rest.listing()
    assert [item.state.value for item in value.items] == ["complete"] * 4
    assert "nothing was deleted" in rest.book.entries[0].evidence


async def test_versions_that_are_kept_are_said(rest: BucketRest) -> None:
    rest.bucket.versioned = True
    said = [check.text for check in (await rest.plan()).checks if check.id == "deletable"]
    assert rest.address.startswith("gs") or ("keeps versions" in said[0])


async def test_what_cannot_be_listed_any_more_is_not_said_to_be_gone(rest: BucketRest) -> None:
    def refuses(asked: Handler) -> bool:
        lists = asked.command == "GET" and not asked.key
        if lists:
            asked.refuse(403, "AccessDenied")
        return lists

    plan = await rest.plan()
    rest.bucket.fault = refuses
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    right = "storage.objects.list" if rest.address.startswith("gs") else "s3:ListBucket"
    assert result.outcome is Outcome.REFUSED and right in result.message
    assert "gone" not in result.message and len(steps(rest)) == 4


async def test_what_is_named_in_a_bucket_stays(bucket: ObjectStore, tmp_path: Path) -> None:
    rest = BucketRest(tmp_path, Retain(), bucket, keep=1)
    spec = rest.spec.checkpoints
    assert spec is not None
    changed = {"checkpoints": spec.model_copy(update={"layout": "hf"})}
    rest.spec = rest.spec.model_copy(update=changed)
    for step in range(100, 501, 100):
        base, at = f"{RUN_ROOT}/checkpoint-{step}", rest.clock.now() - 7200 + step
        for name in ("model.safetensors", "optimizer.pt"):
            bucket.put(BUCKET, f"{base}/{name}", b"x" * 99, at)
        said = {"best_model_checkpoint": "/x/checkpoint-100", "log_history": ["x" * 9000]}
        bucket.put(BUCKET, f"{base}/trainer_state.json", json.dumps(said).encode(), at)
    bucket.put(BUCKET, f"{RUN_ROOT}/LATEST", b"checkpoint-200")
    plan = await rest.plan()
    assert {target.step for target in plan.targets} == {300, 400}, blocks(plan)
    kept = {target.step: target.why for target in plan.keeps}
    assert "the trainer's best" in kept[100] and "LATEST names it" in kept[200]
    bucket.put(BUCKET, f"{RUN_ROOT}/checkpoint-300/trainer_state.json", b"\0" * 99, at - 200)
    plan = await rest.plan()
    assert {target.step for target in plan.targets} <= {300}


pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")


@pytest.fixture(params=["s3", "gs"])
def rollback_rest(
    request: pytest.FixtureRequest, bucket: ObjectStore, tmp_path: Path
) -> BucketRest:
    world = BucketRest(tmp_path, Rollback(), bucket, scheme=request.param)
    world.fill(100, 200, 300)
    world.fill(400, marker=False)
    return world


async def test_the_marker_moves_and_the_trainer_skips_it(rollback_rest: BucketRest) -> None:
    plan = await rollback_rest.plan(to="200")
    assert not plan.blocked, blocks(plan)
    assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 200
    said = next(check.text for check in plan.checks if check.id == "move")
    assert "the marker of 1 checkpoint" in said and "1 checkpoint without a marker stays" in said
    before = rollback_rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/step-300/metadata.json"][0]
    result = await rollback_rest.act(plan.words, to="200")
    assert (result.outcome, result.recorded) == (Outcome.DONE, True), result.message
    (aside,) = [key for key in rollback_rest.keys if ".rejected-" in key]
    assert aside.startswith("step-300/metadata.json.rejected-20")
    assert rollback_rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/{aside}"][0] == before
    assert (
        "step-300/metadata.json" not in rollback_rest.keys
        and "step-300/d/0c0ffee0" in rollback_rest.keys
    )
    value = await rollback_rest.listing()
    states = {item.step or item.name_step: item.state for item in value.items}
    assert states[300] is states[400] is CheckpointState.REJECTED
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 200
    (_, entry) = rollback_rest.book.entries
    assert f"{rollback_rest.address}/step-300/metadata.json -> " in entry.evidence


async def test_every_cockpit_reads_it_back_and_moving_back_undoes_it(
    rollback_rest: BucketRest,
) -> None:
    await rollback_rest.act("rollback toy 200", to="200")
    value = await list_anywhere([rollback_rest.address], clock=rollback_rest.clock)
    assert value.latest_complete == 200
    held = rollback_rest.bucket.buckets[BUCKET]
    marks = json.loads(held[f"{RUN_ROOT}/.cockpit/rejected.json"][0])["rejected"]
    assert [one["name"] for one in marks] == ["step-300", "step-400"]
    del held[f"{RUN_ROOT}/.cockpit/rejected.json"]  # the marker alone still tells
    value = await list_anywhere([rollback_rest.address], clock=rollback_rest.clock)
    assert {item.name_step: item.state.value for item in value.items}[300] == "rejected"
    (aside,) = [key for key in held if ".rejected-" in key]
    held[f"{RUN_ROOT}/step-300/metadata.json"] = held.pop(aside)
    value = await list_anywhere([rollback_rest.address], clock=rollback_rest.clock)
    assert value.latest_complete == 300


async def test_what_is_saved_there_later_is_a_new_one(rollback_rest: BucketRest) -> None:
    await rollback_rest.act("rollback toy 200", to="200")
    rollback_rest.fill(300, at=rollback_rest.clock.now() + 120)
    value = await rollback_rest.listing()
    assert value.latest_complete == 300


async def test_a_marker_that_changes_meanwhile_is_left_alone(rollback_rest: BucketRest) -> None:
    key = f"{RUN_ROOT}/step-300/metadata.json"

    def changes(asked: Handler) -> bool:
        if asked.command == "PUT" and ".rejected-" in asked.key:
            rollback_rest.bucket.put(
                BUCKET, key, b'{"step": 300, "timestamp": "2026-01-01T00:00:00"}'
            )
        return False

    rollback_rest.bucket.fault = changes
    result = await rollback_rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.FAILED and "has changed since it was read" in result.message
    assert b"2026-01-01" in rollback_rest.bucket.buckets[BUCKET][key][0]


async def test_no_right_to_delete_blocks_and_names_the_way_out(rollback_rest: BucketRest) -> None:
    rollback_rest.bucket.kept = lambda key: True
    plan = await rollback_rest.plan(to="200")
    said = blocks(plan)["move"]
    assert "may not be deleted" in said and "{checkpoint}" in said
    before = rollback_rest.keys
    assert (await rollback_rest.act(plan.words, to="200")).outcome is Outcome.REFUSED
    assert rollback_rest.keys - before <= {".cockpit/try"}


async def test_where_only_steps_may_not_be_deleted_all_is_put_back(
    rollback_rest: BucketRest,
) -> None:
    rollback_rest.bucket.kept = lambda key: "/step-" in key
    before = rollback_rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/step-300/metadata.json"][0]
    result = await rollback_rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.FAILED and "may not be deleted" in result.message
    assert rollback_rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/step-300/metadata.json"][0] == before
    del rollback_rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/.cockpit/rejected.json"]
    value = await list_anywhere([rollback_rest.address], clock=rollback_rest.clock)
    assert value.latest_complete == 300, "it is not said to be rejected: that was taken back"


async def test_an_answer_that_is_lost_is_read_back(rollback_rest: BucketRest) -> None:
    lost: list[str] = []

    def loses(asked: Handler) -> bool:
        if asked.command == "PUT" and asked.key.endswith("rejected.json") and not lost:
            lost.append(asked.key)
            rollback_rest.bucket.put(BUCKET, asked.key, asked.body)
            asked.close_connection = True
            asked.connection.close()
            return True
        return False

    rollback_rest.bucket.fault = loses
    result = await rollback_rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.DONE, result.message
    assert lost


async def test_a_bucket_that_takes_nothing_is_said_before(rollback_rest: BucketRest) -> None:
    def refuses(asked: Handler) -> bool:
        if asked.command == "PUT":
            asked.refuse(403, "AccessDenied")
        return asked.command == "PUT"

    rollback_rest.bucket.fault = refuses
    plan = await rollback_rest.plan(to="200")
    assert "may not be written" in blocks(plan)["move"]
    assert any(c.id == "mark" and "may not be written" in c.text for c in plan.checks)


async def test_a_move_that_cannot_be_seen_any_more_is_not_said_to_have_failed(
    rollback_rest: BucketRest,
) -> None:
    """Without the right to list, S3 says of a key that is not there that it may not be read."""
    hidden = False

    def hides(asked: Handler) -> bool:
        nonlocal hidden
        missing = asked.key not in rollback_rest.bucket.buckets[BUCKET]
        hidden = hidden or (asked.command in ("POST", "DELETE") and "step-300" in asked.deletes[0])
        if hidden and asked.command in ("GET", "HEAD") and asked.key and missing:
            asked.refuse(403, "AccessDenied")
            return True
        return False

    plan = await rollback_rest.plan(to="200")
    rollback_rest.bucket.fault = hides
    await rollback_rest.act(plan.words, to="200")
    assert (
        hidden and f"{RUN_ROOT}/step-300/metadata.json" not in rollback_rest.bucket.buckets[BUCKET]
    )
    evidence = rollback_rest.book.entries[-1].evidence
    assert "0 of 1 moved aside, 1 unknown" in evidence, evidence
    assert "step-300/metadata.json -> " in evidence


async def test_what_was_read_a_moment_ago_is_not_read_again(rollback_rest: BucketRest) -> None:
    """Every write is conditional, so what was read to plan it need not be read twice."""
    plan = await rollback_rest.plan(to="200")
    tries = [line for line in rollback_rest.bucket.asked if line.endswith("/.cockpit/try")]
    assert [line.split()[0] for line in tries[:4]] == ["GET", "PUT", "HEAD", "GET"]
    assert len(tries) <= 5, tries
    rollback_rest.bucket.asked.clear()
    assert (await rollback_rest.act(plan.words, to="200")).outcome is Outcome.DONE
    writes = [line for line in rollback_rest.bucket.asked if "step-300/metadata.json" in line]
    first = next(at for at, line in enumerate(writes) if line.startswith("PUT"))
    reads = [line for line in writes[:first] if ".rejected-" in line]
    assert len(reads) == 1, "its new name is looked for once"
