from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Bundle
from cockpit.model.observed import Phase, Row
from cockpit.model.plan import Plan, StepResult, StepState
from cockpit.model.records import EventEntry, Recorded, SaveStage
from cockpit.model.report import RunReport
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.recorder import RecordWriter
from cockpit.services.launch_checks import LaunchChecks, due, followed, outcome_entry
from cockpit.store.journal import Holder, Journal
from cockpit.store.launches import FIRST_CHECK, Followup, FollowupStore, Progressed
from cockpit.store.memory import Snapshot, Snapshots
from cockpit.store.store import Store
from tests.actions.contexts import alert, item, listing, report
from tests.rules.making import T0, blind, job, log, run_spec, tracker

KEY = "/x#toy"
RUN = run_spec(records=RecordsSpec(logbook="/l.md"))
OWN: dict[str, Any] = {"launch_id": "toy-i002", "started_at": T0 + 1}


def followup(**more: Any) -> Followup:
    plain: dict[str, Any] = {
        "run": "toy", "launch_id": "toy-i002", "job_id": "host:2", "action": "relaunch",
        "operator": "ada", "at": T0, "entry": 1, "resumes_from": 50, "failed_step": 90,
    }  # fmt: skip
    return Followup(**{**plain, **more})


def seen(*steps: int, at: float = T0 + 300, **facets: Any) -> RunReport:
    rows = tuple(Row(step, T0 + 5 + n, 2.0) for n, step in enumerate(steps))
    return report(RUN, now=at, **{
        "job": job(**OWN), "log": log("x", rows=(Row(90, T0 - 50, 2.0), *rows)), **facets,
    })  # fmt: skip


def far(step: int) -> dict[str, Any]:
    return {
        "tracker": tracker(step=step, last_step_at=T0 + 200),
        "checkpoints": listing(item(50, saved_at=T0 - 90), item(step, saved_at=T0 + 200)),
    }


def state(found: RunReport, **more: Any) -> Progressed:
    return followed(followup(**more), found).state


def test_nothing_seen_is_waiting_then_alive() -> None:
    assert state(seen(job=job(Phase.WAITING, **OWN))) is Progressed.WAITING
    assert state(seen()) is Progressed.ALIVE


def test_the_expected_first_step_is_a_resume() -> None:
    found = followed(followup(), seen(51, 52))
    assert (found.state, found.first_step) == (Progressed.RESUMED, 51)


def test_passing_needs_every_witness_that_is_there() -> None:
    assert state(seen(51, 95, **far(95))) is Progressed.PASSED
    assert state(seen(51, 95, **{**far(95), "tracker": tracker(step=80)})) is Progressed.RESUMED
    torn = listing(item(50, saved_at=T0 - 90), item(95, "incomplete"))
    assert state(seen(51, 95, **{**far(95), "checkpoints": torn})) is Progressed.RESUMED
    assert state(seen(51, 95, **{**far(95), "checkpoints": blind()})) is Progressed.RESUMED
    assert state(seen(51, 95)) is Progressed.PASSED


def test_a_checkpoint_of_the_former_job_proves_nothing() -> None:
    old = listing(item(95, saved_at=T0 - 1))
    assert state(seen(51, 95, checkpoints=old)) is Progressed.RESUMED


def test_a_restart_from_zero_is_wrong_at_once_and_stays_so() -> None:
    assert state(seen(0, 1)) is Progressed.WRONG_STEP
    assert state(seen(51, 95, **far(95)), first_step=0) is Progressed.WRONG_STEP
    said = alert("C-12").model_copy(update={"key": "C-12:first-step:toy:toy-i002"})
    accused = report(RUN, [said], now=T0 + 10, job=job(**OWN))
    assert state(accused) is Progressed.WRONG_STEP


