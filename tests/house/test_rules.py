"""Every rule that is built opens its condition through ``judge``; none can be unwired unseen."""

from __future__ import annotations

import inspect
import math
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import pytest

from cockpit import rules
from cockpit.model.conditions import CONDITIONS, Condition
from cockpit.model.history import (
    FormerFailure,
    History,
    Launched,
    PhaseMark,
    UnsettledLaunch,
)
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import (
    CheckpointState,
    CodeValue,
    Disk,
    HostValue,
    Phase,
    RecordsValue,
    Row,
)
from cockpit.model.own_rules import DROPPED
from cockpit.model.run import CheckpointSpec, CodeSpec, RecordsSpec, RunSpec, WandbSpec
from cockpit.model.shared_facts import Announced, Loaded, Notice
from cockpit.rules import judge as judging
from cockpit.rules.jobs.restarts import failure_of, restarts_in
from cockpit.rules.judge import ROWS, RULES, judge, rules_of
from tests.rules.making import (
    CADENCE,
    T0,
    blind,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    monitor,
    outage,
    run_spec,
    settings_of,
    tracker,
    windows,
)


class Case(NamedTuple):
    """A history that opens exactly these conditions."""

    past: History
    run: RunSpec = run_spec()
    beside: tuple[str, ...] = ()
    """What the same situation opens besides, by SPEC's own words."""


def ended() -> Case:
    value = job(Phase.FAILED, exit_code=1, ended_at=T0 + 77)
    return Case(history(T0 + 90, job=value, checkpoints=checkpoints(checkpoint(100, T0))))


def unknown() -> Case:
    late = T0 + 2 * CADENCE + 1
    return Case(history(late, job=blind(), log=log("x", mtime=late - 1)))


def place_dark() -> Case:
    late = T0 + 2 * CADENCE + 1
    past = history(late, job=blind(), log=log("x", mtime=late - 1))
    return Case(past.model_copy(update={"outages": (outage(),)}))


def launch_lost() -> Case:
    past = history(T0 + 60, job=job(Phase.RUNNING))
    lost = UnsettledLaunch(launch_id="toy-i009", action="relaunch", by="ada", since=T0)
    return Case(past.model_copy(update={"unsettled": (lost,)}))


def monitor_dead() -> Case:
    return Case(history(T0 + 1000, job=job(), monitor=monitor(T0, fresh=False)))


def wedged() -> Case:
    return Case(history(T0 + 1801, job=job(Phase.WAITING, pending_since=T0)))


def collapsed() -> Case:
    rows = windows([1200.0] * 10 + [800.0] * 4)
    now = max(row.at or 0.0 for row in rows)
    return Case(history(now, folded(rows), job=job(), tracker=tracker(last_step_at=now)))


def stalled() -> Case:
    value = tracker(last_step_at=T0 + 99)
    now = T0 + 99 + 2 * CADENCE + 1
    return Case(history(now, folded(losses([2.0] * 100)), job=job(), tracker=value))


def saves_late() -> Case:
    now = T0 + 651
    saved = checkpoints(checkpoint(100, T0 + 50))
    return Case(history(now, job=job(), tracker=tracker(last_step_at=now), checkpoints=saved))


def cover_thin() -> Case:
    run = run_spec(checkpoints=CheckpointSpec(path=("/c",), protect=(5,)))
    return Case(history(T0, job=job(), checkpoints=checkpoints(checkpoint(10, T0))), run)


def not_finite() -> Case:
    return Case(history(T0 + 2, folded(losses([2.0, float("nan")])), job=job()))


def spiked() -> Case:
    rows = losses([2.0] * 50 + [3.1] * 10)
    return Case(history(T0 + 60, folded(rows), job=job(), tracker=tracker(last_step_at=T0 + 59)))


def steps_up() -> Case:
    levels = [2.0] * 300 + [2.2] * 90
    rows = losses([level + 0.01 * math.sin(3.7 * n) for n, level in enumerate(levels)])
    return Case(history(T0 + 400, folded(rows), job=job(), tracker=tracker(last_step_at=T0 + 389)))


def unstable() -> Case:
    norms = [1.0 + 0.1 * math.sin(3.7 * step) for step in range(300)] + [5.0] * 10
    rows = [Row(500 + n, T0 + n, 2.0, None, norm) for n, norm in enumerate(norms)]
    value = tracker(last_step_at=T0 + 309)
    return Case(history(T0 + 310, folded(rows), job=job(), tracker=value))


