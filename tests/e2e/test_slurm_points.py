"""A kill, and a controller that hangs, at every named point of a relaunch and a stop on Slurm.

``tests/e2e/test_slurm.py`` takes any instant; this one leaves none of the points out. Long:
``SOAK=1`` runs it; ``POINTS`` names some alone.
"""

from __future__ import annotations

import os
import threading

import pytest

from tests.e2e.lab import RELAUNCH, SOAK, Answer, ended
from tests.e2e.slurm_lab import SlurmLab, SlurmMachine, check_slurm
from tests.platforms.slurm.rig import lacking

HANGS = 7.0
PROGRAM = "tests.e2e.points"
ONLY = os.environ.get("POINTS", "").split()
pytestmark = pytest.mark.skipif(
    not SOAK or lacking() is not None, reason="only in the long run: SOAK=1, and with a Slurm"
)


@pytest.fixture
def lab(slurm_lab: SlurmLab) -> SlurmLab:
    return slurm_lab


@pytest.fixture
def machine(lab: SlurmLab) -> SlurmMachine:
    made = lab.machine("a")
    lab.prepare(made)
    return made


class Fated:
    """Runs commands to which something happens at a point."""

    def __init__(self, lab: SlurmLab, machine: SlurmMachine, patch: pytest.MonkeyPatch) -> None:
        self.lab, self.machine, self.patch = lab, machine, patch

    def points(self, *words: str) -> list[str]:
        """Return every point that an undisturbed command passes."""
        passed = self.lab.folder / "passed"
        passed.unlink(missing_ok=True)
        self.patch.setenv("PASSED", str(passed))
        answer = self._did(*words)
        self.patch.delenv("PASSED")
        assert answer.code == 0, str(answer)
        found = list(dict.fromkeys(passed.read_text().split("\n")[:-1]))
        assert "ended" in found
        return [each for each in found if not ONLY or each in ONLY]

    def killed(self, point: str, *words: str) -> Answer:
        self.patch.setenv("POINT", point)
        self.patch.setenv("FATE", "kill")
        answer = self._did(*words)
        assert answer.code == -9, f"{point}: {answer}"
        return answer

    def hung(self, point: str, *words: str) -> Answer:
        """Stop the controller at the point, for a while."""
        self.patch.setenv("POINT", point)
        self.patch.setenv("FATE", str(self.lab.rig.controller))
        self.patch.setenv("PASSED", str(self.lab.folder / "hung"))
        timer = threading.Timer(HANGS + 8.0, self.lab.rig.resume)
        timer.start()
        answer = self._did(*words)
        self.lab.rig.resume()
        timer.cancel()
        self.patch.delenv("PASSED")
        self.lab.rig.wait_answers()
        return answer

    def _did(self, *words: str) -> Answer:
        own, self.machine.program = self.machine.program, PROGRAM
        try:
            return ended(self.machine.begin(*words), 200)
        finally:
            self.machine.program = own
            self.patch.delenv("POINT", raising=False)


@pytest.fixture
def fated(lab: SlurmLab, machine: SlurmMachine, monkeypatch: pytest.MonkeyPatch) -> Fated:
    return Fated(lab, machine, monkeypatch)


def next_one(lab: SlurmLab, machine: SlurmMachine, point: str) -> None:
    """See that the next relaunch settles what was left, and what is written down is so."""
    alive = len(lab.settled())
    answer = machine.do(*RELAUNCH)
    assert answer.code == (4 if alive else 0), f"{point}: {alive} lived: {answer}"
    assert len(lab.settled()) == 1, point
    check_slurm(lab, machine, held=0)


def test_a_relaunch_is_killed_at_every_point(
    lab: SlurmLab, machine: SlurmMachine, fated: Fated
) -> None:
    for point in fated.points(*RELAUNCH):
        lab.die()
        fated.killed(point, *RELAUNCH)
        next_one(lab, machine, point)


def test_the_controller_hangs_at_every_point_of_a_relaunch(
    lab: SlurmLab, machine: SlurmMachine, fated: Fated
) -> None:
    for point in fated.points(*RELAUNCH):
        lab.die()
        answer = fated.hung(point, *RELAUNCH)
        assert answer.code in (0, 1, 4, 5, 6), f"{point}: {answer}"
        next_one(lab, machine, point)


def stop_of(machine: SlurmMachine) -> tuple[str, ...]:
    return ("stop", "--confirm", machine.words("stop"))


@pytest.mark.parametrize("fate", ["killed", "hung"])
def test_a_stop_at_every_point(
    lab: SlurmLab, machine: SlurmMachine, fated: Fated, fate: str
) -> None:
    assert machine.do(*RELAUNCH).code == 0
    lab.settled()
    for point in fated.points(*stop_of(machine)):
        if not lab.settled():
            assert machine.do(*RELAUNCH).code == 0, point
            lab.settled()
        answer = getattr(fated, fate)(point, *stop_of(machine))
        alive = len(lab.settled())
        if fate == "hung":
            assert (answer.code == 0) == (not alive), f"{point}: {alive} live: {answer}"
        if alive:
            again = machine.do(*stop_of(machine))
            assert again.code == 0, f"{point}: {again}"
        assert not lab.settled(), point
        next_one(lab, machine, point)
        print(fate, point, answer.code, alive, flush=True)
