"""Which processes are no jobs: a supervisor is known by its file wherever that ever was."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.platforms.local.census import Process
from cockpit.platforms.local.launcher import detached
from cockpit.platforms.local.programs import is_supervisor

HERE = Path(detached.__file__).with_name("supervisor.py")


@pytest.mark.parametrize(
    ("program", "supervises"),
    [
        (str(HERE), True),
        ("/old/site-packages/cockpit/launch/supervisor.py", True),
        ("/home/ada/supervisor.py", False),
    ],
)
def test_a_supervisor_is_known_by_its_file(program: str, supervises: bool) -> None:
    argv = ("/usr/bin/python3", "-S", "-P", program, "--log", "run.log")
    process = Process(
        pid=7, ppid=1, pgid=7, sid=7, uid=0, state="S", ticks=1, argv=argv, env=None, cwd=None
    )
    assert is_supervisor(process) is supervises
