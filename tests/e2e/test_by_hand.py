"""A second trainer that was started by hand and names nothing of the run, beside a relaunch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.lab import WORDS, Lab


def test_a_relaunch_waits_for_a_person_where_the_script_runs_by_hand(tmp_path: Path) -> None:
    """The run file records ``bash launch.sh``; somebody starts what that calls."""
    lab = Lab(tmp_path)
    machine = lab.machine("a")
    lab.prepare(machine)
    words = [str(lab.trainer), str(machine.root), str(lab.lives), "1000000"]
    (lab.code / "train.py").write_text("import time\ntime.sleep(100)\n")
    (lab.code / "launch.sh").write_text(f"exec {sys.executable} -S train.py 2>&1\n")
    subprocess.run(["git", "-C", str(lab.code), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(lab.code), "commit", "-qm", "scripts"], check=True)
    text = machine.config.read_text()
    command = json.dumps([sys.executable, "-S", *words])
    assert command in text
    machine.config.write_text(text.replace(command, '["bash", "launch.sh"]'))
    hand = subprocess.Popen(
        [sys.executable, "-S", "train.py"], cwd=lab.code, stdout=subprocess.DEVNULL
    )
    try:
        answer = machine.do("relaunch", "--confirm", WORDS)
        assert answer.code == 4, str(answer)
        assert f"(pid:{hand.pid}) runs the same script as the run's job" in answer.out
    finally:
        hand.kill()
        hand.wait()
        lab.end()
