"""A launch of a job that only sleeps. Dozens of processes start to try one: they need no pytest."""

from __future__ import annotations

import sys
from pathlib import Path

from cockpit.hosts.supervisor import Launch

PYTHON = (sys.executable, "-S", "-c")
SLEEP = "import time; time.sleep(60)"


def launch(folder: Path, *command: str, number: int = 1) -> Launch:
    return Launch(
        command=command or (*PYTHON, SLEEP),
        log=folder / "run.log",
        pid_file=folder / "run.pid",
        exit_file=folder / "run.exit",
        cwd=folder,
        launch_id=f"a-i{number:03d}",
        run="a",
        lineage="root:1,wandb:2",
        locks=(folder / "locks" / "root.lock", folder / "locks" / "wandb.lock"),
        launches=folder / "launches",
    )
