from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from cockpit.model.jobs import LaunchState, LookUp, Submission
from cockpit.model.observed import Phase
from cockpit.model.plan import Level, Outcome
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.records.lease.state import this_holder
from cockpit.records.logbook.writing import with_instance
from cockpit.store.launches import Failures, FollowupStore
from cockpit.store.memory import RunMemory, Snapshots
from cockpit.store.store import pack
from tests.actions.contexts import alert, by_id, hard, soft
from tests.actions.launch_place import Jobs, Place, approve, git, save, states
from tests.rules.making import job


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    for step in (8, 80, 9):
        save(found.root / "checkpoints", step)
    save(found.root / "checkpoints", 91, complete=False)
    return found


async def first(place: Place) -> None:
    """Relaunch once, so that there is a record of what ran; then it fails elsewhere."""
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.DONE, result.message
    for path in place.platform.folder.iterdir():
        path.write_text("ended")
    place.lines = ("step 700/1000 loss=2.0", "Xid 79: GPU has fallen off the bus")


async def test_a_killed_run_goes_on_from_its_newest_complete_checkpoint(place: Place) -> None:
    plan = await place.plan()
    assert plan.words == "relaunch toy"
    assert plan.checkpoint is not None and plan.checkpoint.step == 80
    assert soft(by_id(plan.checks, "C-15"))
    result = await place.act(approvals=(approve("C-15"),))
    assert (result.outcome, result.launch_id) == (Outcome.DONE, "toy-i001"), result.message
    (sent,) = place.platform.submitted
    assert sent.command == ("train", "--config", "c.json", "--root", str(place.root))
    assert place.platform.living == ["toy-i001"]


async def test_everything_is_written_down(place: Place) -> None:
    await first(place)
    (launch,) = RunMemory(place.store).launches(place.key)
    snapshot = Snapshots(place.store).last(place.key)
    followup = FollowupStore(place.store).last(place.key)
    (failure,) = Failures(place.store).of(place.key)
    assert launch.launch_id == "toy-i001"
    assert snapshot is not None and snapshot.config == {"lr": "0.1", "seed": "0"}
    assert snapshot.checkpoint is not None and snapshot.checkpoint.step == 80
    assert followup is not None and (followup.resumes_from, followup.failed_step) == (80, 91)
    assert failure.name == "killed"
    (instance,) = place.book.instances
    assert instance.fields["Config"].startswith("2 settings, sha256 ")
    assert "step 80" in instance.fields["Resumed from"]
    (event,) = place.book.events
    assert event.title == "relaunch toy-i001" and "C-15 approved by ada" in event.decision
    assert "T: cause: killed (likely)" in event.evidence
    assert place.book.commits == ["toy: log relaunch"]
    assert list(place.book.comments) and "toy-i001" in next(iter(place.book.comments.values()))


async def test_the_second_relaunch_compares_with_the_first(place: Place) -> None:
    await first(place)
    plan = await place.plan()
    assert not plan.blocked, [check for check in plan.checks if check.stands_in_the_way]
    assert by_id(plan.checks, "C-18").level is Level.PASS
    assert by_id(plan.checks, "C-15").level is Level.PASS
    assert all(each.same for each in plan.differences if each.what in ("command", "commit"))
    place.config.write_text(json.dumps({"lr": 0.2, "seed": 0}))
    changed = await place.plan()
    assert soft(by_id(changed.checks, "C-18:lr")) and changed.blocked
    result = await place.act(approvals=(approve("C-18:lr"),))
    assert (result.outcome, result.launch_id) == (Outcome.DONE, "toy-i002"), result.message


async def test_going_on_by_another_command_than_the_launch_is_no_drift(tmp_path: Path) -> None:
    """nanoGPT's pair: drift is against what resubmit was when it was launched."""
    place = Place(tmp_path, phase=None)
    place.changes = {
        "launch": "train --root {output_root} --init_from=scratch",
        "resubmit": "train --root {output_root} --init_from=resume",
        "tier": "ordinary",
    }
    begun = await place.act("launch", approvals=(approve("C-15"),))
    assert begun.outcome is Outcome.DONE, begun.message
    for path in place.platform.folder.iterdir():
        path.write_text("ended")
    save(place.root / "checkpoints", 80)
    place.phase = Phase.FAILED
    same = by_id((await place.plan()).checks, "C-18")
    assert same.level is Level.PASS and "and its resubmit command" in same.text
    place.changes["resubmit"] = "train --root {output_root} --init_from=resume --lr=9"
    assert soft(by_id((await place.plan()).checks, "C-18:command --lr"))


