"""Races, kills and broken links of jobs on an ssh host, by the real command line (SPEC A).

With ``SOAK=1`` only: each round takes seconds. Whatever is done to the cockpits and to sshd, at
most one trainer lives, whatever ever trained is in one journal, and once the host answers again
a next command settles what was left open.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box_lab import BoxLab, BoxMachine, cut, halted
from tests.e2e.lab import RELAUNCH, Answer, check, ended, kill
from tests.sshd import Sshd, needs_sshd, serving

ROUNDS = int(os.environ.get("ROUNDS", "25"))
SEED = int(os.environ.get("SEED", "7"))
WITHIN = 12.0
"""Seconds of a relaunch in which something is done to it."""
PATIENCE = 400.0

pytestmark = [needs_sshd, pytest.mark.skipif(not os.environ.get("SOAK"), reason="long: set SOAK=1")]


@pytest.fixture
def server() -> Iterator[Sshd]:
    with (
        tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as root,
        serving(Path(root)) as found,
    ):
        yield found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[BoxLab]:
    made = BoxLab(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{SEED} {request.node.name}")


def brought_to_rest(lab: BoxLab, *machines: BoxMachine) -> None:
    """Let every machine settle what it left open, and see that all holds."""
    lab.settled()
    for machine in machines:
        done = machine.do(*RELAUNCH, within=PATIENCE)
        assert done.code in (0, 4), str(done)
    check(lab, *machines)


def test_two_stores_and_one_host(lab: BoxLab, server: Sshd, chance: random.Random) -> None:
    here, there = (lab.on(server, name) for name in "ab")
    lab.prepare(here)
    for number in range(ROUNDS):
        begun = []
        for machine in (here, there):
            begun.append(machine.begin(*RELAUNCH))
            time.sleep(chance.random() * chance.choice((0.0, 0.2, 1.5)))
        answers: list[Answer] = [ended(each, PATIENCE) for each in begun]
        said = "\n".join(map(str, answers))
        assert sorted(each.code for each in answers) == [0, 4], said
        check(lab, here, there)
        assert len(lab.trainers) == 1, said
        print("race", number, flush=True)
        lab.die()


@pytest.mark.parametrize("fault", ["kill", "halt", "cut"])
def test_a_relaunch_that_is_disturbed_at_any_time(
    lab: BoxLab, server: Sshd, chance: random.Random, fault: str
) -> None:
    here, there = (lab.on(server, name) for name in "ab")
    lab.prepare(here)
    for number in range(ROUNDS):
        machine = chance.choice((here, there))
        process = machine.begin(*RELAUNCH)
        wait = chance.random() * WITHIN
        time.sleep(wait)
        if fault == "kill":
            kill(process.pid)
        elif fault == "halt":
            halted(server, process, chance.choice((3.0, 20.0)))
        else:
            cut(server)
        answer = ended(process, PATIENCE)
        assert answer.code in (0, 4, 5, 1, -signal.SIGKILL), str(answer)
        brought_to_rest(lab, here, there)
        assert len(lab.trainers) == 1
        print(fault, number, f"{wait:.2f} s", answer.code, flush=True)
        lab.die()


@pytest.mark.parametrize("fault", ["kill", "halt", "cut"])
def test_a_stop_that_is_disturbed_at_any_time(
    lab: BoxLab, server: Sshd, chance: random.Random, fault: str
) -> None:
    here = lab.on(server, "a")
    lab.prepare(here)
    for number in range(ROUNDS):
        assert here.do(*RELAUNCH, within=PATIENCE).code == 0
        process = here.begin("stop", "--confirm", here.words("stop"))
        time.sleep(chance.random() * WITHIN / 2)
        if fault == "kill":
            kill(process.pid)
        elif fault == "halt":
            halted(server, process, chance.choice((3.0, 20.0)))
        else:
            cut(server)
        answer = ended(process, PATIENCE)
        assert len(lab.settled()) <= 1
        brought_to_rest(lab, here)
        print(fault, number, answer.code, len(lab.trainers), flush=True)
        lab.die()
