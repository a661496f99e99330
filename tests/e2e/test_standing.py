"""Standing orders under fire: two machines with the same order, and a watch killed at any point."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.e2e.lab import OVER, RELAUNCH, Lab, Machine, check, kill, until

PROGRAM = "tests.e2e.points"
MORE = """
[run.standing]
relaunch = {{ classes = ["preempted"], at_most = 20 }}

[agents]
grace = "500ms"

[notify]
routes = [{{ min = "info", command = [{python}, "-c", {told}] }}]
"""
PREEMPTED = (
    "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T02:10:00 DUE TO PREEMPTION ***"
)
POINTS = ("claimed", "submit:accepted", "submit:did", "log:did")


def person(machine: Machine) -> None:
    """Have a person relaunch the run, which accepts the warnings of a plan here."""
    answer = machine.do(*RELAUNCH)
    assert answer.code == 0, str(answer)


def arm(machine: Machine) -> None:
    answer = machine.do("standing", "--until", "2h", "--confirm", "standing tiny")
    assert answer.code == 0, str(answer)


def asleep(lab: Lab, name: str) -> Machine:
    machine = lab.machine(name)
    machine.write(tracked=False)
    told = f"import sys; open({str(machine.folder / 'told')!r}, 'a').write(sys.stdin.read())"
    with machine.config.open("a") as file:
        file.write(MORE.format(python=json.dumps(sys.executable), told=json.dumps(told)))
    return machine


@contextmanager
def watching(*machines: Machine) -> Iterator[list[subprocess.Popen[str]]]:
    watches = [machine.begin("watch") for machine in machines]
    try:
        yield watches
    finally:
        for watch in watches:
            kill(watch.pid, signal.SIGTERM)
            watch.communicate(timeout=60)


def preempt(lab: Lab, machine: Machine) -> None:
    """Take the job away as a scheduler does: it says so, and ends it."""
    lab.goes_on(machine)
    with (machine.root / "run.log").open("a") as log:
        log.write(f"{PREEMPTED}\n")
    for one in lab.trainers:
        kill(one.pid, signal.SIGTERM)
    until(lambda: not lab.trainers and not lab.supervisors, "a trainer is left")


def by_order(*machines: Machine) -> list[dict[str, Any]]:
    found = [one for machine in machines for one in machine.actions]
    return [one for one in found if one["by"].startswith("standing order of ada")]


def more(lab: Lab, before: set[str]) -> bool:
    return lab.started() > before


def whole(lab: Lab, *machines: Machine) -> bool:
    """Whether nobody is acting any more, and every launch stands in the logbook."""
    ended = all(each["outcome"] in OVER for each in by_order(*machines))
    return ended and all(each in lab.logbook() for each in lab.started())


def test_two_machines_with_the_same_order_relaunch_once(lab: Lab) -> None:
    one, two = asleep(lab, "one"), asleep(lab, "two")
    lab.prepare(one)
    person(one)
    preempt(lab, one)
    person(two)
    for machine in (one, two):
        arm(machine)
    with watching(one, two):
        before = lab.started()
        preempt(lab, one)
        until(partial(more, lab, before), "nobody has relaunched it", 120)
        until(lambda: whole(lab, one, two), "it does not come to its end", 120, every=0.3)
    assert len(lab.started() - before) == 1
    check(lab, one, two)
    done = [each for each in by_order(one, two) if each["outcome"] == "done"]
    assert [each["action"] for each in done] == ["relaunch"]
    assert "relaunched by standing order of ada, 1 of 20, from step " in lab.logbook()


def test_a_watch_that_is_killed_leaves_what_the_next_one_goes_on_from(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = asleep(lab, "one")
    lab.prepare(machine)
    person(machine)
    arm(machine)
    for point in POINTS:
        before = lab.started()
        own, machine.program = machine.program, PROGRAM
        with monkeypatch.context() as patch:
            patch.setenv("POINT", point)
            patch.setenv("FATE", "kill")
            watch = machine.begin("watch")
        machine.program = own
        preempt(lab, machine)
        assert watch.wait(120) == -9, watch.communicate()
        watch.communicate()
        with watching(machine):
            until(partial(more, lab, before), f"killed at {point}: not relaunched", 120)
            lab.goes_on(machine, 3)
            until(lambda: whole(lab, machine), f"killed at {point}: no end", 120, every=0.3)
        assert len(lab.started() - before) == 1, point
        check(lab, machine)
    assert [each for each in by_order(machine) if each["action"] == "escalate"] == []
