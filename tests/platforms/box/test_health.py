"""The health of a host: a real one, and what others have been seen to answer."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, JobValue, Phase
from cockpit.platforms.box import health, words
from cockpit.platforms.box.disks import told_of
from cockpit.platforms.box.machine import Host, host_of, screens, sections, sessions
from cockpit.platforms.box.probe import Actor
from cockpit.platforms.local.belonging import Files
from cockpit.platforms.local.host import GpuLook, each_once
from tests.platforms.box.conftest import MakeRun, Start
from tests.sshd import needs_sshd


@needs_sshd
def test_a_real_host_tells_its_disks_memory_and_load(
    run_of: MakeRun, start: Start, tmp_path: Path
) -> None:
    pid = start("sleep", "60")
    run = run_of("a", root=tmp_path / "not" / "yet", log="~/train.log")
    job = JobValue(id=f"pid:{pid}", state="running", phase=Phase.RUNNING)
    hosts = health.BoxHosts(SystemClock(), Actor)
    assert run.job is not None and run.job.host is not None
    found = asyncio.run(hosts.observe(run.job.host, [Query(run=run, job=job)]))["a"]
    value = found.value
    assert found.known and value is not None
    (disk,) = value.disks[:1]
    assert disk.free > 0 and 0 < disk.used_frac <= 1 and tmp_path.is_relative_to(disk.mount)
    assert value.load is not None and value.mem_frac is not None and 0 < value.mem_frac <= 1


PLAIN = "/dev/sda1 1000 400 500 45% /data\n\n/dev/sda1 100 90 10 90% /data\n"
DISKS = {
    PLAIN: Disk(mount="/data", free=500 * 1024, used_frac=400 / 900, inodes_frac=0.9),
    "//nas/my share 10 5 5 50% /mnt/my disk\n\n//nas/my share - - - - /mnt/my disk\n": Disk(
        mount="/mnt/my disk", free=5 * 1024, used_frac=0.5, shared="//nas/my share"
    ),
    "overlay 10 10 0 100% /\n\noverlay 0 0 0 - /\n": Disk(
        mount="/", free=0, used_frac=1.0, inodes_frac=None
    ),
}


@pytest.mark.parametrize("said", DISKS)
def test_what_df_says(said: str) -> None:
    assert told_of(said.encode(), 1) == [DISKS[said]]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("df: /x: Permission denied\n", ErrorKind.PERMISSION),
        ("", ErrorKind.BAD_ANSWER),
        ("df: no file systems processed\n", ErrorKind.BAD_ANSWER),
        ("<html>\x1b[2J</html>", ErrorKind.BAD_ANSWER),
    ],
)
def test_what_is_no_disk_says_why(said: str, kind: ErrorKind) -> None:
    (found,) = told_of(said.encode(), 1)
    assert isinstance(found, Problem) and found.kind is kind and found.message.isprintable()


def test_a_line_that_lacks_makes_all_of_its_group_doubtful() -> None:
    found = told_of(PLAIN.encode(), 2)
    assert len(found) == 2 and all(isinstance(each, Problem) for each in found)


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


def test_memory_of_both_generations_of_cgroups() -> None:
    new = health._memory(V2.encode())
    assert new is not None
    assert new.around(7) == (0.9, 3)
    frac, kills = new.around(None)
    assert frac == pytest.approx(0.1) and kills is None
    old = health._memory(V1.encode())
    assert old is not None
    assert old.around(None) == (0.4, 1)


def test_a_clock_is_off_only_beyond_what_the_trip_can_explain() -> None:
    def ahead(now: int, sent: float = 9000.0, got: float = 9004.0) -> float:
        return Host(sent, got, {"now": str(now)}, {}, Files(Path("/nowhere"), 0)).ahead

    assert [ahead(now) for now in (8998, 8999, 9000, 9004, 9005)] == [0.0] * 5
    assert (ahead(12604), ahead(5399)) == (3600.0, -3600.0)


def test_a_host_an_hour_ahead_is_told_by_our_clock() -> None:
    about = b"self 1\nnow 8600\nuid 0\nhz 100\nbtime 1000\n"
    told = {
        words.ABOUT.name: about,
        words.STATS.name: b"7 S 1 7 7 600000\nnonsense\n8 S x 7 7 1\n",
        words.ARGV.name: b"==> /proc/7/cmdline <==\npython\0train.py\0",
    }
    host = host_of(told, 5000.0, 5000.0)
    assert host is not None and list(host.processes) == [7]
    assert host.processes[7].argv == ("python", "train.py")
    assert host.started_at(host.processes[7]) == 7000.0
    assert host.ours(7000.0) == 3400.0
    assert host_of({words.STATS.name: b"\xff\xfe<html>"}, 0.0, 0.0) is None


def test_what_tmux_and_screen_say() -> None:
    found = sessions(b"1795349751|19119|0|||a|b\n1|2|1|7||dead\n1|3|1||9|x\nno server running\n")
    assert found is not None
    assert [(each.name, each.pid, each.dead, each.status) for each in found] == [
        ("a|b", 19119, False, None),
        ("dead", 2, True, 7),
        ("x", 3, True, -9),
    ]
    assert sessions(b"!absent\n") is None
    assert sessions(b"error connecting to /tmp/tmux-0/default (No such file or directory)\n") == []
    text = "There are screens on:\n\t12.train\t(Detached)\n\t13.old\t(Dead ???)\n1 Socket in /x.\n"
    assert [each.name for each in screens(text.encode()) or ()] == ["train"]
    dated = "\t7.a b\t(11/22/26 15:42:56)\t(Attached)\n\t8.old\t(11/22/26 15:42:56)\t(Dead ???)\n"
    assert [(each.name, each.pid) for each in screens(dated.encode()) or ()] == [("a b", 7)]


def test_files_that_head_printed() -> None:
    out = b"==> /a <==\nx\n\n==> /b <==\n\n==> /c <==\n\0y"
    assert sections(out) == {"/a": b"x\n", "/b": b"", "/c": b"\0y"}
    assert sections(b"") == {}


def test_the_disk_of_many_places_is_one() -> None:
    """A host of hundreds of runs has few disks: they are not made anew for each place."""
    sizes = ["/dev/vda1 100 60 40 60% /", "nas:/export 200 10 190 5% /home"] * 16
    inodes = ["/dev/vda1 1000 1 999 1% /", "nas:/export 0 0 0 - /home"] * 16
    told = told_of(("\n".join(sizes) + "\n\n" + "\n".join(inodes) + "\n").encode(), 32)
    assert len(told) == 32 and len({id(each) for each in told}) == 2
    assert [each.mount for each in told[:3] if isinstance(each, Disk)] == ["/", "/home", "/"]
    assert [each.inodes_frac for each in told[:2] if isinstance(each, Disk)] == [0.001, None]
    lines = "\n".join(sizes[:2]) + "\n\n" + "\n".join([inodes[0], inodes[1].replace("0", "7")])
    one, other = told_of(lines.encode(), 2)
    assert isinstance(one, Disk) and isinstance(other, Disk) and other.inodes_frac == 1.0


def test_a_disk_holds_all_places_of_a_run_that_lie_on_it() -> None:
    one, other = (Disk(mount=mount, free=5, used_frac=0.5) for mount in ("/", "/home"))
    found = each_once([("/a", one), ("/home/b", other), ("/c", one)])
    assert [(each.mount, each.holds) for each in found] == [
        ("/", ("/a", "/c")),
        ("/home", ("/home/b",)),
    ]


def test_what_a_failing_nvidia_smi_lists_and_says_comes_from_the_host(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, H100, 50, 1, 2'\necho GPU1 fell off >&2\nexit 255\n")
    tool.chmod(0o755)
    script = f"PATH={tmp_path}:$PATH\n{words.GPUS.script}"
    said = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    look = health._gpus(said)
    assert (len(look.gpus), look.lost) == (1, 0)
    assert look.error is not None and "GPU1 fell off" in look.error.message
    assert health._gpus(words.ABSENT.encode()) == GpuLook()
