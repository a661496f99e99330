from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.actions.core.open_plans import OpenPlans
from cockpit.runtime.private_folder import machine_tag

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys, time
from pathlib import Path
from cockpit.actions.core.open_plans import OpenPlans
from cockpit.runtime.private_folder import machine_tag
held = OpenPlans(Path(sys.argv[1]), "/data/cockpit.toml").hold("relaunch", "run-a", 17.0)
print("held", flush=True)
time.sleep(60)
"""


def test_what_a_killed_cockpit_was_planning_is_left_once(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    plans = OpenPlans(tmp_path, "/data/cockpit.toml")
    assert plans.left() == []  # it lives
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert OpenPlans(tmp_path, "/data/other.toml").left() == []
    (found,) = plans.left()
    assert (found.note.action, found.note.run, found.note.at) == ("relaunch", "run-a", 17.0)
    assert plans.left() == []  # somebody is telling of it
    found.release()
    (again,) = plans.left()
    again.forget()
    assert plans.left() == [] and list(tmp_path.rglob("*.plan")) == []


def test_a_file_that_is_no_note_is_taken_away(tmp_path: Path) -> None:
    here = tmp_path / machine_tag()
    here.mkdir()
    (here / "torn.plan").write_text('{"file": "/data')
    assert OpenPlans(tmp_path, "/data/cockpit.toml").left() == []
    assert list(here.iterdir()) == []


def test_another_machine_s_lock_may_not_be_seen_so_its_plans_are_not_told_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = OpenPlans(tmp_path, "/data/cockpit.toml")
    plans.hold("relaunch", "run-a", 17.0).release()
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    assert OpenPlans(tmp_path, "/data/cockpit.toml").left() == []
    (found,) = plans.left()
    found.forget()