def test_a_death_is_its_own_and_not_that_of_the_former_job() -> None:
    dead = job(Phase.FAILED, exit_code=1, ended_at=T0 + 9, **OWN)
    found = followed(followup(), seen(51, job=dead))
    assert found.state is Progressed.DIED and "after resuming at 51" in found.text
    former = job(Phase.FAILED, exit_code=1, ended_at=T0 - 9, launch_id="toy-i001")
    assert state(seen(job=former)) is Progressed.WAITING


def test_a_good_end_has_passed() -> None:
    assert state(seen(job=job(Phase.SUCCEEDED, ended_at=T0 + 9, **OWN))) is Progressed.PASSED


def test_an_exit_status_of_0_that_was_no_success_is_a_death_whatever_its_title() -> None:
    over = job(Phase.SUCCEEDED, ended_at=T0 + 9, **OWN)
    short = alert("C-19", "success it was not").model_copy(update={"no_success": True})
    found = report(RUN, now=T0 + 300, job=over, alerts=(short,))
    assert state(found) is Progressed.DIED
    hollow = short.model_copy(update={"no_success": False, "title": "no final checkpoint"})
    found = report(RUN, now=T0 + 300, job=over, alerts=(hollow,))
    assert state(found) is Progressed.PASSED


def test_no_progress_in_time_is_said_with_what_is_missing() -> None:
    late = T0 + 86_400
    found = followed(followup(), seen(51, 60, at=late, tracker=tracker(step=None)))
    assert found.state is Progressed.NOT_PASSED
    assert "log at 60" in found.text and "tracker has nothing yet" in found.text


def test_a_queue_of_six_hours_is_waiting_and_the_clock_starts_with_the_job() -> None:
    """Once it was seen in the queue, a controller that says nothing proves nothing either."""
    queue = job(Phase.WAITING, launch_id="toy-i002", started_at=None, reason="Priority")
    late = T0 + 6 * 3600
    found = followed(followup(), seen(at=late, job=queue))
    assert (found.state, found.text) == (Progressed.WAITING, "waiting to start: Priority")
    assert (found.queued, found.started_at) == (True, None)
    waiting = followup(queued=True)
    assert followed(waiting, seen(at=late, job=blind())).state is Progressed.WAITING

    began = job(launch_id="toy-i002", started_at=late)
    soon = followed(waiting, seen(at=late + 600, job=began))
    assert (soon.state, soon.queued, soon.started_at) == (Progressed.ALIVE, False, late)
    started = followup(started_at=late)
    assert followed(started, seen(at=late + 600, job=blind())).state is Progressed.WAITING
    overdue = seen(at=late + 86_400, job=began)
    assert followed(started, overdue).state is Progressed.NOT_PASSED


def test_the_code_that_its_job_runs_is_kept_once_it_is_told() -> None:
    bundle = Bundle(id="b-77", commit="abc123", dirty=True)
    told = followed(followup(), seen(job=job(**OWN, bundle=bundle)))
    assert told.bundle == bundle
    kept = followup().model_copy(update=told.kept)
    assert followed(kept, seen(job=blind())).bundle == bundle
    other = job(launch_id="toy-i001", bundle=bundle.model_copy(update={"id": "b-1"}))
    assert followed(followup(), seen(job=other)).bundle is None
    said = outcome_entry(kept, T0).evidence
    assert said.endswith("it runs bundle b-77 commit abc123 of a dirty tree")


def test_a_job_that_is_cancelled_in_the_queue_has_died() -> None:
    gone = job(Phase.CANCELLED, launch_id="toy-i002", started_at=None, ended_at=T0 + 9)
    assert state(seen(job=gone), queued=True) is Progressed.DIED


def is_due(at: float, **more: Any) -> bool:
    return due(followup(**more), 600.0, lambda then: at - then)


def test_it_is_looked_at_after_two_minutes_and_then_each_cadence() -> None:
    assert not is_due(T0 + FIRST_CHECK - 1) and is_due(T0 + FIRST_CHECK)
    judged = {"judged_at": T0 + 120}
    assert not is_due(T0 + 719, **judged) and is_due(T0 + 720, **judged)