async def test_from_the_logbook_of_another_machine_no_launch_id_and_no_checkpoint_drifts(
    place: Place, tmp_path: Path
) -> None:
    """Every launch has its own; what a logbook tells is what was sent, word by word."""
    line = "cd /r && x=`date` t --load {checkpoint}"
    words = ("sh", "-c", line, "--id", "{launch_id}", "--lr", "1")
    place.changes["resubmit"] = words
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.DONE, result.message
    (sent,), (instance,) = place.platform.submitted, place.book.instances
    assert tuple(shlex.split(instance.fields["Command"].strip("`"))) == sent.command
    book = tmp_path / "book.md"
    book.write_bytes(with_instance(b"", instance))
    other = Place(tmp_path / "other")
    save(other.root / "checkpoints", 200)
    other.changes = {"resubmit": words, "records": RecordsSpec(logbook=str(book))}
    plan = await other.plan()
    assert "step-200" in (plan.command or "") and "step-80" in instance.fields["Command"]
    assert [check.id for check in plan.checks if check.id.startswith("C-18:command")] == []
    other.changes["resubmit"] = (*words[:-1], "2", "-E")
    drifts = {
        check.id: check.value for check in (await other.plan()).checks if check.id[:5] == "C-18:"
    }
    assert drifts["C-18:command --lr"] == "1 → 2"
    assert drifts["C-18:command -E"] == "(not set) → (no value)"
    assert len([name for name in drifts if name.startswith("C-18:command")]) == 2


async def test_a_launch_id_that_the_recorded_words_name_is_a_setting(place: Place) -> None:
    place.changes["resubmit"] = ("t", "--init-from", "toy-i007", "--id", "{launch_id}")
    await first(place)
    place.changes["resubmit"] = ("t", "--init-from", "toy-i009", "--id", "{launch_id}")
    drift = by_id((await place.plan()).checks, "C-18:command --init-from")
    assert soft(drift) and drift.value == "toy-i007 → toy-i009"


async def test_the_same_failure_twice_is_escalated(place: Place) -> None:
    await first(place)
    place.lines = ("step 90/1000 loss=2.3", "step 91/1000 loss=2.4")
    assert soft(by_id((await place.plan()).checks, "C-14"))


async def test_changed_code_that_touches_training_is_only_the_dri_s_to_approve(
    place: Place,
) -> None:
    await first(place)
    (place.code / "model.py").write_text("2")
    plan = await place.plan()
    assert soft(by_id(plan.checks, "C-15")) and "model.py" in by_id(plan.checks, "C-15").text
    refused = await place.act(approvals=(approve("C-15", by="bob"),))
    assert refused.outcome is Outcome.REFUSED and "only ada may approve" in refused.message
    assert len(place.platform.submitted) == 1
    allowed = await place.act(approvals=(approve("C-15", by="ada"),))
    assert allowed.outcome is Outcome.DONE, allowed.message


async def test_a_commit_of_documents_changes_nothing(place: Place) -> None:
    await first(place)
    (place.code / "README.md").write_text("x")
    git(place.code, "add", ".")
    git(place.code, "commit", "-qm", "words")
    assert not (await place.plan()).blocked


async def test_a_run_that_lives_under_another_id_is_never_doubled(place: Place) -> None:
    (place.platform.folder / "stranger").write_text("live")
    place.job = job(Phase.FAILED, id="old:1", exit_code=1, started_at=1.0, ended_at=2.0)
    plan = await place.plan()
    assert hard(by_id(plan.checks, "C-25")) and "stranger" in by_id(plan.checks, "C-25").text


@pytest.mark.parametrize("fails_from", [1, 2, 3])
async def test_nothing_is_stopped_where_a_start_would_fail(place: Place, fails_from: int) -> None:
    """In the plan, under the lease, and once more right before the stop: locks change meanwhile."""
    place.alerts = (alert("C-06", "no step for 20m"),)
    (place.platform.folder / "host-1").write_text("live")
    tried = []

    async def try_start(run: RunSpec, submission: Submission) -> None:
        tried.append(submission.launch_id)
        if len(tried) >= fails_from:
            raise CannotError("cannot lock job.lock: it is a link")

    place.platform.try_start = try_start  # type: ignore[method-assign]
    result = await place.act(approvals=(approve("C-15"), approve("T")))
    assert result.outcome is (Outcome.FAILED if fails_from == 3 else Outcome.REFUSED)
    assert (place.platform.folder / "host-1").read_text() == "live", "it trains on"
    if fails_from == 3:
        note = {step.name: step.note for step in result.steps}["stop"]
        assert note is not None and "nothing was stopped: a start would fail" in note


