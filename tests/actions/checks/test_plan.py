from __future__ import annotations

from typing import Any, cast

import pytest

from cockpit.actions.checks import checkpoint, jobs, lineages, setup
from cockpit.actions.checks.lineages import source_of
from cockpit.actions.core.action import Execution, StepError
from cockpit.actions.launching.relaunch import nothing_lives
from cockpit.model.facet import ErrorKind
from cockpit.model.history import FormerFailure
from cockpit.model.jobs import Live, Stopped
from cockpit.model.observed import Phase, Pick, TrackerValue
from cockpit.model.plan import Approval, Basis, Check, Draft, Level, Outcome, Plan, StepState
from cockpit.model.run import CheckpointSpec, JobSpec, RecordsSpec, WandbSpec
from cockpit.records.logbook.reading import read_logbook
from cockpit.store.memory import Snapshot
from tests.actions.contexts import (
    NOW,
    alert,
    by_id,
    context,
    done,
    entry,
    hard,
    item,
    levels,
    listing,
    living,
    soft,
)
from tests.platforms.stand_in import StandIn
from tests.rules.making import T0, blind, job, log, monitor, run_spec, tracker

KILLED = log("step 10 loss 2.3", "step 11 loss 2.3", mtime=T0)
BUG = log(
    "Traceback (most recent call last):",
    '  File "/home/ada/toy/train.py", line 41, in <module>',
    "    main()",
    '  File "/home/ada/toy/schedule.py", line 12, in warm',
    '    return table["warm_up"]',
    "KeyError: 'warm_up'",
)


def dead(code: int = 137) -> object:
    return job(Phase.FAILED, exit_code=code, ended_at=T0 + 500)


def test_a_dead_job_may_be_relaunched_and_a_healthy_one_not() -> None:
    assert levels(jobs.relaunch_state(context())) == {"job-state": "pass"}
    (check,) = jobs.relaunch_state(context(job=job()))
    assert hard(check) and "stop it first" in check.text
    (check,) = jobs.relaunch_state(context(job=job(Phase.WAITING)))
    assert hard(check) and "waiting" in check.text


def test_an_unknown_state_is_a_hard_block() -> None:
    for facet in (blind(), job(Phase.UNKNOWN)):
        (check,) = jobs.relaunch_state(context(job=facet))
        assert hard(check)


def test_a_stalled_job_is_stopped_first() -> None:
    stalled = context(job=job(), alerts=(alert("C-06"),), live=Live(jobs=(living(),)))
    assert levels(jobs.relaunch_state(stalled)) == {"job-state": "warn"}
    assert jobs.own_jobs(stalled) == (living(),)
    assert levels(jobs.lineage_jobs(stalled)) == {"C-25": "pass"}


def test_success_is_sealed_unless_it_is_short() -> None:
    (check,) = jobs.relaunch_state(context(job=job(Phase.SUCCEEDED)))
    assert hard(check) and "seal" in check.text
    short = context(job=job(Phase.SUCCEEDED), alerts=(alert("C-19", "short of the final step"),))
    assert levels(jobs.relaunch_state(short)) == {"job-state": "warn"}


def test_another_job_of_the_lineage_is_never_overridden() -> None:
    (check,) = jobs.lineage_jobs(context(live=Live(jobs=(living("host:9"),))))
    assert hard(check) and "job host:9" in check.text
    (check,) = jobs.lineage_jobs(context(live=Live(unknown="the process table is closed")))
    assert hard(check) and "process table" in check.text
    went_on = tracker(last_step_at=T0 + 900)
    (check,) = jobs.lineage_jobs(context(tracker=went_on))
    assert hard(check) and "after the job's end" in check.text