def test_the_two_minutes_count_from_each_start_of_its_job() -> None:
    queue = {"judged_at": T0 + 6 * 3600, "started_at": T0 + 6 * 3600 + 30}
    first = T0 + 6 * 3600 + 30 + FIRST_CHECK
    assert not is_due(first - 1, **queue) and is_due(first, **queue)
    judged = {**queue, "judged_at": first}
    assert not is_due(first + 599, **judged) and is_due(first + 600, **judged)
    requeued = {**judged, "started_at": first + 200}
    assert not is_due(first + 319, **requeued) and is_due(first + 320, **requeued)


def test_one_that_is_preempted_waits_and_counts_anew_from_its_new_start() -> None:
    """Whether the platform tells the new start (Slurm) or the first one for ever (Iris)."""
    known, late = followup(started_at=T0 + 10), T0 + 6 * 3600
    again: dict[str, Any] = {"launch_id": "toy-i002", "restarts": 1}
    for started in (None, T0 + 10):
        back = job(Phase.WAITING, **again, started_at=started, reason="Preempted")
        waits = followed(known, seen(at=late, job=back))
        assert (waits.state, waits.text) == (Progressed.WAITING, "waiting to start: Preempted")
        assert (waits.queued, waits.started_at) == (True, T0 + 10)
        held = known.model_copy(update=waits.kept)
        runs = job(**again, started_at=started or late + 50)
        anew = followed(held, seen(at=late + 60, job=runs))
        assert anew.state is Progressed.ALIVE and not anew.queued
        assert anew.started_at == (late + 60 if started else late + 50)
        kept = held.model_copy(update=anew.kept)
        later = followed(kept, seen(at=late + 120, job=runs))
        assert (later.state, later.started_at) == (Progressed.ALIVE, anew.started_at)


class Told(SystemClock):
    def __init__(self) -> None:
        self.time = T0

    def now(self) -> float:
        return self.time


class Entries(RecordWriter):
    """A recorder that keeps entries; ``refuses`` while it may not write."""

    async def push_left(self, run: RunSpec) -> None:
        return

    def __init__(self) -> None:
        self.entries: list[EventEntry] = []
        self.refuses = False

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        if self.refuses:
            return Recorded(stage=SaveStage.NOTHING, trouble="the disk is full")
        if entry not in self.entries:
            self.entries.append(entry)
        return Recorded(stage=SaveStage.PUSHED)

    @property
    def titles(self) -> Sequence[str]:
        return [entry.title for entry in self.entries]


class World:
    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "s.sqlite")
        self.clock, self.book = Told(), Entries()
        plan = Plan(words="w", plan_id="p", action="relaunch", run="toy", made_at=T0)
        holder = Holder(host="h", pid=1)
        begun = Journal(self.store).begin(KEY, plan, "ada", holder, T0, exclusive=False)
        self.number = begun.number
        self.begin(followup(entry=begun.number))
        self.allowed = True

    async def may_log(self, run: RunSpec) -> bool:
        return self.allowed

    def begin(self, one: Followup) -> None:
        FollowupStore(self.store).add(KEY, one)

    def cockpit(self) -> LaunchChecks:
        return LaunchChecks(self.store, self.clock, self.book, self.may_log)

    async def heard(self, found: RunReport) -> Progressed:
        self.clock.time = found.checked_at
        known = await self.cockpit().heard(KEY, found)
        assert known is not None
        return known.state

    @property
    def noted(self) -> StepState | None:
        entry = Journal(self.store).entry(self.number)
        step = None if entry is None else entry.step("progress")
        return None if step is None else step.state


