"""Snapshots, failures and stops: what is kept of launches beside the journal.

What this machine remembers of rejected checkpoints and of seals.

The moments of a run that are kept: which, how small, and for how long.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import known
from cockpit.model.history import CheckpointMark, FormerFailure, PhaseMark
from cockpit.model.observed import JobValue, LogValue, Phase, Pick, Row, TrackerValue, Triage
from cockpit.model.plan import Draft, Outcome, Plan, Request, StepResult, StepState, plan_of
from cockpit.model.records import Rejected
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RunSpec
from cockpit.store import memory
from cockpit.store.journal import Holder, Journal
from cockpit.store.launches import (
    FAILURES_KEPT,
    Failures,
    Followup,
    FollowupStore,
    Progressed,
    Rejections,
    Seals,
    Stops,
)
from cockpit.store.memory import (
    KEEP_FOR,
    KEEP_MARKS,
    KEEP_OBSERVATIONS,
    WHOLE_FOR,
    LaunchedJob,
    Observation,
    Pasts,
    RunMemory,
    Snapshot,
    Snapshots,
)
from cockpit.store.schema import MIGRATIONS
from cockpit.store.store import Store
from cockpit.text.safe import safe_line

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


def rejected(at: float, reason: str = "spike") -> Rejected:
    return Rejected(step=4, path="/c/step-4", at=at, by="ada", reason=reason)


def test_they_are_kept_by_run_and_the_later_of_one_path_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    Rejections(store).add("a", [rejected(10.0), rejected(20.0, "again")])
    Rejections(store).add("a", [rejected(15.0)])
    assert Rejections(Store(tmp_path / "store.sqlite")).of("a") == (rejected(20.0, "again"),)
    assert Rejections(store).of("b") == ()


def plan() -> Plan:
    return plan_of(Request(action="seal", run="a", operator="ada"), Draft(words="seal a 1"), 1.0)


def test_a_seal_holds_until_the_run_is_launched_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    journal = Journal(store)
    assert Seals(store).last("a") is None
    entry = journal.begin("a", plan(), "ada", Holder(host="h", pid=1), 10.0, exclusive=True)
    assert Seals(store).last("a") is None
    journal.end(entry.number, Outcome.DONE, 11.0, "")
    assert Seals(store).last("a") == "ada"
    RunMemory(store).add_launch("a", LaunchedJob(at=12.0, job_id="j"))
    assert Seals(store).last("a") is None


def a_report(at: float) -> RunReport:
    triage = Triage(name="killed", action="escalate", confidence="likely")
    log = LogValue(
        path="/x/run.log", size=5, mtime=at, lines=(safe_line("hello"),), triage=triage,
        rows=(Row(1, at, 2.0),),
    )  # fmt: skip
    tracker = TrackerValue(id="w", state="running", loss=math.nan, history=((1, math.inf),))
    return RunReport(
        spec=RunSpec(name="r"),
        checked_at=at,
        verdict=Verdict.CRITICAL,
        facets=Facets(
            job=known(JobValue(id="1", state="exited", phase=Phase.FAILED), "test", at),
            log=known(log, "test", at),
            tracker=known(tracker, "test", at),
        ),
        progress=Progress(step=1, final_step=2, final_step_source="x", text="~1/2"),
        next_action="look",
    )


def test_a_report_comes_back_as_it_was_shown(store: Store) -> None:
    RunMemory(store).save_reports([("k", a_report(100.25))])
    back = RunMemory(store).report("k")
    assert back is not None
    assert back.document() == a_report(100.25).document()
    assert back.facets.log.value is not None
    assert back.facets.log.value.lines[0].plain == "hello"


def test_an_older_report_does_not_replace_a_newer_one(store: Store) -> None:
    RunMemory(store).save_reports([("k", a_report(200.0))])
    RunMemory(store).save_reports([("k", a_report(100.0))])
    back = RunMemory(store).report("k")
    assert back is not None
    assert back.checked_at == 200.0


def test_a_report_of_another_shape_is_no_report(store: Store) -> None:
    with store.writing() as connection:
        connection.execute("INSERT INTO reports VALUES ('k', 1, '{\"written\": \"by 9.9\"}')")
        connection.execute("INSERT INTO reports VALUES ('l', 1, 'torn {')")
    assert RunMemory(store).report("k") is None
    assert RunMemory(store).report("l") is None


def test_hostile_lines_in_the_file_are_made_safe_again(store: Store) -> None:
    RunMemory(store).save_reports([("k", a_report(1.0))])
    with store.writing() as connection:
        connection.execute("UPDATE reports SET document = replace(document, 'hello', '\\u001b[2J')")
    back = RunMemory(store).report("k")
    assert back is not None
    assert back.facets.log.value is not None
    assert "\x1b" not in back.facets.log.value.lines[0].plain


def test_two_cockpits_make_one_observation_per_cadence(store: Store) -> None:
    memory = RunMemory(store)
    one = Observation(
        at=1000.0, verdict=Verdict.HEALTHY, phase=Phase.RUNNING, step=7, loss=math.nan
    )
    assert memory.observe("k", one, every=60.0)
    assert not memory.observe("k", one.model_copy(update={"at": 1010.0}), every=60.0)
    assert memory.observe("k", one.model_copy(update={"at": 1060.0, "loss": 2.5}), every=60.0)
    seen = memory.observations("k")
    assert [each.at for each in seen] == [1000.0, 1060.0]
    assert seen[0].loss is not None and math.isnan(seen[0].loss)
    assert seen[1].loss == 2.5
    assert [each.at for each in memory.observations("k", since=1050.0)] == [1060.0]


def test_marks_come_back_oldest_first(store: Store) -> None:
    memory = RunMemory(store)
    phases = [
        PhaseMark(at=2.0, phase=Phase.RUNNING, since=1.5),
        PhaseMark(at=1.0, phase=Phase.WAITING),
    ]
    memory.add_phases("k", phases)
    memory.add_phases("k", [PhaseMark(at=2.0, phase=Phase.FAILED, job_id="other")])
    assert memory.phases("k") == (phases[1], phases[0])
    seen_too = [mark.model_copy(update={"at": mark.at + 0.5}) for mark in phases]
    memory.add_phases("k", seen_too)
    assert memory.phases("k") == (phases[1], phases[0]), "another cockpit saw the same"
    memory.add_checkpoint_marks("k", [CheckpointMark(at=3.0, complete=2, newest=400)])
    assert memory.checkpoint_marks("k") == (CheckpointMark(at=3.0, complete=2, newest=400),)


def test_the_last_launch_is_the_newest(store: Store) -> None:
    memory = RunMemory(store)
    memory.add_launch("k", LaunchedJob(at=20.0, job_id="b", launch_id="r-i002"))
    memory.add_launch("k", LaunchedJob(at=10.0, job_id="a", launch_id="r-i001"))
    assert memory.launches("k")[-1] == LaunchedJob(at=20.0, job_id="b", launch_id="r-i002")


def test_pruning_bounds_the_file(store: Store) -> None:
    memory, now = RunMemory(store), 1e9
    old = Observation(at=now - KEEP_OBSERVATIONS - 1, verdict=Verdict.HEALTHY)
    memory.observe("k", old, every=1.0)
    memory.observe("k", old.model_copy(update={"at": now - 10}), every=1.0)
    marks = [PhaseMark(at=float(n), phase=Phase.RUNNING) for n in range(KEEP_MARKS + 30)]
    memory.add_phases("k", marks)
    memory.add_phases("other", marks[:3])
    memory.prune(now)
    assert [each.at for each in memory.observations("k")] == [now - 10]
    with store.reading() as connection:
        counts = connection.execute("SELECT run, count(*), min(at) FROM phases GROUP BY run")
        assert sorted(counts) == [("k", KEEP_MARKS, 30.0), ("other", 3, 0.0)]


NOW = 1_700_000_000.0


def at(moment: float, **changes: object) -> RunReport:
    return a_report(moment).model_copy(update=changes)


def rows(store: Store) -> list[tuple[float, float | None, int]]:
    with store.reading() as connection:
        return connection.execute(
            "SELECT at, base, length(document) FROM pasts ORDER BY at"
        ).fetchall()


def test_a_moment_comes_back_as_it_was(store: Store) -> None:
    kept = Pasts(store)
    first, second = at(NOW, next_action="look"), at(NOW + 60, next_action="seal it")
    assert kept.keep("k", first, "well", 60) and kept.keep("k", second, "sick", 60)
    found = kept.at("k", NOW + 59)
    assert found is not None and found.report is not None
    assert found.report.document() == first.document()
    found = kept.at("k", NOW + 1e6)
    assert found is not None and found.report is not None
    assert (found.at, found.report.document()) == (NOW + 60, second.document())
    assert kept.at("k", NOW - 1) is None and kept.at("other", NOW) is None


def test_what_changed_is_kept_at_once_and_the_rest_once_a_cadence_by_one_cockpit(
    store: Store,
) -> None:
    kept = Pasts(store)
    looks = [(0, "a"), (10, "a"), (12, "b"), (13, "b"), (45, "b"), (46, "a")]
    took = [kept.keep("k", at(NOW + after), face, 60) for after, face in looks]
    assert took == [True, False, True, False, True, True]
    assert not kept.keep("k", at(NOW + 46), "c", 60), "one report for a moment"
    moments = [(each.at - NOW, each.changed) for each in kept.moments("k")]
    assert moments == [(0, True), (12, True), (45, False), (46, True)]


def test_a_clock_that_was_ahead_for_a_while_holds_nothing_up(store: Store) -> None:
    kept = Pasts(store)
    kept.keep("k", at(NOW + 1e7), "a", 60)
    assert kept.keep("k", at(NOW), "a", 60) and kept.keep("k", at(NOW + 60), "a", 60)
    found = kept.at("k", NOW + 61)
    assert found is not None and found.at == NOW + 60 and found.report is not None


def test_a_moment_takes_a_part_of_its_base(store: Store) -> None:
    kept = Pasts(store)
    long = at(NOW, next_action=" ".join(f"word{n * 7919 % 1000}" for n in range(500)))
    kept.keep("k", long, "a", 60)
    kept.keep("k", long.model_copy(update={"checked_at": NOW + 60}), "a", 60)
    (_, none, whole), (_, base, part) = rows(store)
    assert none is None and base == NOW and part * 10 < whole
    other = " ".join(f"else{n * 104729 % 999983}" for n in range(500))
    kept.keep("k", at(NOW + 120, next_action=other), "a", 60)
    assert rows(store)[-1][1] is None, "what is quite another is a base of its own"


def test_old_moments_thin_out_to_one_an_hour_but_changes_stay(store: Store) -> None:
    kept = Pasts(store)
    begin = NOW - WHOLE_FOR - 7200 - NOW % 3600
    for minute in range(0, 120, 10):
        kept.keep("k", at(begin + minute * 60), "b" if minute == 50 else "a", 60)
    for minute in range(0, 60, 10):
        kept.keep("k", at(NOW - 3600 + minute * 60), "a", 60)
    kept.prune(NOW)
    old = [(each.at - begin) / 60 for each in kept.moments("k") if each.at < NOW - WHOLE_FOR]
    assert old == [0, 50, 60]
    assert len([each for each in kept.moments("k") if each.at >= NOW - 3600]) == 6
    found = kept.at("k", begin + 3600)
    assert found is not None and found.report is not None
    kept.prune(NOW + KEEP_FOR + 1)
    assert kept.moments("k") == ()


def test_a_past_that_is_too_large_loses_its_oldest_moments(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Pasts(store)
    for minute in range(40):
        kept.keep("k", at(NOW + minute * 3600 * 2), "a", 60)
    kept.keep("small", at(NOW), "a", 60)
    total = sum(each[2] for each in rows(store))
    monkeypatch.setattr(memory, "MOST_OF_RUN", total // 2)
    kept.prune(NOW)
    left = [each.at for each in kept.moments("k")]
    assert 5 < len(left) < 40 and left[-1] == NOW + 39 * 7200
    for moment in left:
        found = kept.at("k", moment)
        assert found is not None and found.report is not None, "its base was kept with it"
    assert len(kept.moments("small")) == 1


def test_what_is_torn_or_of_another_version_is_no_report(store: Store) -> None:
    kept = Pasts(store)
    kept.keep("k", at(NOW), "a", 60)
    kept.keep("k", at(NOW + 60), "b", 60)
    with store.writing() as connection:
        connection.execute("UPDATE pasts SET document = x'0011' WHERE at = ?", (NOW,))
    for moment in (NOW, NOW + 60):
        found = kept.at("k", moment)
        assert found is not None and (found.at, found.report) == (moment, None)


def test_a_store_from_before_gets_its_table_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        before = next(n for n, step in enumerate(MIGRATIONS) if "TABLE pasts" in step[0])
        made = [
            re.match(r"CREATE TABLE (\w+)", line) for step in MIGRATIONS[before:] for line in step
        ]
        for found in filter(None, made):
            connection.execute(f"DROP TABLE {found[1]}")
        connection.execute("ALTER TABLE phases DROP COLUMN accelerators")
        connection.execute(f"PRAGMA user_version = {before}")
        connection.execute("INSERT INTO phases (run, at, phase) VALUES ('k', 1, 'running')")
    store = Store(path)
    assert Pasts(store).keep("k", at(NOW, verdict=Verdict.CRITICAL), "a", 60)
    with store.reading() as connection:
        assert connection.execute("SELECT phase FROM phases").fetchall() == [(Phase.RUNNING,)]