def test_saves_younger_than_the_jobs_end_are_somebody_elses() -> None:
    """While they go on nobody may approve it; once it has been quiet a person may."""
    ours = item(500, saved_at=T0 + 510)  # 10 s after the end: the clock of the file system
    checks = jobs.lineage_jobs(context(checkpoints=listing(ours)))
    assert levels(checks) == {"C-25": "pass"}
    (check,) = jobs.lineage_jobs(context(checkpoints=listing(ours, item(600, saved_at=T0 + 900))))
    assert hard(check) and "step 600 was saved" in check.text
    torn = item(600, "incomplete", saved_at=None, touched_at=T0 + 990)
    (check,) = jobs.lineage_jobs(context(checkpoints=listing(ours, torn)))
    assert hard(check)
    ended = job(Phase.FAILED, exit_code=1, ended_at=T0 - 9000)
    quiet = listing(item(500, saved_at=T0 - 9000), item(600, saved_at=T0))
    (check,) = jobs.lineage_jobs(context(job=ended, checkpoints=quiet))
    assert soft(check) and check.id == "written-after-end" and "nothing since" in check.text
    rarely = run_spec(checkpoints=CheckpointSpec(save_every=3600.0))
    (check,) = jobs.lineage_jobs(context(rarely, job=ended, checkpoints=quiet))
    assert hard(check)


def test_a_lost_node_whose_log_goes_on_is_said_and_blocks() -> None:
    lost = job(Phase.FAILED, state="NODE_FAIL", ended_at=T0 + 500)
    (check,) = jobs.lineage_jobs(context(job=lost, log=log("step 7", mtime=T0 + 950)))
    assert hard(check) and "its log was written" in check.text
    other = job(Phase.FAILED, state="FAILED", ended_at=T0 + 500)
    checks = jobs.lineage_jobs(context(job=other, log=log("epilog", mtime=T0 + 950)))
    assert levels(checks) == {"C-25": "pass"}


def test_a_job_that_runs_the_same_script_blocks_until_a_person_decides() -> None:
    alike = living("77", why="runs the same script as the run's job", alike=True)
    maybe = living("78", why="the output root in its arguments (dir)")
    checks = jobs.lineage_jobs(context(live=Live(possible=(alike, maybe))))
    assert soft(by_id(checks, "similar-job")) and "job 77" in by_id(checks, "similar-job").text
    assert levels(checks) == {"similar-job": "block", "C-25": "warn"}
    other = run_spec(name="other", job=JobSpec(kind="slurm", id="77"))
    checks = jobs.lineage_jobs(context(live=Live(possible=(alike,)), runs=(other,)))
    assert levels(checks) == {"C-25": "pass"}


async def test_one_that_begins_after_the_plan_stops_the_start() -> None:
    alike = living("77", why="runs the same script as the run's job", alike=True)
    platform = StandIn()
    platform.lives = Live(possible=(alike,))
    made = context(platform=platform)
    check = by_id(jobs.lineage_jobs(context(live=Live(possible=(alike,)))), "similar-job")
    for checks, stops in (((), True), ((check,), False)):
        plan: Any = Draft(words="", checks=checks)
        execution = Execution(made, plan, cast(Any, None), cast(Any, None))
        if stops:
            with pytest.raises(StepError, match="77"):
                await nothing_lives(execution, made.spec)
        else:
            await nothing_lives(execution, made.spec)


def test_what_nothing_proves_to_be_a_job_is_shown_and_stops_no_plan() -> None:
    maybe = living("host:9").model_copy(update={"why": "the output root in its arguments (dir)"})
    (check,) = jobs.lineage_jobs(context(live=Live(possible=(maybe,))))
    assert levels([check]) == {"C-25": "warn"} and "host:9" in check.text
    assert "not proven" in check.text
    named = maybe.model_copy(update={"alike": True})
    (check,) = jobs.lineage_jobs(context(live=Live(possible=(named,))))
    assert soft(check) and check.id == "similar-job" and "host:9" in check.text
    both = Live(jobs=(living("host:8"),), possible=(maybe,))
    assert hard(jobs.lineage_jobs(context(live=both))[0])