def drops_tokens() -> Case:
    rows = [Row(n, T0 + 60 * n, 2.0, limited=((DROPPED, 0.1),)) for n in range(16)]
    now = T0 + 900
    return Case(history(now, folded(rows), job=job(), tracker=tracker(last_step_at=now)))


def resumed_at_zero() -> Case:
    rows = [*losses([2.0] * 60), Row(0, T0 + 110, 2.0)]
    value = tracker(last_step_at=T0 + 110)
    past = history(T0 + 120, folded(rows), job=job(), tracker=value)
    launched = Launched(at=T0 + 100, job_id="host:1", launch_id="toy-i002", resumes_from=50)
    return Case(past.model_copy(update={"launched": launched}))


def resumed_otherwise() -> Case:
    former = losses([2.0 - step / 1000 for step in range(100)])
    again = [Row(step, T0 + 100 + step, 2.1 - step / 1000) for step in range(80, 90)]
    value = tracker(last_step_at=T0 + 189)
    return Case(history(T0 + 190, folded([*former, *again]), job=job(), tracker=value))


def failed_again() -> Case:
    lines = ("Traceback (most recent call last):", '  File "/x/a.py", line 3, in f', "KeyError: 1")
    value = job(Phase.FAILED, exit_code=1, ended_at=T0 + 77, launch_id="toy-i002")
    past = history(T0 + 90, job=value, log=log(*lines))
    now = failure_of(run_spec(), past)
    assert now is not None
    before = FormerFailure(at=T0, job_id="toy-i001", name=now.name, signature=now.signature)
    return Case(past.model_copy(update={"former_failures": (before,)}), beside=("C-01",))


def flaps() -> Case:
    marks = [PhaseMark(at=T0 + at, phase=Phase.RUNNING, job_id=f"host:{at}") for at in range(4)]
    past = history(T0 + 60, job=job(id="host:3"), phases=tuple(marks))
    return Case(past.model_copy(update={"restarts": restarts_in(marks)}))


def hollow_success() -> Case:
    value = job(Phase.SUCCEEDED, exit_code=0, ended_at=T0 + 1000)
    done = tracker(state="finished", exit_code=0, step=999)
    saved = checkpoints(checkpoint(900, T0))
    return Case(history(T0 + 1001, job=value, tracker=done, checkpoints=saved))


def log_still() -> Case:
    value = log("hello", mtime=T0 + 99 - 3 * CADENCE)
    moving = tracker(last_step_at=T0 + 99)
    trend = folded(losses([2.0] * 100))
    return Case(history(T0 + 100, trend, job=job(), log=value, tracker=moving))


def truncated() -> Case:
    value = log("step 1", mtime=T0 + 99, begun_anew_at=T0 + 90)
    return Case(history(T0 + 100, job=job(restarts=1), log=value))


def unrecorded() -> Case:
    run = run_spec(tier="hero", records=RecordsSpec(logbook="/x/toy.md"), monitor=None)
    value = RecordsValue(logbook="/x/toy.md", last_entry_at=T0, pushed=True)
    return Case(history(T0 + 5000, job=job(), records=value), run)


def twice() -> Case:
    other = LiveJob(id="pid:9", name="python train.py", why="its arguments", started_at=T0)
    return Case(history(T0 + 100, job=job(id="pid:7", rivals=(other,))))


def out_of_time() -> Case:
    value = job(ends_by=T0 + 250)  # saves every 300 s, the last at T0
    return Case(history(T0 + 60, job=value, checkpoints=checkpoints(checkpoint(100, T0))))


def other_identity() -> Case:
    run = run_spec(wandb=WandbSpec(id="toy"))
    return Case(history(T0 + 60, job=job(), tracker=tracker(id="other")), run)


def other_code() -> Case:
    run = run_spec(code=CodeSpec(repo="/r"))
    value = CodeValue(sha="b" * 40, record_sha="a" * 40, changed=("train.py",))
    return Case(history(T0 + 60, job=job(), code=value), run)


def other_output() -> Case:
    run = run_spec(output_root="gs://b/toy")
    settings = settings_of({"trainer": {"output_dir": "gs://c/toy"}})
    return Case(history(T0 + 60, job=job(), settings=settings), run)


def other_checkpoint() -> Case:
    torn = checkpoint(50, T0 - 900, CheckpointState.INCOMPLETE)
    good = checkpoint(60, T0 - 60)
    said = Announced(loaded=Loaded(path="/c/step-50", step=50, line="resumed from /c/step-50"))
    value = log("x", mtime=T0 + 60, announced=said)
    past = history(T0 + 60, job=job(), log=value, checkpoints=checkpoints(torn, good))
    return Case(past, beside=("C-07",))  # a torn one is told whoever loads it


