"""Relaunches and stops on a real Slurm under fire, counted at the controller itself (SPEC A).

Two cockpits on two stores, a kill at any instant, a controller that hangs for a while, an answer
that is lost: never two jobs under one launch id, never two trainers, and the journal says which.
Long: ``SOAK=1`` runs them (``tests/platforms/slurm/test_acting.py`` is what always runs).
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import RELAUNCH, Answer, ended, kill
from tests.e2e.slurm_lab import SlurmLab, SlurmMachine, check_slurm, slurm_of_ones_own
from tests.platforms.slurm.rig import Rig, lacking

SOAK = bool(os.environ.get("SOAK"))
ROUNDS = int(os.environ.get("ROUNDS", "20" if SOAK else "1"))
SEED = int(os.environ.get("SEED", "7"))
APART = (0.0, 0.05, 0.2, 0.6, 1.2)
LOSING = """#!/bin/sh
/usr/bin/sbatch "$@" >/dev/null; exit {code}
"""

long = pytest.mark.skipif(not SOAK, reason="only in the long run: SOAK=1")
pytestmark = pytest.mark.skipif(
    lacking() is not None, reason=f"{lacking()} (CI installs it)" if lacking() else ""
)


@pytest.fixture
def rig() -> Iterator[Rig]:
    with slurm_of_ones_own() as made:
        yield made


@pytest.fixture
def lab(tmp_path: Path, rig: Rig) -> Iterator[SlurmLab]:
    made = SlurmLab(tmp_path, rig)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def two(lab: SlurmLab) -> tuple[SlurmMachine, SlurmMachine]:
    """Two stores over one output root, after a job that was killed."""
    here, there = lab.machine("a"), lab.machine("b")
    lab.prepare(here)
    there.write()
    return here, there


def settled(lab: SlurmLab, machine: SlurmMachine) -> Answer:
    """See that the next relaunch settles what was left: it works, or one job lives already."""
    alive = len(lab.settled())
    assert alive <= 1, lab.jobs()
    answer = machine.do(*RELAUNCH)
    assert answer.code == (4 if alive else 0), f"{alive} lived: {answer}"
    assert len(lab.settled()) == 1
    return answer


@long
def test_two_stores_relaunch_at_once(
    lab: SlurmLab, two: tuple[SlurmMachine, SlurmMachine], chance: random.Random
) -> None:
    """One wins, the other is refused with a line that says why."""
    for _ in range(ROUNDS):
        begun = []
        for machine in two:
            begun.append(machine.begin(*RELAUNCH))
            time.sleep(chance.random() * chance.choice(APART))
        answers = [ended(each) for each in begun]
        assert sorted(each.code for each in answers) == [0, 4], "\n".join(map(str, answers))
        check_slurm(lab, *two)
        assert len(lab.trainers) == 1
        lab.die()


@long
def test_a_relaunch_is_killed_at_any_instant(
    lab: SlurmLab, two: tuple[SlurmMachine, SlurmMachine], chance: random.Random
) -> None:
    for _ in range(ROUNDS):
        process = two[0].begin(*RELAUNCH)
        time.sleep(chance.uniform(0.5, 5.0))
        kill(process.pid, chance.choice((signal.SIGKILL, signal.SIGTERM)))
        ended(process)
        settled(lab, two[0])
        check_slurm(lab, *two)
        lab.die()


@long
def test_the_controller_hangs_for_a_while(
    lab: SlurmLab, two: tuple[SlurmMachine, SlurmMachine], chance: random.Random
) -> None:
    """It is stopped at any instant of a relaunch; what it was told meanwhile it does afterwards."""
    for _ in range(ROUNDS):
        process = two[0].begin(*RELAUNCH)
        time.sleep(chance.uniform(0.5, 4.0))
        lab.rig.stop()
        timer = threading.Timer(chance.choice((0.3, 1.0, 3.0, 8.0, 20.0)), lab.rig.resume)
        timer.start()
        answer = ended(process)
        timer.join()
        assert answer.code in (0, 1, 4, 5, 6), str(answer)
        lab.rig.wait_answers()
        settled(lab, two[0])
        check_slurm(lab, *two, held=99)
        _no_held_one_runs(lab)
        lab.die()


@long
@pytest.mark.parametrize("code", [0, 1])
def test_the_answer_of_sbatch_is_lost(
    lab: SlurmLab, two: tuple[SlurmMachine, SlurmMachine], code: int
) -> None:
    for machine in two:
        (machine.folder / "bin").mkdir()
        (machine.folder / "bin" / "sbatch").write_text(LOSING.format(code=code))
        (machine.folder / "bin" / "sbatch").chmod(0o700)
        answer = machine.do(*RELAUNCH)
        assert answer.code != 0, str(answer)
        assert not lab.trainers, str(answer)
        (machine.folder / "bin" / "sbatch").unlink()
    settled(lab, two[0])
    check_slurm(lab, *two, held=2)
    _no_held_one_runs(lab)


@long
def test_a_stop_while_the_controller_hangs(
    lab: SlurmLab, two: tuple[SlurmMachine, SlurmMachine], chance: random.Random
) -> None:
    for _ in range(ROUNDS):
        assert two[0].do(*RELAUNCH).code == 0
        lab.settled()
        process = two[0].begin("stop", "--confirm", two[0].words("stop"))
        time.sleep(chance.uniform(0.5, 4.0))
        lab.rig.stop()
        timer = threading.Timer(chance.choice((0.3, 3.0, 12.0)), lab.rig.resume)
        timer.start()
        answer = ended(process, 200)
        timer.join()
        lab.rig.wait_answers()
        assert answer.code in (0, 1, 4, 5), str(answer)
        assert len(lab.settled()) == int(answer.code in (1, 4)), str(answer)
        check_slurm(lab, *two)
        lab.die()


def _no_held_one_runs(lab: SlurmLab) -> None:
    for job in lab.held():
        assert "NodeList= " in lab.rig.told("scontrol", "-o", "show", "job", job)
