"""The health of a host: a real one, and what others have been seen to answer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from cockpit.hosts.link import link_to
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, JobValue, Phase
from cockpit.platforms.box import health
from cockpit.platforms.box.machine import disk_of, screens, sessions
from cockpit.platforms.local.belonging import Files
from cockpit.platforms.local.host import GpuLook, each_once
from cockpit.platforms.local.sight import Sight, sight_of
from tests.platforms.box.conftest import MakeRun, Start
from tests.platforms.box.making import Here
from tests.sshd import needs_sshd


@needs_sshd
def test_a_real_host_tells_its_disks_memory_and_load(
    run_of: MakeRun, start: Start, tmp_path: Path
) -> None:
    pid = start("sleep", "60")
    run = run_of("a", root=tmp_path / "not" / "yet", log="~/train.log")
    job = JobValue(id=f"pid:{pid}", state="running", phase=Phase.RUNNING)
    hosts = health.BoxHosts(SystemClock(), link_to)
    assert run.job is not None and run.job.host is not None
    found = asyncio.run(hosts.observe(run.job.host, [Query(run=run, job=job)]))["a"]
    value = found.value
    assert found.known and value is not None
    (disk,) = value.disks[:1]
    assert disk.free > 0 and 0 < disk.used_frac <= 1 and tmp_path.is_relative_to(disk.mount)
    assert value.load is not None and value.mem_frac is not None and 0 < value.mem_frac <= 1


FIGURES = {
    "mount": "/data", "source": "/dev/sda1", "free": 500, "used": 400,
    "inodes": 100, "inodes_free": 10,
}  # fmt: skip
DISKS: list[tuple[dict[str, object], Disk]] = [
    ({}, Disk(mount="/data", free=500, used_frac=400 / 900, inodes_frac=0.9)),
    (
        {"mount": "/mnt/my disk", "source": "//nas/my share", "inodes": 0},
        Disk(mount="/mnt/my disk", free=500, used_frac=400 / 900, shared="//nas/my share"),
    ),
    ({"free": 0, "used": 0}, Disk(mount="/data", free=0, used_frac=1.0, inodes_frac=0.9)),
]


@pytest.mark.parametrize(("figures", "disk"), DISKS)
def test_a_disk_by_its_figures(figures: dict[str, object], disk: Disk) -> None:
    assert disk_of({**FIGURES, **figures}) == disk


V2 = """\
==> /proc/meminfo <==
MemTotal:       1000 kB
MemAvailable:    900 kB

==> /proc/self/cgroup <==
0::/user.slice

==> /proc/7/cgroup <==
0::/user.slice/job.scope

==> /sys/fs/cgroup/user.slice/job.scope/memory.max <==
1000

==> /sys/fs/cgroup/user.slice/job.scope/memory.current <==
950

==> /sys/fs/cgroup/user.slice/job.scope/memory.stat <==
anon 1
inactive_file 50

==> /sys/fs/cgroup/user.slice/job.scope/memory.events <==
low 0
oom_kill 3
"""
V1 = """\
==> /proc/self/cgroup <==
5:memory:/docker/x
0::/docker/x

==> /sys/fs/cgroup/memory/memory.limit_in_bytes <==
2000

==> /sys/fs/cgroup/memory/memory.usage_in_bytes <==
1000

==> /sys/fs/cgroup/memory/memory.stat <==
total_inactive_file 200

==> /sys/fs/cgroup/memory/memory.oom_control <==
oom_kill_disable 0
oom_kill 1
"""


def texts(printed: str) -> dict[str, str]:
    """Return files as ``head`` prints them, by path."""
    parts = re.split(r"(?m)^==> (.*) <==\n", printed)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_memory_of_both_generations_of_cgroups() -> None:
    new = health._memory(texts(V2))
    assert new is not None
    assert new.around(7) == (0.9, 3)
    frac, kills = new.around(None)
    assert frac == pytest.approx(0.1) and kills is None
    old = health._memory(texts(V1))
    assert old is not None
    assert old.around(None) == (0.4, 1)


def test_a_clock_is_off_only_beyond_what_the_trip_can_explain() -> None:
    def ahead(now: float, sent: float = 9000.0, got: float = 9004.0) -> float:
        about = {"now": now}
        return Sight(about, {}, Files(Path("/nowhere"), 0), set(), None, sent, got).ahead

    assert [ahead(now) for now in (8998, 8999, 9000, 9004, 9006)] == [0.0] * 5
    assert (ahead(12604), ahead(5400)) == (3600.0, -3600.0)


def test_a_host_an_hour_ahead_is_told_by_our_clock() -> None:
    about = {"pid": 1, "now": 8600.0, "uid": 0, "hz": 100, "btime": 1000}
    listed = [[7, 1, 7, 7, 0, "S", 600000, ["python", "train.py"], "/", None, []]]
    host = sight_of(about, listed, None, 5000.0, 5000.0)
    assert host.processes[7].argv == ("python", "train.py")
    assert host.started_at(host.processes[7]) == 7000.0
    assert host.ours(7000.0) == 3400.0


def test_what_tmux_and_screen_say() -> None:
    found = sessions("1795349751|19119|0|||a|b\n1|2|1|7||dead\n1|3|1||9|x\nno server running\n")
    assert [(each.name, each.pid, each.dead, each.status) for each in found] == [
        ("a|b", 19119, False, None),
        ("dead", 2, True, 7),
        ("x", 3, True, -9),
    ]
    assert sessions("error connecting to /tmp/tmux-0/default (No such file or directory)\n") == []
    text = "There are screens on:\n\t12.train\t(Detached)\n\t13.old\t(Dead ???)\n1 Socket in /x.\n"
    assert [each.name for each in screens(text)] == ["train"]
    dated = "\t7.a b\t(11/22/26 15:42:56)\t(Attached)\n\t8.old\t(11/22/26 15:42:56)\t(Dead ???)\n"
    assert [(each.name, each.pid) for each in screens(dated)] == [("a b", 7)]


def test_a_disk_holds_all_places_of_a_run_that_lie_on_it() -> None:
    one, other = (Disk(mount=mount, free=5, used_frac=0.5) for mount in ("/", "/home"))
    found = each_once([("/a", one), ("/home/b", other), ("/c", one)])
    assert [(each.mount, each.holds) for each in found] == [
        ("/", ("/a", "/c")),
        ("/home", ("/home/b",)),
    ]


def test_what_a_failing_nvidia_smi_lists_and_says_comes_from_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, H100, 50, 1, 2'\necho GPU1 fell off >&2\nexit 255\n")
    tool.chmod(0o755)
    link = Here()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    look = health._gpus(asyncio.run(link.ask([health.GPUS]))[health.GPUS])
    assert (len(look.gpus), look.lost) == (1, 0)
    assert look.error is not None and "GPU1 fell off" in look.error.message
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert health._gpus(asyncio.run(link.ask([health.GPUS]))[health.GPUS]) == GpuLook()
