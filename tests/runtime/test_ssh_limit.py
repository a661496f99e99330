"""What limits a command on a host: its status, its input, and that nothing of it is left."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cockpit.runtime.ssh import LIMITED, TIMED_OUT

FALLBACK = LIMITED.replace("timeout", "no-such-program")
SHELLS = [shell for shell in ("dash", "bash", "busybox", "ksh") if shutil.which(shell)]


def ran(shell: str, script: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [shell, "sh", "-c", script] if shell == "busybox" else [shell, "-c", script]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=20.0)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("how", [LIMITED, FALLBACK], ids=["timeout", "without"])
class TestLimited:
    def test_a_commands_status_output_and_input_are_its_own(self, how: str, shell: str) -> None:
        done = ran(shell, f"{how}limited 5 sh -c 'cat; echo no >&2; exit 3'; echo $?", "given\n")
        assert (done.stdout, done.stderr) == ("given\n3\n", "no\n")

    def test_in_the_middle_of_a_pipe(self, how: str, shell: str) -> None:
        done = ran(shell, f"{how}echo a | limited 5 tr a b | {{ read x; echo $x; }}")
        assert done.stdout == "b\n"

    def test_what_was_said_is_had_at_once(self, how: str, shell: str) -> None:
        script = f'{how}s=$(limited 9 sh -c "echo out; echo err >&2" 2>&1); echo "$s"'
        assert ran(shell, script).stdout == "out\nerr\n"  # else ran() gives up, or waits 9 s

    def test_one_that_hangs_is_ended_with_all_that_it_started(
        self, how: str, shell: str, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "pipe")
        hangs = f"sh -c 'cat {tmp_path}/pipe; :'"
        done = ran(shell, f"{how}s=$(limited 0.3 {hangs} 2>/dev/null); echo $?; echo on")
        assert done.stdout == f"{TIMED_OUT}\non\n"
        left = ["pgrep", "-f", f"cat {tmp_path}/pipe"]
        assert subprocess.run(left, capture_output=True, text=True).stdout == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_none_goes_on_from_where_its_child_was_ended(shell: str, tmp_path: Path) -> None:
    """Whoever kills is slow here: what waits for the child would otherwise end well meanwhile."""
    os.mkfifo(tmp_path / "pipe")
    slow = FALLBACK.replace('kill -9 "$1"', 'kill -9 "$1"; sleep 0.2')
    hangs = f"sh -c 'cat {tmp_path}/pipe; touch {tmp_path}/on'"
    done = ran(shell, f"{slow}limited 0.3 {hangs}; echo $?")
    assert done.stdout == f"{TIMED_OUT}\n"
    assert not (tmp_path / "on").exists()
