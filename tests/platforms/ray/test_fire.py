"""Whole cockpits on a real head, under fire: at most one job trains, and the journal says which.

Races from two stores, kills, answers lost, submits cut and late, a GCS, an agent and a dashboard
that are stopped meanwhile. ``make test-ray`` does each once; ``SOAK=1`` (``ROUNDS``) more.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.lab import RELAUNCH, Answer, check, ended, kill, until
from tests.platforms.ray.lab import RayLab, RayMachine
from tests.platforms.ray.lossy import Lossy
from tests.platforms.ray.real_head import TOKEN, RealHead

pytestmark = pytest.mark.skipif(
    not os.environ.get("COCKPIT_RAY"), reason="needs a real Ray: make test-ray"
)
SOAK = bool(os.environ.get("SOAK"))
ROUNDS = int(os.environ.get("ROUNDS", "10" if SOAK else "1"))
SEED = int(os.environ.get("SEED", "7"))
WITHIN = 240.0


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def lab(head: RealHead, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RayLab]:
    made = RayLab(tmp_path, head.url, TOKEN, f"t{abs(hash(str(tmp_path))) % 10**8}")
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def machine(lab: RayLab) -> RayMachine:
    made = lab.machine("a")
    lab.prepare(made)
    return made


@pytest.fixture
def way(lab: RayLab, machine: RayMachine) -> Iterator[Lossy]:
    made = Lossy(lab.url)
    machine.address = made.url
    machine.write()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def halted(head: RealHead, word: bytes, seconds: float) -> Iterator[None]:
    """Stop a process of the head for so long, while the block goes on."""
    pids = head.processes(word)
    assert pids, word
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    def wake() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    timer = threading.Timer(seconds, wake)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def holds(lab: RayLab, *machines: RayMachine) -> None:
    """See that the next relaunch settles what was left, and that one job trains then."""
    until(lambda: len(lab.trainers) == len(lab.living()), "the head and the processes differ", 90.0)
    lived = lab.living()
    assert len(lived) <= 1, lived
    for place, machine in enumerate(machines):
        answer = machine.do(*RELAUNCH, within=WITHIN)
        assert answer.code == (4 if lived or place else 0), str(answer)
    until(lambda: len(lab.trainers) == len(lab.living()) == 1, "not exactly one trains", 90.0)
    check(lab, *machines)
    lab.die()


def told(answer: Answer) -> str:
    assert "Traceback" not in answer.err, str(answer)
    return next((line for line in answer.out.splitlines() if line.startswith("submit:")), "")


def test_two_stores_race(lab: RayLab, machine: RayMachine, chance: random.Random) -> None:
    other = lab.machine("b")
    for _ in range(ROUNDS):
        begun: list[subprocess.Popen[str]] = []
        for each in (machine, other, machine, other):
            begun.append(each.begin(*RELAUNCH))
            time.sleep(chance.random() * chance.choice((0.0, 0.1, 0.5)))
        answers = [ended(each, WITHIN) for each in begun]
        assert sorted(each.code for each in answers) == [0, 4, 4, 4], "\n".join(map(str, answers))
        holds(lab, machine, other)


def test_killed_at_any_instant(lab: RayLab, machine: RayMachine, chance: random.Random) -> None:
    for _ in range(ROUNDS):
        began = machine.begin(*RELAUNCH)
        time.sleep(chance.uniform(0.8, 8.0))
        kill(began.pid)
        ended(began, WITHIN)
        holds(lab, machine)


@pytest.mark.parametrize("when", ["before it arrives", "when it has arrived", "on its way"])
def test_killed_at_the_submit(
    lab: RayLab, machine: RayMachine, way: Lossy, chance: random.Random, when: str
) -> None:
    """What is on its way when another cockpit closes its id comes first, or is refused."""
    for _ in range(ROUNDS):
        way.spoil = {"before it arrives": "cut", "when it has arrived": "swallow"}.get(when, "late")
        way.delay = chance.uniform(0.0, 4.0)
        began = machine.begin(*RELAUNCH)
        way.arrived = lambda pid=began.pid: kill(pid)  # type: ignore[misc]
        assert ended(began, WITHIN).code == -signal.SIGKILL
        if when == "on its way":
            assert machine.do(*RELAUNCH, within=WITHIN).code in (0, 4)
        way.heal()
        holds(lab, machine)


@pytest.mark.parametrize("spoil", ["swallow", "blind", "cut", "cut blind", "late", "late blind"])
def test_an_answer_that_is_lost(lab: RayLab, machine: RayMachine, way: Lossy, spoil: str) -> None:
    outcomes = {"swallow": 0, "cut": 1, "late": 1}
    for _ in range(ROUNDS):
        way.spoil, way.delay, way.hits = spoil, 15.0, 0
        answer = machine.do(*RELAUNCH, within=WITHIN)
        assert answer.code == outcomes.get(spoil, 5), str(answer)
        assert way.hits == 1, "a submit is sent once"
        way.heal()
        holds(lab, machine)


@pytest.mark.parametrize(
    "word", [b"gcs_server", b"ray::DashboardAgent", b"raylet/raylet", b"dashboard/dashboard.py"]
)
def test_a_part_of_the_head_hangs_in_a_submit(
    head: RealHead,
    lab: RayLab,
    machine: RayMachine,
    way: Lossy,
    chance: random.Random,
    word: bytes,
) -> None:
    for _ in range(ROUNDS):
        arrived = threading.Event()
        way.arrived = arrived.set
        began = machine.begin(*RELAUNCH)
        assert arrived.wait(60)
        with halted(head, word, chance.choice((3.0, 20.0)) if SOAK else 6.0):
            answer = ended(began, WITHIN)
        assert answer.code in (0, 1, 4, 5), str(answer)
        assert "nothing was started" in told(answer) or answer.code != 1, str(answer)
        way.heal()
        holds(lab, machine)


def test_the_gcs_hangs_in_a_stop(
    head: RealHead, lab: RayLab, machine: RayMachine, chance: random.Random
) -> None:
    for _ in range(ROUNDS):
        assert machine.do(*RELAUNCH, within=WITHIN).code == 0
        lab.goes_on(machine, 1)
        words = machine.words("stop")
        began = machine.begin("stop", "--confirm", words)
        time.sleep(chance.uniform(0.8, 2.5))
        with halted(head, b"gcs_server", chance.choice((3.0, 12.0))):
            answer = ended(began, WITHIN)
        assert answer.code in (0, 1, 4, 5), str(answer)
        if answer.code == 0:
            assert not lab.trainers and not lab.living()
        else:
            assert machine.do("stop", "--confirm", "x", within=WITHIN).code == 4
        holds(lab, machine)