def other_config() -> Case:
    before, now = settings_of({"lr": 1e-4}), settings_of({"lr": 2e-4})
    return Case(history(T0 + 60, job=job(), settings=now, former_settings=before))


def shared_log() -> Case:
    pairs = [(Row(at, T0 + at, 2.0), Row(at + 5000, T0 + at, 1.0)) for at in range(60)]
    rows = tuple(row for pair in pairs for row in pair)
    value = log("x", mtime=T0 + 59, rows=rows)
    past = history(T0 + 60, folded(rows), job=job(), log=value)
    return Case(past.model_copy(update={"log_trend": past.trend}))


def noticed() -> Case:
    said = Announced(notice=Notice(line="preemption notice received", at=T0 + 50))
    return Case(history(T0 + 60, job=job(), log=log("x", mtime=T0 + 60, announced=said)))


def full_disk() -> Case:
    value = HostValue(disks=(Disk(mount="/", free=10**9, used_frac=0.95),))
    return Case(history(T0 + 60, job=job(), host=value))


CASES: dict[str, Callable[[], Case]] = {
    "ended_not_success": ended,
    "state_unknown": unknown,
    "place_unknown": place_dark,
    "launch_unsettled": launch_lost,
    "monitor_stale": monitor_dead,
    "pending_too_long": wedged,
    "throughput_collapse": collapsed,
    "step_stalled": stalled,
    "checkpoint_not_advancing": saves_late,
    "rollback_cover_thin": cover_thin,
    "non_finite": not_finite,
    "unstable": unstable,
    "loss_spike": spiked,
    "stepped_up": steps_up,
    "past_limit": drops_tokens,
    "resumed_elsewhere": resumed_at_zero,
    "resume_mismatch": resumed_otherwise,
    "identity_drifts": other_identity,
    "same_failure_again": failed_again,
    "flapping": flaps,
    "code_drifts": other_code,
    "output_elsewhere": other_output,
    "wrong_checkpoint": other_checkpoint,
    "config_drifts": other_config,
    "success_without_artifacts": hollow_success,
    "host_pressure": full_disk,
    "log_frozen": log_still,
    "log_started_over": truncated,
    "records_overdue": unrecorded,
    "duplicate_job": twice,
    "log_mixed": shared_log,
    "walltime_short": out_of_time,
    "preemption_noticed": noticed,
}
"""By rule: a situation that opens its condition."""


def opened(case: Case) -> set[str]:
    return {alert.id for alert in judge(case.run, case.past)}


def test_the_rows_are_those_of_the_specification() -> None:
    ids = [id_ for row in CONDITIONS for id_ in row.ids]
    assert ids == [f"C-{number:02}" for number in range(1, len(ids) + 1)]


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: row.id)
def test_a_row_has_all_its_parts(row: Condition) -> None:
    assert row.what and row.opens
    assert bool(row.rules) == bool(row.severity), "only a rule of display never alerts"
    lacking = {name.partition(":")[2] for name in row.rules} - CASES.keys()
    assert lacking == set(), "a rule without a case in CASES"
    assert {*row.consequence_of, *row.whenever} <= ROWS.keys()
    assert set(row.whenever) <= set(row.consequence_of)


def test_every_rule_is_named_by_a_row() -> None:
    written = set[str]()
    for _, name, _ in pkgutil.walk_packages(rules.__path__, "cockpit.rules."):
        for each in vars(import_module(name)).values():
            own = inspect.isfunction(each) and each.__module__ == name
            if own and not each.__name__.startswith("_"):
                kinds = inspect.get_annotations(each)
                judges = [*kinds.values()][:2] == ["RunSpec", "History"]
                if judges and kinds["return"] == "Iterator[Alert]":
                    written.add(f"{name.removeprefix('cockpit.rules.')}:{each.__name__}")
    assert len(written) > 20
    assert written == {name for row in CONDITIONS for name in row.rules}


FOUND_BY = [(row, rule) for row in CONDITIONS for rule in rules_of(row)]


@pytest.mark.parametrize(
    ("row", "rule"), FOUND_BY, ids=[f"{row.id}-{rule.__name__}" for row, rule in FOUND_BY]
)
def test_a_condition_opens_by_its_own_situation_alone(
    row: Condition, rule: judging.Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[rule.__name__]()
    assert opened(case) == {row.id, *case.beside}
    monkeypatch.setattr(judging, "RULES", tuple(each for each in RULES if each is not rule))
    if row.id == judging.LAST:
        monkeypatch.setattr(judging, "records_overdue", lambda *_: ())
    assert row.id not in opened(case), "another rule finds it, too"
