"""Every rule that is built opens its condition through ``judge``; none can be unwired unseen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest

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
from cockpit.model.run import CheckpointSpec, CodeSpec, RecordsSpec, RunSpec, WandbSpec
from cockpit.model.shared_facts import Announced, Loaded, Notice
from cockpit.rules import judge as judging
from cockpit.rules.jobs.restarts import failure_of, restarts_in
from cockpit.rules.judge import RULES, judge
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

SHOWN = {"C-20", "C-21"}
"""Rules of display, never alerts."""


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


def unstable() -> Case:
    norms = [1.0 + 0.1 * math.sin(3.7 * step) for step in range(300)] + [5.0] * 10
    rows = [Row(500 + n, T0 + n, 2.0, None, norm) for n, norm in enumerate(norms)]
    value = tracker(last_step_at=T0 + 309)
    return Case(history(T0 + 310, folded(rows), job=job(), tracker=value))


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
    "C-01": ended,
    "C-02": unknown,
    "C-02:https://iris": place_dark,
    "C-02#launch": launch_lost,
    "C-03": monitor_dead,
    "C-04": wedged,
    "C-05": collapsed,
    "C-06": stalled,
    "C-07": saves_late,
    "C-08": cover_thin,
    "C-09": not_finite,
    "C-10": unstable,
    "C-11": spiked,
    "C-12": resumed_at_zero,
    "C-12#loss": resumed_otherwise,
    "C-13": other_identity,
    "C-14": failed_again,
    "C-14:flapping": flaps,
    "C-15": other_code,
    "C-16": other_output,
    "C-17": other_checkpoint,
    "C-18": other_config,
    "C-19": hollow_success,
    "C-22": full_disk,
    "C-23": log_still,
    "C-23#anew": truncated,
    "C-24": unrecorded,
    "C-25": twice,
    "C-25#log": shared_log,
    "C-26": out_of_time,
    "C-26:notice": noticed,
}


def opened(case: Case) -> set[str]:
    """Return the ids of what opens; of a place's alert its key, which names the place."""
    found = judge(case.run, case.past)
    parts = [part for part in ("notice", "flapping") for alert in found if f":{part}" in alert.key]
    if parts:
        return {f"{alert.id}:{part}" for alert, part in zip(found, parts, strict=True)}
    return {alert.id if case.run.name in alert.key else alert.key for alert in found}


@pytest.mark.parametrize("condition", CASES)
def test_a_condition_opens_by_its_own_situation_alone(condition: str) -> None:
    case = CASES[condition]()
    assert opened(case) == {condition.partition("#")[0], *case.beside}


def test_every_condition_of_the_specification_has_its_place() -> None:
    placed = [*{name[:4] for name in CASES}, *SHOWN]
    assert sorted(placed) == [f"C-{number:02}" for number in range(1, 27)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_that_is_not_asked_is_missed(
    rule: judging.Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "RULES", tuple(each for each in RULES if each is not rule))
    cases = {condition: make() for condition, make in CASES.items()}
    missed = [
        name
        for name, case in cases.items()
        if opened(case) != {name.partition("#")[0], *case.beside}
    ]
    assert missed, "a rule without a situation in CASES"
