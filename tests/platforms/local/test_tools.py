"""Which processes are no jobs: a supervisor is known by its file wherever that ever was."""

from __future__ import annotations

import pytest

from cockpit.hosts import launches
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.programs import is_supervisor


@pytest.mark.parametrize(
    ("program", "supervises"),
    [
        (launches._BEGIN, True),
        ("/site-packages/cockpit/platforms/local/launcher/supervisor.py", True),
        ("/old/site-packages/cockpit/launch/supervisor.py", True),
        ("/home/ada/supervisor.py", False),
    ],
)
def test_a_supervisor_is_known_by_its_file(program: str, supervises: bool) -> None:
    argv = ("/usr/bin/python3", "-IS", "-Xutf8", "-c", program, "--log", "run.log")
    process = Process(
        pid=7, ppid=1, pgid=7, sid=7, uid=0, state="S", ticks=1, argv=argv, env=None, cwd=None
    )
    assert is_supervisor(process) is supervises