def test_a_job_whose_process_is_stopped_is_let_go_on_and_not_relaunched() -> None:
    halted = job(state="stopped", stopped=Stopped(pid=77, since=T0))
    (check,) = jobs.relaunch_state(context(job=halted, alerts=(alert("C-06"),)))
    assert levels([check]) == {"job-state": "block"} and "kill -CONT 77 resumes it" in check.text
    there = run_spec(job=JobSpec(kind="box", host="gpu-box"))
    (check,) = jobs.relaunch_state(context(there, job=halted))
    assert "(kill -CONT 77 on gpu-box resumes it)" in check.text
    held = job(state="stopped", stopped=Stopped(pid=77, since=T0, held=True))
    (check,) = jobs.relaunch_state(context(job=held))
    assert "kill" not in check.text and "debugger detaches" in check.text


def test_a_launch_wants_a_run_without_a_job() -> None:
    none = blind(kind=ErrorKind.NOT_FOUND)
    assert levels(jobs.launch_state(context(job=none))) == {"job-state": "pass"}
    assert hard(jobs.launch_state(context(job=blind()))[0])
    assert hard(jobs.launch_state(context(job=job()))[0])
    assert levels(jobs.launch_state(context())) == {"job-state": "warn"}


def test_a_version_that_cannot_act_on_the_kind_says_so() -> None:
    run = run_spec(job=JobSpec(kind="slurm"))
    (check,) = jobs.platform_acts(context(run, platform=None))
    assert hard(check) and "slurm" in check.text


def test_triage_decides_what_is_recoverable() -> None:
    killed = by_id(lineages.recoverable(context(job=dead(), log=KILLED)), "T")
    assert killed.level is Level.PASS
    unread = by_id(lineages.recoverable(context(job=dead())), "T")
    assert soft(unread) and "was not read since" in unread.text
    oom = log("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17 GiB", "CUDA OOM")
    assert soft(by_id(lineages.recoverable(context(job=dead(1), log=oom)), "T"))
    assert lineages.recoverable(context(job=job(), log=KILLED)) == []


def test_a_stop_of_our_own_may_be_relaunched_by_a_person_and_anothers_not() -> None:
    by_hand = job(Phase.FAILED, exit_code=143, started_at=T0, ended_at=T0 + 500)
    ordered = entry("stop", T0 + 490, done("stop"), operator="bob", facts={"stops": "host:1"})
    check = by_id(lineages.recoverable(context(job=by_hand, entries=(ordered,))), "T")
    assert check.level is Level.PASS and "stopped by bob" in check.text
    assert check.basis is Basis.RECORDED
    skipped = ordered.model_copy(update={"steps": (done("stop", state=StepState.SKIPPED),)})
    stopped = log("step 3 loss 1", "Received SIGTERM: leaving")
    other = by_id(lineages.recoverable(context(job=by_hand, entries=(skipped,), log=stopped)), "T")
    assert soft(other) and "nobody is recorded" in other.text


def test_a_stop_of_a_former_job_with_the_same_process_id_does_not_count() -> None:
    again = job(Phase.FAILED, exit_code=143, started_at=T0 + 400, ended_at=T0 + 500)
    old = entry("stop", T0 + 100, done("stop"), facts={"stops": "host:1"})
    assert lineages.own_stop(context(job=again, entries=(old,)), again) is None


def test_a_nan_is_never_infrastructure() -> None:
    (check,) = lineages.no_numbers_lost(context(alerts=(alert("C-09"),)))
    assert soft(check) and "roll back to before it" in check.text
    for at, said in ((T0 - 5, "roll back to before it"), (T0 + 5, "rolled back since; approve if")):
        went_back = context(alerts=(alert("C-09"),), entries=[entry("rollback", at)])
        (check,) = lineages.no_numbers_lost(went_back)
        assert soft(check) and said in check.text


