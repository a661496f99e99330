"""The command line killed at random instants, on real trainers (SPEC A, "killed at any instant").

Afterwards there is never more than one trainer, each that ever trained is known to the journal
and the logbook, nothing stays open, and the next relaunch works. The slices here are short; with
``SOAK=1`` in the environment each is run forty times.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from collections import Counter
from functools import partial

import pytest

from tests.e2e.lab import RELAUNCH, RUN, SOAK, Answer, Lab, Machine, check, ended, git, kill, until

ROUNDS = int(os.environ.get("ROUNDS", "40" if SOAK else "1"))
SEED = int(os.environ.get("SEED", "7"))
KILLS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 130}

long = pytest.mark.skipif(not SOAK, reason="only in the long run: SOAK=1")


@pytest.fixture
def machine(lab: Lab) -> Machine:
    made = lab.machine("a")
    lab.prepare(made)
    return made


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{SEED} {request.node.name}")


def shot(chance: random.Random, process: subprocess.Popen[str], span: float) -> Answer:
    """Kill the command within ``span`` seconds; return how it ended.

    Mostly they count from its first step (it has told of it then), else from its start.
    """
    number = chance.choice(KILLS)
    if chance.random() < 0.75:
        assert process.stderr is not None
        select.select([process.stderr], [], [], 60)
    time.sleep(chance.uniform(0.0, span))
    kill(process.pid, number)
    answer = ended(process, 30)
    assert answer.code in (ENDS[number], 0, 1, 4, 5, 6), str(answer)
    assert "Traceback" not in answer.err, str(answer)
    return answer


def journal_knows(lab: Lab, machine: Machine) -> None:
    """See that nothing trains, or ever trained, under a launch id that is not in the journal."""
    known = {one["launch_id"] for one in machine.actions}
    assert lab.started() <= known, f"{lab.started()} trained; the journal knows {known}"


def goes_on(lab: Lab, machine: Machine) -> Answer:
    """See that the next relaunch settles what was left: it works, or one trainer lives already."""
    assert len(lab.settled()) <= 1
    journal_knows(lab, machine)
    lived = bool(lab.trainers)
    answer = machine.do(*RELAUNCH)
    assert answer.code == (4 if lived else 0), str(answer)
    assert len(lab.settled()) == 1
    check(lab, machine)
    committed(lab, machine)
    told_once(lab, machine, " - ")
    return answer


def test_a_relaunch(lab: Lab, machine: Machine, chance: random.Random) -> None:
    for _ in range(ROUNDS):
        shot(chance, machine.begin(*RELAUNCH), 3.0 if SOAK else 1.0)
        goes_on(lab, machine)
        lab.die()


def _begun(lab: Lab, process: subprocess.Popen[str]) -> bool:
    return bool(lab.supervisors) or process.poll() is not None


@long
def test_a_relaunch_and_its_supervisor(lab: Lab, machine: Machine, chance: random.Random) -> None:
    """Either dies first; a trainer that has neither is found and recorded all the same."""
    for _ in range(ROUNDS):
        process = machine.begin(*RELAUNCH)
        until(partial(_begun, lab, process), "no start")
        victims = [process.pid, *(one.pid for one in lab.supervisors)]
        chance.shuffle(victims)
        for pid in victims:
            time.sleep(chance.choice((0.0, 0.01, 0.05, 0.2)) * chance.random())
            kill(pid)
        ended(process, 30)
        goes_on(lab, machine)
        lab.die()


@long
def test_one_that_stands_still_while_it_is_taken_over(lab: Lab, chance: random.Random) -> None:
    """SIGSTOP at any instant, another machine takes the run by name, SIGCONT: one trainer."""
    machine = lab.machine("a")
    lab.prepare(machine)
    other = lab.machine("b", machine.root)
    taken = ("--approve", "second-machine", "--by", "ada", "--reason", "its machine hangs")
    for _ in range(ROUNDS):
        process = machine.begin(*RELAUNCH)
        time.sleep(chance.uniform(0.3, 3.0))
        kill(process.pid, signal.SIGSTOP)
        try:
            answer = other.do(*RELAUNCH, *taken)
        finally:
            kill(process.pid, signal.SIGCONT)
        woken = ended(process)
        said = f"taken over: {answer}\nwoken: {woken}"
        assert "Traceback" not in woken.err, said
        assert len(lab.settled()) == 1, said
        check(lab, machine, other)
        assert (0 in (answer.code, woken.code)) and answer.code in (0, 4), said
        lab.die()


@long
def test_a_stop(lab: Lab, machine: Machine, chance: random.Random) -> None:
    for _ in range(ROUNDS):
        assert machine.do(*RELAUNCH).code == 0
        words = machine.words("stop")
        shot(chance, machine.begin("stop", "--confirm", words), 0.6)
        goes_on(lab, machine)
        lab.die()


@long
def test_a_rollback(lab: Lab, machine: Machine, chance: random.Random) -> None:
    """No checkpoint is lost, and none that was rejected is resumed from."""
    for _ in range(ROUNDS):
        assert machine.do(*RELAUNCH).code == 0
        lab.goes_on(machine, 3)
        lab.die()
        before, aside = machine.saved(), _aside(machine)
        to = before[-3]
        back = ("rollback", "--to", str(to), "--move", "yes", "--reason", "qa")
        shot(chance, machine.begin(*back, "--confirm", machine.words(*back)), 0.6)
        assert sorted([*machine.saved(), *_aside(machine)]) == sorted([*before, *aside])
        if (left := machine.do(*RELAUNCH)).code == 4:  # rejected, and not moved yet: it says so
            assert f"rollback {RUN} --to {to} --move yes" in left.out, str(left)
            assert machine.do(*back, "--confirm", machine.words(*back)).code == 0
            goes_on(lab, machine)
        check(lab, machine)
        told_once(lab, machine, "rollback")
        committed(lab, machine)
        acts = [one for one in machine.actions[-3:] if one["outcome"] == "done"]
        if "rollback" in [one["action"] for one in acts]:
            assert int(acts[-1]["facts"]["resumes_from"]) == to
        lab.die()


REPEATED = {"handoff": "handoff", "retention": "retain", "rollback": "rollback"}
"""Titles that name no launch: several such actions of one minute have entries of the same head."""


def told_once(lab: Lab, machine: Machine, title: str) -> None:
    """See that what is public stands there once, is committed here, and says what is so."""
    book = lab.logbook()
    entries = [each for each in book.split("\n### ")[1:] if title in each.partition("\n")[0]]
    assert len(entries) == len(set(entries)), entries
    for head, count in Counter(each.partition("\n")[0] for each in entries).items():
        kind = next((action for words, action in REPEATED.items() if f"- {words}" in head), None)
        begun = [one for one in machine.actions if one["action"] == kind]
        assert count <= max(1, len(begun)), f"{head}: {count} entries of {len(begun)} actions"


def committed(lab: Lab, machine: Machine) -> None:
    """See that no entry is left that was written and never committed, nor one never pushed."""
    until(lambda: not git(machine.clone, "status", "--porcelain", "--", "tiny.md"), "left open")
    until(lambda: lab.logbook() == (machine.clone / "tiny.md").read_text(), "never pushed")


def _aside(machine: Machine) -> list[int]:
    names = (machine.root / "checkpoints").glob("rejected-*/step-*/metadata.json")
    return sorted(int(path.parent.name[5:]) for path in names)


@long
def test_a_clean_up(lab: Lab, machine: Machine, chance: random.Random) -> None:
    """Nothing but what was listed is ever deleted; the next clean-up ends what was begun."""
    for _ in range(ROUNDS):
        assert machine.do(*RELAUNCH).code == 0
        lab.goes_on(machine, 5)
        lab.die()
        before = machine.saved()
        plan = machine.do("retain", "--json").document
        listed = {each["step"] for each in plan["targets"]}
        shot(chance, machine.begin("retain", "--confirm", plan["words"]), 0.6)
        assert set(before) - set(machine.saved()) <= listed
        again = machine.do("retain", "--json").document
        answer = machine.do("retain", "--confirm", again["words"])
        assert answer.code == (0 if again["targets"] else 4), str(answer)
        assert not list((machine.root / "checkpoints").glob("*.deleting-*"))
        assert set(before) - set(machine.saved()) == listed
        goes_on(lab, machine)
        lab.die()


@long
def test_a_handoff(lab: Lab, machine: Machine, chance: random.Random) -> None:
    for _ in range(ROUNDS):
        hand = ("handoff", "--to", "bob", "--confirm", "handoff tiny")
        shot(chance, machine.begin(*hand), 0.6)
        goes_on(lab, machine)
        lab.die()


@long
def test_a_seal(lab: Lab, machine: Machine, chance: random.Random) -> None:
    """However often it is killed: one tag, one entry, once it is done."""
    git(lab.code, "remote", "add", "origin", str(lab.remote))
    git(lab.code, "push", "-q", "-u", "origin", "HEAD:code")
    final = machine.saved()[-1] + 60
    machine.write(final, tracked=False)
    assert machine.do(*RELAUNCH).code in (0, 1)
    until(lambda: final in machine.saved() and not lab.supervisors, "it never came to its end")
    words = f"seal tiny {final}"
    for _ in range(ROUNDS):
        shot(chance, machine.begin("seal", "--confirm", words), 0.6)
    answer = machine.do("seal", "--confirm", words)
    assert answer.code == 0 or "already sealed" in answer.out, str(answer)
    assert git(lab.remote, "tag", "-l").split() == [f"seal/tiny/{final}"]
    assert lab.logbook().count("final seal") == 1
    check(lab, machine)
