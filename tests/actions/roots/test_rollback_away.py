"""A-4 in a bucket: markers move aside, marks are put by condition, and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.actions.stopping.rollback import Rollback
from cockpit.model.observed import CheckpointState
from cockpit.model.plan import Outcome
from cockpit.sources.checkpoints.source import list_anywhere
from tests.actions.resting import blocks
from tests.actions.roots.away import BUCKET, RUN_ROOT, BucketRest
from tests.sources.checkpoints.store_server import Handler, ObjectStore

pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")


@pytest.fixture(params=["s3", "gs"])
def rest(request: pytest.FixtureRequest, bucket: ObjectStore, tmp_path: Path) -> BucketRest:
    world = BucketRest(tmp_path, Rollback(), bucket, scheme=request.param)
    world.fill(100, 200, 300)
    world.fill(400, marker=False)
    return world


async def test_the_marker_moves_and_the_trainer_skips_it(rest: BucketRest) -> None:
    plan = await rest.plan(to="200")
    assert not plan.blocked, blocks(plan)
    assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 200
    said = next(check.text for check in plan.checks if check.id == "move")
    assert "the marker of 1 checkpoint" in said and "1 checkpoint without a marker stays" in said
    before = rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/step-300/metadata.json"][0]
    result = await rest.act(plan.words, to="200")
    assert (result.outcome, result.recorded) == (Outcome.DONE, True), result.message
    (aside,) = [key for key in rest.keys if ".rejected-" in key]
    assert aside.startswith("step-300/metadata.json.rejected-20")
    assert rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/{aside}"][0] == before
    assert "step-300/metadata.json" not in rest.keys and "step-300/d/0c0ffee0" in rest.keys
    value = await rest.listing()
    states = {item.step or item.name_step: item.state for item in value.items}
    assert states[300] is states[400] is CheckpointState.REJECTED
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 200
    (_, entry) = rest.book.entries
    assert f"{rest.address}/step-300/metadata.json -> " in entry.evidence


async def test_every_cockpit_reads_it_back_and_moving_back_undoes_it(rest: BucketRest) -> None:
    await rest.act("rollback toy 200", to="200")
    value = await list_anywhere([rest.address], clock=rest.clock)
    assert value.latest_complete == 200
    held = rest.bucket.buckets[BUCKET]
    marks = json.loads(held[f"{RUN_ROOT}/.cockpit/rejected.json"][0])["rejected"]
    assert [one["name"] for one in marks] == ["step-300", "step-400"]
    del held[f"{RUN_ROOT}/.cockpit/rejected.json"]  # the marker alone still tells
    value = await list_anywhere([rest.address], clock=rest.clock)
    assert {item.name_step: item.state.value for item in value.items}[300] == "rejected"
    (aside,) = [key for key in held if ".rejected-" in key]
    held[f"{RUN_ROOT}/step-300/metadata.json"] = held.pop(aside)
    value = await list_anywhere([rest.address], clock=rest.clock)
    assert value.latest_complete == 300


async def test_what_is_saved_there_later_is_a_new_one(rest: BucketRest) -> None:
    await rest.act("rollback toy 200", to="200")
    rest.fill(300, at=rest.clock.now() + 120)
    value = await rest.listing()
    assert value.latest_complete == 300


async def test_a_marker_that_changes_meanwhile_is_left_alone(rest: BucketRest) -> None:
    key = f"{RUN_ROOT}/step-300/metadata.json"

    def changes(asked: Handler) -> bool:
        if asked.command == "PUT" and ".rejected-" in asked.key:
            rest.bucket.put(BUCKET, key, b'{"step": 300, "timestamp": "2026-01-01T00:00:00"}')
        return False

    rest.bucket.fault = changes
    result = await rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.FAILED and "has changed since it was read" in result.message
    assert b"2026-01-01" in rest.bucket.buckets[BUCKET][key][0]


async def test_no_right_to_delete_blocks_and_names_the_way_out(rest: BucketRest) -> None:
    rest.bucket.kept = lambda key: True
    plan = await rest.plan(to="200")
    said = blocks(plan)["move"]
    assert "may not be deleted" in said and "{checkpoint}" in said
    before = rest.keys
    assert (await rest.act(plan.words, to="200")).outcome is Outcome.REFUSED
    assert rest.keys - before <= {".cockpit/try"}


async def test_where_only_steps_may_not_be_deleted_all_is_put_back(rest: BucketRest) -> None:
    rest.bucket.kept = lambda key: "/step-" in key
    before = rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/step-300/metadata.json"][0]
    result = await rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.FAILED and "may not be deleted" in result.message
    assert rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/step-300/metadata.json"][0] == before
    del rest.bucket.buckets[BUCKET][f"{RUN_ROOT}/.cockpit/rejected.json"]
    value = await list_anywhere([rest.address], clock=rest.clock)
    assert value.latest_complete == 300, "it is not said to be rejected: that was taken back"


async def test_an_answer_that_is_lost_is_read_back(rest: BucketRest) -> None:
    lost: list[str] = []

    def loses(asked: Handler) -> bool:
        if asked.command == "PUT" and asked.key.endswith("rejected.json") and not lost:
            lost.append(asked.key)
            rest.bucket.put(BUCKET, asked.key, asked.body)
            asked.close_connection = True
            asked.connection.close()
            return True
        return False

    rest.bucket.fault = loses
    result = await rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.DONE, result.message
    assert lost


async def test_a_bucket_that_takes_nothing_is_said_before(rest: BucketRest) -> None:
    def refuses(asked: Handler) -> bool:
        if asked.command == "PUT":
            asked.refuse(403, "AccessDenied")
        return asked.command == "PUT"

    rest.bucket.fault = refuses
    plan = await rest.plan(to="200")
    assert "may not be written" in blocks(plan)["move"]
    assert any(c.id == "mark" and "may not be written" in c.text for c in plan.checks)


async def test_a_move_that_cannot_be_seen_any_more_is_not_said_to_have_failed(
    rest: BucketRest,
) -> None:
    """Without the right to list, S3 says of a key that is not there that it may not be read."""
    hidden = False

    def hides(asked: Handler) -> bool:
        nonlocal hidden
        missing = asked.key not in rest.bucket.buckets[BUCKET]
        hidden = hidden or (asked.command in ("POST", "DELETE") and "step-300" in asked.deletes[0])
        if hidden and asked.command in ("GET", "HEAD") and asked.key and missing:
            asked.refuse(403, "AccessDenied")
            return True
        return False

    plan = await rest.plan(to="200")
    rest.bucket.fault = hides
    await rest.act(plan.words, to="200")
    assert hidden and f"{RUN_ROOT}/step-300/metadata.json" not in rest.bucket.buckets[BUCKET]
    evidence = rest.book.entries[-1].evidence
    assert "0 of 1 moved aside, 1 unknown" in evidence, evidence
    assert "step-300/metadata.json -> " in evidence


async def test_what_was_read_a_moment_ago_is_not_read_again(rest: BucketRest) -> None:
    """Every write is conditional, so what was read to plan it need not be read twice."""
    plan = await rest.plan(to="200")
    tries = [line for line in rest.bucket.asked if line.endswith("/.cockpit/try")]
    assert [line.split()[0] for line in tries[:4]] == ["GET", "PUT", "HEAD", "GET"]
    assert len(tries) <= 5, tries
    rest.bucket.asked.clear()
    assert (await rest.act(plan.words, to="200")).outcome is Outcome.DONE
    writes = [line for line in rest.bucket.asked if "step-300/metadata.json" in line]
    first = next(at for at, line in enumerate(writes) if line.startswith("PUT"))
    reads = [line for line in writes[:first] if ".rejected-" in line]
    assert len(reads) == 1, "its new name is looked for once"