async def test_a_stalled_job_is_stopped_and_its_neighbour_is_not(place: Place) -> None:
    (place.platform.folder / "host-1").write_text("live")
    place.alerts = (alert("C-06", "no step for 20m"),)
    plan = await place.plan()
    assert plan.stops == ("host-1",)
    assert by_id(plan.checks, "job-state").level is Level.WARN
    result = await place.act(approvals=(approve("C-15"), approve("T")))
    assert result.outcome is Outcome.DONE, result.message
    assert place.platform.living == ["toy-i001"]
    assert (place.platform.folder / "host-1").read_text() == "ended"
    (failure,) = Failures(place.store).of(place.key)
    assert failure.name == "stalled"


async def test_a_checkpoint_that_vanishes_after_the_plan_stops_it(place: Place) -> None:
    def vanish(point: str) -> None:
        if point == "checkpoint:begun":
            (place.root / "checkpoints" / "step-80" / "metadata.json").unlink()

    place.at = vanish
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.FAILED and place.platform.submitted == []
    assert "step 9" in result.message
    (event,) = place.book.events
    assert event.title == "relaunch did not happen"


async def test_a_newer_checkpoint_that_the_stop_has_made_is_taken(place: Place) -> None:
    place.changes["resubmit"] = "train --load {checkpoint} --step {step} --root {output_root}"

    def arrive(point: str) -> None:
        if point == "checkpoint:begun":
            save(place.root / "checkpoints", 90)

    place.at = arrive
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.DONE, result.message
    (sent,) = place.platform.submitted
    assert sent.command[1:5] == ("--load", str(place.root / "checkpoints/step-90"), "--step", "90")


async def test_a_config_that_changes_after_the_plan_stops_it(place: Place) -> None:
    def change(point: str) -> None:
        if point == "stop:begun":
            place.config.write_text(json.dumps({"lr": 9}))

    place.at = change
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.FAILED and "config file" in result.message
    assert place.platform.submitted == []


async def test_a_job_that_dies_at_once_is_recorded_and_said(place: Place) -> None:
    place.platform.dies = True
    place.lines = (*place.lines, "usage: train [-h]")
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.FAILED
    assert "exit status 2" in result.message and "usage: train" in result.message
    assert states(result.steps)["record-launch"] == "done"
    (event,) = place.book.events
    assert "ended at once" in event.status


async def test_one_that_waits_in_a_queue_is_a_success(place: Place) -> None:
    place.platform.queue = "Priority"
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.DONE, result.message
    notes = {step.name: step.note for step in result.steps}
    assert notes["verify"] == "accepted, waiting: Priority"
    assert "accepted, waiting: Priority" in (notes["confirm"] or "")
    assert place.book.events[-1].next.startswith("check 120 s after it has begun")
    assert "toy-i001 is accepted and waiting as toy-i001" in place.book.events[-1].status
    assert place.platform.looked == 1, "a shared controller is not asked again and again"


async def test_the_platform_says_how_often_it_is_looked_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(place.platform), "look_every", 20.0)
    place.platform.blind_to_live = True
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.UNKNOWN and place.platform.looked == 3


async def test_a_cockpit_that_was_stopped_while_it_looked_looks_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = type(place.platform).look_up

    async def stopped(self: Jobs, run: RunSpec, launch_id: str, *_: object, **__: object) -> LookUp:
        found = await look_up(self, run, launch_id)
        place.clock.ahead += 600  # SIGSTOP, then SIGCONT
        return found

    monkeypatch.setattr(type(place.platform), "look_up", stopped)
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.DONE, result.message


