"""At every named point of a relaunch here: stopped while another takes over, and its clock set.

``tests/e2e/test_crashes.py`` takes any instant; this one leaves none of the points out. Long:
``SOAK=1`` runs it; ``POINTS`` names some alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.lab import RELAUNCH, SOAK, Lab, Machine, check, ended, kill, until

PROGRAM = "tests.e2e.points"
ONLY = os.environ.get("POINTS", "").split()
TAKEN = ("--approve", "second-machine", "--by", "ada", "--reason", "its machine hangs")
JUMPS = ("+7200", "-7200")
pytestmark = pytest.mark.skipif(not SOAK, reason="only in the long run: SOAK=1")


@pytest.fixture
def machine(lab: Lab) -> Machine:
    made = lab.machine("a")
    lab.prepare(made)
    return made


def begin(machine: Machine, **fate: str) -> subprocess.Popen[str]:
    """Begin a relaunch that meets its fate at a point."""
    own, machine.program = machine.program, PROGRAM
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fate.items():
            patch.setenv(name, value)
        begun = machine.begin(*RELAUNCH)
    machine.program = own
    return begun


def points(lab: Lab, machine: Machine) -> list[str]:
    """Return every point that an undisturbed relaunch passes."""
    passed = lab.folder / "passed"
    answer = ended(begin(machine, PASSED=str(passed)))
    assert answer.code == 0, str(answer)
    lab.die()
    found = list(dict.fromkeys(passed.read_text().split("\n")[:-1]))
    assert "submit:accepted" in found and "ended" in found
    return [each for each in found if not ONLY or each in ONLY]


def _stopped(process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, f"it never came there: {ended(process)}"
    return ") T " in Path(f"/proc/{process.pid}/stat").read_text()


def test_one_that_is_stopped_at_every_point_and_taken_over(lab: Lab, machine: Machine) -> None:
    other = lab.machine("b", machine.root)
    for point in points(lab, machine):
        process = begin(machine, POINT=point, FATE="halt")
        until(lambda now=process: _stopped(now), f"never came to {point}", 120.0)  # type: ignore[misc]
        lived = len(lab.settled())
        try:
            answer = other.do(*RELAUNCH, *TAKEN)
        finally:
            kill(process.pid, signal.SIGCONT)
        woken = ended(process)
        said = f"{point}, {lived} lived, taken over: {answer}\nwoken: {woken}"
        assert "Traceback" not in woken.err, said
        # The one that is stopped still lives on this machine: nobody takes its claim over.
        assert answer.code in (0, 4) and (lived or 0 in (answer.code, woken.code)), said
        assert len(lab.settled()) == 1, said
        check(lab, machine, other)
        print(point, lived, answer.code, woken.code, flush=True)
        lab.die()


@pytest.mark.parametrize("jump", JUMPS)
def test_the_clock_is_set_at_every_point(lab: Lab, machine: Machine, jump: str) -> None:
    for point in points(lab, machine):
        answer = ended(begin(machine, POINT=point, FATE=jump))
        alive = len(lab.settled())
        assert answer.code == (0 if alive else 4), f"{point}: {alive} live: {answer}"
        again = machine.do(*RELAUNCH)
        assert again.code == (4 if alive else 0), f"{point}: {again}"
        check(lab, machine)
        print(jump, point, answer.code, flush=True)
        lab.die()