def test_nothing_changed_after_a_failure_that_needs_a_fix_is_a_warning() -> None:
    prior = Snapshot(launch_id="i", at=T0, action="relaunch", command=("x",), sha="a" * 40)
    code = {"sha": "a" * 40, "record_sha": None}
    from cockpit.model.observed import CodeValue

    stands = context(job=dead(1), log=BUG, code=CodeValue(**code))
    assert levels(lineages.fixed(stands, prior, True)) == {"fix": "warn"}
    assert levels(lineages.fixed(stands, prior, False)) == {"fix": "pass"}
    moved = prior.model_copy(update={"sha": "b" * 40})
    assert levels(lineages.fixed(stands, moved, True)) == {"fix": "pass"}
    assert lineages.fixed(context(job=dead(), log=KILLED), prior, True) == []


def test_the_recipe_for_a_bad_node_is_shown_and_never_run() -> None:
    line = log("RuntimeError: No accelerator found on worker 3", mtime=T0)
    spec = run_spec(job=JobSpec(kind="local", bad_node_recipe="drain worker 3; rm -rf /"))
    checks = lineages.recoverable(context(spec, job=dead(1), log=line))
    assert "drain worker 3" in by_id(checks, "recipe").text
    assert soft(by_id(checks, "T"))


def failure(**more: Any) -> FormerFailure:
    return FormerFailure(**{"at": T0, "job_id": "toy-i001", "name": "killed", **more})


def test_the_same_failure_again_needs_a_name() -> None:
    stands = context(job=dead(1), log=BUG)
    now = lineages.present_failure(stands)
    assert now is not None and now.signature is not None
    same = failure(name=now.name, signature=now.signature)
    assert soft(by_id(lineages.not_again(stands, [same]), "C-14"))
    assert levels(lineages.not_again(stands, [failure()])) == {"C-14": "pass"}
    itself = same.model_copy(update={"job_id": now.job_id})
    assert levels(lineages.not_again(stands, [itself])) == {"C-14": "pass"}


def test_what_starts_by_itself_after_the_job_blocks_a_relaunch() -> None:
    assert jobs.next_by_itself(context()) == []
    chained = living("slurm:8", why="afternotok:7", handle={"job": "8"})
    loop = living("pid:3", beyond="end it yourself (kill 3)")
    ended = job(Phase.FAILED, exit_code=1, queued=(chained, loop))
    found = jobs.next_by_itself(context(job=ended))
    assert all(map(hard, found))
    said = "(afternotok:7) starts by itself after it: cancel it first (cockpit stop toy --succ"
    assert said in found[0].text and found[1].text.endswith("end it yourself (kill 3)")
    waits = chained.model_copy(update={"needs_success": True})
    (check,) = jobs.next_by_itself(context(job=job(Phase.RUNNING, queued=(waits,))))
    assert hard(check) and "starts by itself if it ends well: cancel it first" in check.text
    named = chained.model_copy(update={"id": "9", "name": "toy"})
    (check,) = jobs.next_by_itself(context(job=job(Phase.FAILED, queued=(named,))))
    assert check.text.startswith("toy (9) (afternotok:7)"), "many jobs of Slurm have one name"


def test_restarts_of_the_platform_are_flapping_within_the_window() -> None:
    again = job(Phase.FAILED, exit_code=1, launch_id="toy-i001", restarts=3)
    ours = entry("relaunch", NOW - 60, launch_id="toy-i001")
    assert soft(by_id(lineages.not_again(context(job=again, entries=[ours]), ()), "C-14"))
    old = entry("relaunch", NOW - 7 * 3600, launch_id="toy-i001")
    found = levels(lineages.not_again(context(job=again, entries=[old]), ()))
    assert found == {"C-14": "pass", "restarts": "warn"}
    twice = job(Phase.FAILED, exit_code=1, launch_id="toy-i001", restarts=2)
    found = levels(lineages.not_again(context(job=twice, entries=[ours]), ()))
    assert found == {"C-14": "pass"}