@pytest.fixture
def service(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_good_news_waits_for_its_time_and_is_written_once(service: World) -> None:
    assert await service.heard(seen(51, 95, at=T0 + 30, **far(95))) is not Progressed.PASSED
    assert service.book.titles == []
    for later in (300.0, 400.0, 9000.0):
        assert await service.heard(seen(51, 95, at=T0 + later, **far(95))) is Progressed.PASSED
    assert service.book.titles == ["relaunch confirmed: toy-i002"]
    assert service.noted is StepState.DONE


async def test_the_code_of_its_job_is_in_the_snapshot_that_the_next_one_is_compared_with(
    service: World,
) -> None:
    snapshots = Snapshots(service.store)
    snapshots.add(KEY, Snapshot(launch_id="toy-i002", at=T0, action="relaunch", command=("x",)))
    bundle = Bundle(id="b-77", commit="abc123")
    await service.heard(seen(job=job(**OWN, bundle=bundle)))
    kept = snapshots.last(KEY)
    assert kept is not None and kept.bundle == bundle and kept.command == ("x",)


async def test_bad_news_is_written_at_once(service: World) -> None:
    assert await service.heard(seen(0, at=T0 + 8)) is Progressed.WRONG_STEP
    assert await service.heard(seen(0, 1, at=T0 + 9)) is Progressed.WRONG_STEP
    assert service.book.titles == ["relaunch began at the wrong step: toy-i002"]
    assert service.noted is StepState.FAILED


async def test_a_stop_that_our_journal_ordered_is_no_death(service: World) -> None:
    plan = Plan(words="w", plan_id="q", action="stop", run="toy", made_at=T0)
    journal, holder = Journal(service.store), Holder(host="h", pid=1)
    stop = journal.begin(KEY, plan, "bob", holder, T0 + 5, exclusive=False).number
    journal.note(stop, {"stops": "host:2"}, None)
    journal.step(stop, 0, StepResult(name="stop", state=StepState.DONE, at=T0 + 6))
    dead = job(Phase.FAILED, exit_code=143, ended_at=T0 + 9, **OWN)
    assert await service.heard(seen(51, at=T0 + 10, job=dead)) is Progressed.STOPPED
    known = FollowupStore(service.store).last(KEY)
    assert known is not None and "stopped by bob" in known.text
    assert service.book.titles == [], "a stop has its own entry"


async def test_what_was_late_may_still_pass(service: World) -> None:
    assert await service.heard(seen(51, at=T0 + 86_400)) is Progressed.NOT_PASSED
    assert await service.heard(seen(51, 95, at=T0 + 90_000, **far(95))) is Progressed.PASSED
    assert service.book.titles == [
        "relaunch has not passed: toy-i002",
        "relaunch confirmed: toy-i002",
    ]


async def test_two_cockpits_write_one_entry(service: World) -> None:
    import asyncio

    service.clock.time = T0 + 300
    found = seen(51, 95, at=T0 + 300, **far(95))
    await asyncio.gather(*(service.cockpit().heard(KEY, found) for _ in range(4)))
    assert service.book.titles == ["relaunch confirmed: toy-i002"]


async def test_what_could_not_be_written_is_tried_again(service: World) -> None:
    service.book.refuses = True
    await service.heard(seen(51, 95, at=T0 + 300, **far(95)))
    last = FollowupStore(service.store).last(KEY)
    assert last is not None and not last.recorded
    service.book.refuses = False
    await service.heard(seen(51, 95, at=T0 + 310, **far(95)))
    assert service.book.titles == []
    await service.heard(seen(51, 95, at=T0 + 400, **far(95)))
    assert service.book.titles == ["relaunch confirmed: toy-i002"]


async def test_a_later_launch_ends_the_following_of_the_former(service: World) -> None:
    service.begin(followup(launch_id="toy-i003", at=T0 + 1000, entry=service.number))
    assert await service.heard(seen(51, 95, at=T0 + 1300, **far(95))) is not Progressed.PASSED


async def test_without_a_launch_there_is_nothing_to_follow(service: World) -> None:
    assert await service.cockpit().heard("/x#other", seen()) is None