async def test_what_is_being_started_as_the_answer_is_lost_is_looked_up_until_it_is_known(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up, early = type(place.platform).look_up, [True, True]

    async def starting(
        self: Jobs, run: RunSpec, launch_id: str, *_: object, **__: object
    ) -> LookUp:
        if early:
            early.pop()
            return LookUp(found=LaunchState.UNKNOWN, text="a supervisor is still starting it")
        return await look_up(self, run, launch_id)

    def lose() -> None:
        raise LostError("no answer within 30 s")

    monkeypatch.setattr(type(place.platform), "look_up", starting)
    place.platform.answer = lose
    found = await place.act(approvals=(approve("C-15"),))
    assert (found.outcome, found.job_id) == (Outcome.DONE, "toy-i001"), found.message


async def test_a_lost_answer_is_looked_up_once(place: Place) -> None:
    def lose() -> None:
        raise LostError("no answer within 30 s")

    place.platform.answer = lose
    found = await place.act(approvals=(approve("C-15"),))
    assert (found.outcome, found.job_id) == (Outcome.DONE, "toy-i001"), found.message


async def test_a_lost_request_is_known_to_be_none(place: Place) -> None:
    def lose() -> None:
        raise LostError("no answer within 30 s")

    place.platform.before = lose
    absent = await place.act(approvals=(approve("C-15"),))
    assert absent.outcome is Outcome.FAILED and "nothing was started" in absent.message
    place.platform.blind = True
    unknown = await place.act(approvals=(approve("C-15"),))
    assert unknown.outcome is Outcome.UNKNOWN
    assert place.platform.living == []


async def test_a_refused_submit_is_a_failure(place: Place) -> None:
    def refuse() -> None:
        raise CannotError("the queue is closed")

    place.platform.before = refuse
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.FAILED and "the queue is closed" in result.message


async def test_the_state_file_counts_the_restart(place: Place) -> None:
    path = place.folder / "s" / "20260311-0855_monitoring_state.json"
    path.write_text(json.dumps({"ts": 1, "run": "toy", "job_id": "old:1", "restart_count": 1}))
    result = await place.act(approvals=(approve("C-15"),))
    assert result.outcome is Outcome.DONE, result.message
    told = json.loads(path.read_text())
    assert (told["job_id"], told["restart_count"]) == ("toy-i001", 2)
    assert told["retired_job_id"] == "old:1"


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"dri": None}, "dri"),
        ({"resubmit": None}, "resubmit"),
        ({"resubmit": "train {nonsense}"}, "resubmit"),
        ({"output_root": None}, "C-16"),
        ({"resubmit": "train --output-dir /elsewhere"}, "C-16"),
        ({"checkpoints": None}, "C-17"),
    ],
)
async def test_what_nobody_can_approve(
    place: Place, changes: dict[str, object], check: str
) -> None:
    place.changes.update(changes)
    plan = await place.plan()
    assert hard(by_id(plan.checks, check))
    refused = await place.act(approvals=(approve(check), approve("C-15")))
    assert refused.outcome is Outcome.REFUSED and place.platform.submitted == []


async def test_a_hostile_log_and_name_stay_one_safe_line(place: Place) -> None:
    place.lines = ("step 9 loss 1", "\x1b]0;x\x07RuntimeError: WANDB_API_KEY=" + "a1b2" * 10)
    plan = await place.plan()
    text = json.dumps(plan.document())
    assert "a1b2a1b2" not in text and "\\u001b" not in text


async def test_a_plan_is_the_same_while_nothing_changes(place: Place) -> None:
    one, two = await place.plan(), await place.plan()
    assert one.plan_id == two.plan_id


def crash_after(place: Place, step: str) -> None:
    """Make the journal look as if the cockpit had been killed right after ``step``."""
    dead = pack(this_holder().model_copy(update={"pid": 2**22 + 7}))
    with place.store.writing() as connection:
        (at,) = connection.execute(
            "SELECT place FROM action_steps WHERE name = ?", (step,)
        ).fetchone()
        connection.execute("DELETE FROM action_steps WHERE place > ?", (at,))
        connection.execute(
            "UPDATE actions SET outcome = NULL, ended_at = NULL, holder = ?", (dead,)
        )
        for table in ("launches", "snapshots", "followups", "failures"):
            connection.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("step", ["submit", "verify", "record-launch", "log"])
async def test_after_a_crash_everything_is_written_down_once(place: Place, step: str) -> None:
    await first(place)
    crash_after(place, step)
    (settled,) = await place.service.recover("toy")
    assert settled.outcome is Outcome.DONE
    if step in ("submit", "verify"):
        assert RunMemory(place.store).launches(place.key)
        assert Snapshots(place.store).last(place.key) is not None
    assert len(place.book.events) == len(place.book.instances) == len(place.book.comments) == 1
    assert len(place.platform.submitted) == 1
    assert await place.service.recover("toy") == ()