def test_flapping_needs_a_name_too() -> None:
    three = [entry("relaunch", NOW - 60 * n, number=n) for n in (1, 2, 3)]
    assert soft(by_id(lineages.not_again(context(entries=three), ()), "C-14"))
    refused = [each.model_copy(update={"outcome": Outcome.REFUSED}) for each in three]
    assert levels(lineages.not_again(context(entries=refused), ()))["C-14"] == "pass"


@pytest.mark.parametrize(("name", "level"), [("20270115-0800", "block"), ("20260101-0000", "warn")])
def test_a_monitor_that_counts_restarts_is_believed_within_the_window(
    name: str, level: str
) -> None:
    value = monitor(T0, restart_count=4, path=f"/s/{name}_monitoring_state.json")
    found = levels(lineages.not_again(context(monitor=value), ()))
    assert found["C-14" if level == "block" else "restarts"] == level


def test_the_dri_must_know_where_somebody_else_operates() -> None:
    assert setup.dri_knows(context(operator="Ada ")) == []
    (check,) = setup.dri_knows(context(operator="bob"))
    assert hard(check) and 'cockpit escalate toy --confirm "escalate toy"' in check.text
    told = entry("escalate", NOW - 100, done("notify"), operator="bob")
    assert levels(setup.dri_knows(context(operator="bob", entries=(told,)))) == {
        "dri-notified": "pass"
    }
    by_issue = entry("escalate", NOW - 100, done("notify", state=StepState.SKIPPED))
    assert not hard(setup.dri_knows(context(operator="bob", entries=(by_issue,)))[0])
    old = entry("escalate", NOW - 90_000, done("notify"))
    assert hard(setup.dri_knows(context(operator="bob", entries=(old,)))[0])
    failed = entry("escalate", NOW - 100, done("notify", state=StepState.FAILED),
                   outcome=Outcome.FAILED)  # fmt: skip
    assert hard(setup.dri_knows(context(operator="bob", entries=(failed,)))[0])


def test_no_dri_is_a_hard_block() -> None:
    assert hard(setup.has_dri(context(run_spec(dri=None)))[0])


def test_only_the_dri_approves_what_only_the_dri_may() -> None:
    check = Check(id="C-15", level=Level.BLOCK, text="x", basis=Basis.OBSERVED, overridable=True)
    plan = Plan(words="w", plan_id="p", action="relaunch", run="toy", made_at=T0,
                checks=setup.for_dri([check], ["C-15"], "ada"))  # fmt: skip
    assert plan.approved((Approval(check="C-15", by="bob", reason="fine"),)).blocked
    assert not plan.approved((Approval(check="C-15", by="ADA", reason="fine"),)).blocked


def picks(value: object, *, named: bool = False, **more: Any) -> dict[str, str]:
    return levels(checkpoint.resume_from(context(checkpoints=value, **more), named=named))


def test_the_newest_complete_one_that_the_trainer_takes_too() -> None:
    assert picks(listing(item(100), item(900), pick=900, trainer=900)) == {"C-17": "pass"}


def test_what_the_trainer_would_load_instead_is_never_overridden() -> None:
    value = listing(item(100), item(900, "rejected"), pick=100, trainer=900)
    (check,) = checkpoint.resume_from(context(checkpoints=value), named=False)
    assert hard(check) and "step 900 (rejected" in check.text and "{checkpoint}" in check.text
    assert picks(value, named=True) == {"C-17": "pass"}


def test_a_trainer_that_would_find_nothing_is_blocked_where_its_rule_is_known() -> None:
    value = listing(item(100), pick=100)
    assert picks(value) == {"C-17": "block"}
    run = run_spec(checkpoints=CheckpointSpec(path=("/c",), layout="nanogpt"))
    (check,) = checkpoint.resume_from(context(run, checkpoints=value), named=False)
    assert (check.level, check.basis) == (Level.WARN, Basis.INFERRED)


def test_what_was_not_read_in_time_is_not_said_to_be_nothing() -> None:
    value = listing(item(100), pick=100).model_copy(update={"unjudged": 2})
    (check,) = checkpoint.resume_from(context(checkpoints=value), named=False)
    assert hard(check) and "start at 0" not in check.text
    assert "not known yet: 2 checkpoints not read in time" in check.text


