"""Snapshots, failures and stops: what is kept of launches beside the journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.history import FormerFailure
from cockpit.model.observed import Pick
from cockpit.model.plan import Plan, StepResult, StepState
from cockpit.store.journal import Holder, Journal
from cockpit.store.launches import (
    FAILURES_KEPT,
    Failures,
    Followup,
    FollowupStore,
    Progressed,
    Stops,
)
from cockpit.store.memory import Snapshot, Snapshots
from cockpit.store.store import Store

KEY = "/x/cockpit.toml#toy"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def snapshot(number: int, **more: Any) -> Snapshot:
    plain: dict[str, Any] = {
        "launch_id": f"toy-i{number:03d}", "at": float(number), "action": "relaunch",
        "command": ("python", "t.py"),
    }  # fmt: skip
    return Snapshot(**{**plain, **more})


def test_a_snapshot_comes_back_whole_and_the_newest_is_the_last(store: Store) -> None:
    whole = snapshot(2, config={"a.b": "1"}, checkpoint=Pick(path="/c", step=3, why="x"),
                     dirty=("a\nb",))  # fmt: skip
    for one in (whole, snapshot(1)):
        Snapshots(store).add(KEY, one)
    assert Snapshots(store).last(KEY) == whole
    assert Snapshots(store).of(KEY, "toy-i001") == snapshot(1)
    assert Snapshots(store).last("/y#other") is None


def test_a_failure_is_recorded_once_and_only_so_many_are_kept(store: Store) -> None:
    first = FormerFailure(at=1.0, job_id="i001", name="killed", signature="s", step=4)
    Failures(store).add(KEY, first)
    Failures(store).add(KEY, first.model_copy(update={"name": "other"}))
    assert Failures(store).of(KEY) == (first,)
    for number in range(FAILURES_KEPT + 5):
        Failures(store).add(KEY, FormerFailure(at=10.0 + number, job_id=f"j{number}", name="x"))
    kept = Failures(store).of(KEY)
    assert len(kept) == FAILURES_KEPT and kept[-1].job_id == f"j{FAILURES_KEPT + 4}"


def test_a_followup_changes_for_one_cockpit_only(store: Store) -> None:
    one = Followup(run="toy", launch_id="i1", job_id="j", action="relaunch", operator="ada",
                   at=1.0, entry=1)  # fmt: skip
    follow = FollowupStore(store)
    follow.add(KEY, one)
    follow.add(KEY, one.model_copy(update={"operator": "bob"}))
    assert follow.last(KEY) == one
    passed = one.model_copy(update={"state": Progressed.PASSED})
    assert follow.change(KEY, one, passed)
    assert not follow.change(KEY, one, one.model_copy(update={"state": Progressed.DIED}))
    assert follow.last(KEY) == passed


def begun(store: Store, at: float, operator: str, stops: str, state: StepState) -> None:
    plan = Plan(words="w", plan_id="p", action="stop", run="toy", made_at=at)
    journal = Journal(store)
    entry = journal.begin(KEY, plan, operator, Holder(host="h", pid=1), at, exclusive=False)
    journal.note(entry.number, {"stops": stops})
    journal.step(entry.number, 0, StepResult(name="stop", state=state, at=at))


def test_the_journal_tells_who_ordered_which_job_to_stop(store: Store) -> None:
    begun(store, 1.0, "ada", "pid:1\npid:2", StepState.DONE)
    begun(store, 2.0, "bob", "pid:3", StepState.SKIPPED)
    begun(store, 3.0, "eve", "pid:4", StepState.BEGUN)
    found = Stops(store).of(KEY)
    assert [(each.by, each.job_ids) for each in found] == [
        ("eve", ("pid:4",)), ("ada", ("pid:1", "pid:2")),
    ]  # fmt: skip


def test_a_followup_that_an_older_version_wrote_can_be_changed(store: Store) -> None:
    follow = FollowupStore(store)
    follow.add(KEY, Followup(run="toy", launch_id="i1", job_id="j", action="relaunch",
                             operator="ada", at=1.0, entry=1))  # fmt: skip
    with store.writing() as connection:
        (text,) = connection.execute("SELECT document FROM followups").fetchone()
        older = {k: v for k, v in json.loads(text).items() if k not in ("started_at", "queued")}
        connection.execute("UPDATE followups SET document = ?", (json.dumps(older),))
    one = follow.last(KEY)
    assert one is not None
    passed = one.model_copy(update={"state": Progressed.PASSED})
    assert follow.change(KEY, one, passed) and follow.last(KEY) == passed


def test_every_step_changes_what_acted_says(store: Store) -> None:
    before = Stops(store).acted()
    begun(store, 1.0, "ada", "pid:1", StepState.BEGUN)
    assert Stops(store).acted() != before
