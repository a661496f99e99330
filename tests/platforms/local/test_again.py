"""The loops above many jobs of one look: what they have in common is looked at once."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from cockpit.platforms.local import family
from cockpit.platforms.local.census import Census, Process, children
from cockpit.platforms.local.family import Known, starts_again

LOOP = ("sh", "-c", "while true; do launch.sh all; sleep 9; done")
PLAIN = ("sh", "-c", "launch.sh all")
JOBS = (12, 13, 14)


def processes(above: tuple[str, ...]) -> Census:
    """Three jobs of one script, below another shell."""
    argvs = {10: above, 11: ("sh", "launch.sh"), **{pid: ("train", str(pid)) for pid in JOBS}}
    return {
        pid: Process(
            pid=pid, ppid=11 if pid in JOBS else pid - 1, pgid=pid, sid=10, uid=0, state="S",
            ticks=pid, argv=argv, env=b"", cwd="/",
        )
        for pid, argv in argvs.items()
    }  # fmt: skip


@pytest.mark.parametrize(("above", "loops"), [(LOOP, 1), (PLAIN, 0)])
def test_jobs_beside_one_another_have_the_same_found_above_them(
    monkeypatch: pytest.MonkeyPatch, above: tuple[str, ...], loops: int
) -> None:
    around = processes(above)
    started, known = children(around), Known()
    alone = [starts_again(around, pid, started, here=False) for pid in JOBS]
    assert [len(each) for each in alone] == [loops] * len(JOBS)
    asked = Mock(wraps=family._loops)
    monkeypatch.setattr(family, "_loops", asked)
    assert alone == [starts_again(around, pid, started, here=False, known=known) for pid in JOBS]
    shells = [call.args[0].pid for call in asked.call_args_list]
    assert shells.count(10) == 1 and shells.count(11) == len(JOBS)
