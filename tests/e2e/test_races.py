"""Commands that race for one run, by the real command line, on real trainers (SPEC A).

One wins, the others are refused with a line that says why; never two trainers, none forgotten.
The slices here are short; with ``SOAK=1`` in the environment each race is run a hundred times.
"""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest

from tests.e2e.lab import RELAUNCH, SOAK, Answer, Lab, Machine, check, ended

ROUNDS = int(os.environ.get("ROUNDS", "100" if SOAK else "1"))
SEED = int(os.environ.get("SEED", "7"))
APART = (0.0, 0.05, 0.2, 0.6, 1.2)
"""Seconds between two who race, at most."""

long = pytest.mark.skipif(not SOAK, reason="only in the long run: SOAK=1")


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{SEED} {request.node.name}")


Command = tuple[Machine, tuple[str, ...]]


def race(chance: random.Random, *commands: Command) -> list[Answer]:
    """Begin all of them, a little apart, and return how each ended."""
    begun: list[subprocess.Popen[str]] = []
    for machine, words in commands:
        begun.append(machine.begin(*words))
        time.sleep(chance.random() * chance.choice(APART))
    return [ended(each) for each in begun]


def one_won(answers: list[Answer]) -> None:
    """See one exit 0 and every other exit 4 with one line that says why."""
    said = "\n".join(map(str, answers))
    assert sorted(each.code for each in answers) == [0] + [4] * (len(answers) - 1), said
    for each in answers:
        if each.code == 4:
            head, why, *rest = each.out.strip().splitlines()
            assert head.endswith("refused, nothing was done"), said
            assert len(why) > 10, said
            assert not rest, said


def relaunches(chance: random.Random, lab: Lab, *machines: Machine) -> None:
    """Race them ``ROUNDS`` times, the trainer killed in between."""
    for _ in range(ROUNDS):
        one_won(race(chance, *((machine, RELAUNCH) for machine in machines)))
        check(lab, *dict.fromkeys(machines))
        assert len(lab.trainers) == 1
        lab.die()


@long
def test_two_cockpits_with_one_store(lab: Lab, chance: random.Random) -> None:
    machine = lab.machine("a")
    lab.prepare(machine)
    relaunches(chance, lab, machine, machine)


@long
def test_two_stores_over_one_output_root(lab: Lab, chance: random.Random) -> None:
    here, there = lab.machine("a"), lab.machine("b")
    lab.prepare(here)
    relaunches(chance, lab, here, there)


def test_four_at_once(lab: Lab, chance: random.Random) -> None:
    here, there = lab.machine("a"), lab.machine("b")
    lab.prepare(here)
    relaunches(chance, lab, here, there, here, there)


def test_two_machines_with_an_output_root_each_and_one_tracker_id(
    lab: Lab, chance: random.Random
) -> None:
    """Nothing but the logbook's remote and the W&B id is the same for both."""
    here, there = (lab.machine(name, lab.folder / f"root-{name}") for name in "ab")
    lab.prepare(here)
    lab.prepare(there)
    relaunches(chance, lab, here, there)


@long
def test_a_relaunch_against_a_stop(lab: Lab, chance: random.Random) -> None:
    """Whichever comes first: a stop never hits a job that it did not show."""
    here, there = lab.machine("a"), lab.machine("b")
    lab.prepare(here)
    for _ in range(ROUNDS):
        one_won([here.do(*RELAUNCH)])
        words = there.words("stop")
        answers = race(chance, (there, ("stop", "--confirm", words)), (here, RELAUNCH))
        assert all(each.code in (0, 4) for each in answers), "\n".join(map(str, answers))
        assert answers[0].code == 0, str(answers[0])
        check(lab, here, there)
        assert len(lab.trainers) == int(answers[1].code == 0)
        lab.die()


@long
def test_a_relaunch_against_a_rollback(lab: Lab, chance: random.Random) -> None:
    """What is rolled back is never resumed from afterwards, and nothing moves under a trainer."""
    here, there = lab.machine("a"), lab.machine("b")
    lab.prepare(here)
    for _ in range(ROUNDS):
        one_won([here.do(*RELAUNCH)])
        lab.goes_on(here)
        lab.die()
        to = here.saved()[-2]
        back = ("rollback", "--to", str(to), "--move", "yes", "--reason", "qa")
        words = there.words(*back)
        answers = race(chance, (there, (*back, "--confirm", words)), (here, RELAUNCH))
        assert all(each.code in (0, 4) for each in answers), "\n".join(map(str, answers))
        check(lab, here, there)
        _never_from_what_was_rejected(here, there)
        lab.die()


def _never_from_what_was_rejected(*machines: Machine) -> None:
    acts = sorted(
        (one for each in machines for one in each.actions if one["outcome"] == "done"),
        key=lambda one: str(one["ended_at"]),
    )
    last = acts[-1]
    if last["action"] == "relaunch" and len(acts) > 1 and acts[-2]["action"] == "rollback":
        assert int(last["facts"]["resumes_from"]) <= int(acts[-2]["facts"]["to"])


@long
def test_a_clean_up_against_a_clean_up(lab: Lab, chance: random.Random) -> None:
    """Each listed checkpoint is deleted once; what is kept stays."""
    here, there = lab.machine("a"), lab.machine("b")
    lab.prepare(here)
    for _ in range(ROUNDS):
        one_won([here.do(*RELAUNCH)])
        lab.goes_on(here, saves=6)
        lab.die()
        before = here.saved()
        listed, words = zip(*(_listed(machine) for machine in (here, there)), strict=True)
        answers = race(chance, (here, words[0]), (there, words[1]))
        one_won(answers)
        check(lab, here, there)
        gone = listed[[each.code for each in answers].index(0)]
        assert gone
        assert here.saved() == [step for step in before if step not in gone]
        assert not list((here.root / "checkpoints").glob("*.deleting-*"))


def _listed(machine: Machine) -> tuple[set[int], tuple[str, ...]]:
    """Return the steps that a clean-up lists, and the words that delete them."""
    plan = machine.do("retain", "--json").document
    return {each["step"] for each in plan["targets"]}, ("retain", "--confirm", plan["words"])