@pytest.mark.parametrize("kind", [ErrorKind.NOT_FOUND, ErrorKind.TIMEOUT])
def test_a_root_that_is_not_there_blocks_and_says_what_a_run_that_never_saved_is_for(
    kind: ErrorKind,
) -> None:
    """A first launch that died before its first save: a relaunch has nothing, a launch may."""
    (check,) = checkpoint.resume_from(context(checkpoints=blind(kind=kind)), named=False)
    assert hard(check) and check.text.startswith("checkpoints unknown: ")
    assert ("cockpit launch" in check.text) is (kind is ErrorKind.NOT_FOUND)


def test_a_suspect_one_is_only_let_pass_by_name() -> None:
    why = "loss nan from step 130"
    bad = item(900).model_copy(update={"suspect": why})
    value = listing(item(100), bad, pick=100, trainer=900)
    (check,) = checkpoint.resume_from(context(checkpoints=value), named=False)
    assert check.id == "suspect" and soft(check) and check.value == bad.path
    assert why in check.text and "cockpit rollback toy --to 100 --move yes" in check.text
    assert picks(value, named=True) == {"C-17": "pass"}
    value = listing(bad, trainer=900)
    (check,) = checkpoint.resume_from(context(checkpoints=value), named=False)
    assert soft(check) and "every complete checkpoint is suspect" in check.text
    found = picks(value, named=True)
    assert found == {"suspect": "block", "C-17": "pass"}


def test_a_trainer_whose_rule_is_not_known_may_take_a_suspect_one() -> None:
    bad = item(900, layout="lightning").model_copy(update={"suspect": "loss was nan"})
    value = listing(item(100, layout="lightning"), bad, pick=100)
    run = run_spec(resubmit="python train.py --resume")
    found = {check.id: check for check in
             checkpoint.resume_from(context(run, checkpoints=value), named=False)}  # fmt: skip
    assert soft(found["suspect"]) and "may load step 900" in found["suspect"].text
    assert found["C-17"].level is Level.PASS and "--resume" in found["C-17"].text
    assert picks(value, named=True) == {"C-17": "pass"}


def test_a_new_lineage_from_a_suspect_one_is_let_pass_by_name() -> None:
    bad = item(900).model_copy(update={"suspect": "loss was nan"})
    pick, check = source_of(context(checkpoints=listing(item(100), bad, pick=100)), "900")
    assert pick is not None and soft(check) and check.id == "suspect"
    pick, check = source_of(context(checkpoints=listing(item(100), bad, pick=100)), "step-100")
    assert pick is not None and check.level is Level.PASS


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python train.py --init_from=resume", "--init_from=resume"),
        ("python train.py --init_from resume", "--init_from resume"),
        ("python train.py --resume", "--resume"),
        ("python train.py --resume_from_checkpoint=latest", "--resume_from_checkpoint=latest"),
        ("python train.py trainer.resume=true", "trainer.resume=true"),
        ("python train.py --auto-resume", "--auto-resume"),
        ("python train.py --ckpt_path=last", "--ckpt_path=last"),
        ("python train.py --out o --ckpt_path last", "--ckpt_path last"),
        ("python train.py --resume_from_checkpoint auto", "--resume_from_checkpoint"),
        ("torchrun train.py --load out/ckpt.pt", "--load out/ckpt.pt"),
        ("python train.py --init_from=scratch", None),
        ("python train.py --resume=false", None),
        ("python train.py --resume no", None),
        ("python train.py --wandb-resume=allow", None),
        ("python train.py --init_from scratch --out_dir=resume_me", None),
        ("python presume.py", None),
        ("python train.py --no-resume", None),
        ("python train.py --disable_resume=true", None),
        ("python train.py --name my-resume", None),
        ("python train.py --load_best_model_at_end True", None),
        ("env RESUME=1 python train.py", "RESUME=1"),
        ("python train.py resume", "resume"),
    ],
)
def test_the_trainer_s_own_resume_flag_takes_a_file_without_a_step(
    command: str, said: str | None
) -> None:
    file = item(0).model_copy(
        update={"step": None, "name_step": None, "path": "/c/ckpt.pt", "layout": "nanogpt"}
    )
    value = listing(file).model_copy(
        update={"relaunch_from": Pick(path="/c/ckpt.pt", step=None, why="newest by its time")}
    )
    run = run_spec(resubmit=command)
    (check,) = checkpoint.resume_from(context(run, checkpoints=value), named=False)
    if said is None:
        assert soft(check) and check.id == "resume" and "overwrites /c/ckpt.pt" in check.text
    else:
        assert check.level is Level.PASS and f"({said})" in check.text
        assert "ckpt.pt (step unknown) (newest by its time)" in check.text


def test_no_complete_checkpoint_is_a_hard_block_that_names_the_way_out() -> None:
    (check,) = checkpoint.resume_from(context(checkpoints=listing(item(5, "incomplete"))),
                                      named=True)  # fmt: skip
    assert hard(check) and "cockpit launch toy" in check.text and "5 incomplete" in check.text
    for unknown in (blind(), blind(kind=ErrorKind.NOT_CONFIGURED)):
        assert hard(checkpoint.resume_from(context(checkpoints=unknown), named=True)[0])


def test_what_is_newer_and_unclear_blocks() -> None:
    value = listing(item(100), item(200, "unknown"), pick=100, trainer=100)
    assert picks(value)["C-17:newer"] == "block"
    value = listing(item(100), item(200, "writing"), pick=100, trainer=100)
    assert picks(value)["C-17:newer"] == "warn"


def test_what_has_no_step_is_newer_only_if_it_was_written_later() -> None:
    def beside(later: float) -> dict[str, str]:
        ours = item(100).model_copy(update={"touched_at": T0})
        other = item(0, "unknown").model_copy(
            update={"step": None, "name_step": None, "path": "/c/release", "touched_at": T0 + later}
        )
        return picks(listing(ours, other, pick=100, trainer=100))

    assert "C-17:newer" not in beside(0.5) and beside(60.0)["C-17:newer"] == "block"


def test_a_newer_one_that_is_not_whole_blocks_where_something_leads_to_it() -> None:
    torn = item(200, "incomplete").model_copy(update={"protected": ("latest leads to it",)})
    value = listing(item(100), torn, pick=100, trainer=100)
    (said,) = (c for c in checkpoint.resume_from(context(checkpoints=value), named=False)
               if c.id == "C-17:newer")  # fmt: skip
    assert soft(said) and "step 200 is incomplete, and latest leads to it" in said.text
    assert "C-17:newer" not in picks(value, named=True)
    assert "C-17:newer" not in picks(
        listing(item(100), item(200, "incomplete"), pick=100, trainer=100)
    )


def test_a_checkpoint_outside_the_roots_or_beyond_the_run_is_suspicious() -> None:
    elsewhere = listing(item(100, root="/other"), pick=100, trainer=100)
    assert picks(elsewhere)["C-17:root"] == "block"
    far = listing(item(80_000), pick=80_000, trainer=80_000)
    assert picks(far, tracker=tracker(step=400))["C-17:step"] == "warn"
    assert "C-17:step" not in picks(far, tracker=tracker(step=79_990))
    doubtful = far.model_copy(update={"unreached": "the last step that this run has logged is 400"})
    assert picks(doubtful, tracker=tracker(step=400))["C-17:step"] == "block"


def test_from_scratch_is_free_only_for_a_run_that_never_was() -> None:
    fresh = context(
        job=blind(kind=ErrorKind.NOT_FOUND), checkpoints=blind(kind=ErrorKind.NOT_FOUND)
    )
    assert levels(checkpoint.from_scratch(fresh)) == {"checkpoint": "pass"}
    failed = context(checkpoints=listing(item(5, "incomplete")))
    assert soft(checkpoint.from_scratch(failed)[0])
    saved = context(checkpoints=listing(item(5)))
    assert hard(checkpoint.from_scratch(saved)[0])
    assert hard(checkpoint.from_scratch(context(checkpoints=blind()))[0])
    partly = listing().model_copy(update={"unlisted": ("gs://bucket/x",)})
    facet = blind().model_copy(update={"value": partly})
    assert hard(checkpoint.from_scratch(context(checkpoints=facet))[0])


@pytest.mark.parametrize(
    ("policy", "value", "level"),
    [
        ("allow", None, "pass"),
        ("never", TrackerValue(id="w", state="x"), "block"),
        ("must", None, "block"),
        ("must", TrackerValue(id="w", state="x"), "pass"),
    ],
)
def test_the_resume_policy(policy: str, value: object, level: str) -> None:
    run = run_spec(wandb=WandbSpec(id="w", resume=policy))
    more: dict[str, Any] = {} if value is None else {"tracker": value}
    assert levels(setup.may_resume(context(run, **more))) == {"resume-policy": level}


def test_a_drifting_identity_is_a_hard_block() -> None:
    run = run_spec(wandb=WandbSpec(id="w", project="p"))
    (check,) = setup.same_tracker(context(run, tracker=tracker(id="other", project="p")), None)
    assert hard(check) and "id other is active, w is recorded" in check.text
    prior = Snapshot(launch_id="i", at=T0, action="launch", command=("x",), wandb_id="before")
    assert hard(setup.same_tracker(context(run, tracker=tracker(id="w")), prior)[0])
    same = setup.same_tracker(context(run, tracker=tracker(id="w", project="p")), None)
    assert levels(same) == {"C-13": "pass"}


BOOK = "# Toy: Hero Run Logbook\n\n## Run Contract\n\n- DRI: ada\n- Issue: {}\n"
ISSUE = "https://github.com/marin-community/marin/issues/1234"


@pytest.mark.parametrize(
    ("linked", "level"),
    [(ISSUE, "pass"), ("#1234 ", "pass"), ("[link](" + ISSUE + ")", "pass"), ("#123", "block"),
     (ISSUE + "5", "block"), ("", "block")],
)  # fmt: skip
def test_logbook_and_issue_link_each_other(linked: str, level: str) -> None:
    run = run_spec(tier="hero", records=RecordsSpec(logbook="/l.md", issue=ISSUE))
    found = setup.kept_records(context(run), read_logbook(BOOK.format(linked)), None)
    assert levels(found)["issue"] == level


def test_what_blocks_a_hero_run_warns_an_ordinary_one() -> None:
    hero = run_spec(tier="hero", final_step=None, final_step_source=None)
    names = ("logbook", "issue", "retention", "final-step")
    found = levels(setup.kept_records(context(hero), None, None))
    assert {name: found[name] for name in names} == dict.fromkeys(names, "block")
    plain = hero.model_copy(update={"tier": "ordinary"})
    found = levels(setup.kept_records(context(plain), None, None))
    assert {name: found[name] for name in names} == dict.fromkeys(names, "warn")


def test_a_policy_that_can_never_hold_the_depth() -> None:
    spec = CheckpointSpec(path=("/c",), save_every=900.0, permanent_every=100_000, keep=5,
                          rollback_depth=10)  # fmt: skip
    (check,) = setup.retention(run_spec(tier="hero", checkpoints=spec))
    assert check.level is Level.BLOCK and "less than rollback depth" in check.text


def test_a_logbook_that_two_runs_share_is_said() -> None:
    book = RecordsSpec(logbook="/x/book.md")
    one, other = run_spec(records=book), run_spec(name="other", records=book)
    found = setup.kept_records(context(one, runs=(other,)), read_logbook(BOOK.format("x")), None)
    (check,) = [each for each in found if each.id == "logbook"]
    assert check.level is Level.WARN and "/x/book.md is also the logbook of other" in check.text
