from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import agent
from cockpit.hosts.here import HERE_LINK
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, Gpu, HostValue, JobValue, Phase
from cockpit.model.place import HERE
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec
from cockpit.platforms.local import host as health
from cockpit.platforms.local.host import (
    GPUS,
    GpuLook,
    HostHealth,
    MemoryLook,
    disk_of,
    each_once,
    gpu_look,
)
from tests.platforms.box.making import Here
from tests.platforms.conftest import Host
from tests.queries import queries_of

GIB = 2**30


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = {
    "proc/self/cgroup": "0::/jobs/a\n",
    "sys/fs/cgroup/jobs/memory.max": f"{4 * GIB}\n",
    "sys/fs/cgroup/jobs/memory.current": f"{3 * GIB}\n",
    "sys/fs/cgroup/jobs/memory.stat": f"anon 5\ninactive_file {GIB}\n",
    "sys/fs/cgroup/jobs/memory.events": "low 0\noom 9\noom_kill 8\n",
    "sys/fs/cgroup/jobs/a/memory.max": "max\n",
    "sys/fs/cgroup/jobs/a/memory.current": "5\n",
    "sys/fs/cgroup/jobs/a/memory.events": "low 0\nhigh 0\nmax 0\noom 3\noom_kill 2\n",
    "sys/fs/cgroup/cgroup.procs": "",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/box\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "77\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{2 * GIB}\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{2 * GIB}\n",
    "sys/fs/cgroup/memory/box/memory.stat": f"cache 1\ntotal_inactive_file {GIB}\n",
    "sys/fs/cgroup/memory/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
}
MACHINE = {
    "proc/self/cgroup": "0::/\n",
    "proc/meminfo": "MemTotal:    1000 kB\nMemFree:  10 kB\nMemAvailable:   400 kB\n",
    "proc/vmstat": "nr_free_pages 5\noom_kill 4\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder from which the kernel's files are read."""
    monkeypatch.setattr(agent, "PROC", f"{tmp_path}/proc")
    monkeypatch.setattr(agent, "CGROUP", f"{tmp_path}/sys/fs/cgroup")
    return tmp_path


def memory(root: Path, *pids: int) -> MemoryLook:
    texts = agent.memory(pids)
    return MemoryLook({path.removeprefix(str(root)): text for path, text in texts.items()})


def test_cgroup_v2_takes_the_tightest_limit_above(root: Path) -> None:
    assert memory(tree(root, V2)).around(None) == (0.5, 2)


def test_cgroup_v1_without_droppable_caches(root: Path) -> None:
    assert memory(tree(root, V1)).around(None) == (0.5, 7)


def test_without_a_limit_the_machine_counts(root: Path) -> None:
    assert memory(tree(root, MACHINE)).around(None) == (0.6, 4)


def test_inside_a_container_the_path_is_not_there(root: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/../../outside\n",
        "sys/fs/cgroup/memory.max": "100\n",
        "sys/fs/cgroup/memory.current": "95\n",
    }
    assert memory(tree(root, files)).around(None) == (0.95, None)


def test_the_job_s_own_group_is_read(root: Path) -> None:
    tree(root, MACHINE | {"proc/77/cgroup": "0::/job\n"})
    tree(root, {f"sys/fs/cgroup/job/memory.{name}": "10\n" for name in ("max", "current")})
    assert memory(root, 77, 78).around(77).frac == 1.0
    assert memory(root, 77, 78).around(78).frac == 0.6


def test_nothing_known(root: Path) -> None:
    assert memory(root).around(None) == (None, None)


def test_a_disk_before_its_folder_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, ask = os.statvfs(tmp_path), os.statvfs  # once: others write to this disk meanwhile
    known = {str(tmp_path): figures}
    monkeypatch.setattr(os, "statvfs", lambda path: known.get(path) or ask(path))
    disk = disk_of(agent.disk(str(tmp_path / "not" / "yet")))
    assert disk == disk_of(agent.disk(str(tmp_path)))
    assert disk.free == figures.f_bavail * figures.f_frsize
    assert 0 <= disk.used_frac <= 1 and os.path.ismount(disk.mount)


def test_a_filled_disk_is_told_apart() -> None:
    if not Path("/dev/shm").is_mount():
        pytest.skip("no second file system here")
    assert disk_of(agent.disk("/dev/shm/run")).mount == "/dev/shm"


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


def test_a_disk_holds_all_places_of_a_run_that_lie_on_it() -> None:
    one, other = (Disk(mount=mount, free=5, used_frac=0.5) for mount in ("/", "/home"))
    found = each_once([("/a", one), ("/home/b", other), ("/c", one)])
    assert [(each.mount, each.holds) for each in found] == [
        ("/", ("/a", "/c")),
        ("/home", ("/home/b",)),
    ]


async def read_gpus() -> GpuLook:
    return gpu_look((await HERE_LINK.ask([GPUS]))[GPUS])


def smi(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def test_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "0, NVIDIA H100 80GB HBM3, 97, 40000, 80000\n1, Odd, name, [N/A], [N/A], 16384\nnoise\n"
    (tmp_path / "rows").write_text(rows)
    smi(tmp_path, f'case "$*" in *csv,noheader,nounits) cat {tmp_path}/rows;; esac', monkeypatch)
    look = await read_gpus()
    assert (look.lost, look.error) == (0, None)
    assert look.gpus == (
        Gpu(index=0, name="NVIDIA H100 80GB HBM3", util_frac=0.97, mem_frac=0.5),
        Gpu(index=1, name="Odd, name", util_frac=None, mem_frac=None),
    )


TWO = "0, NVIDIA H100, 50, 1000, 2000\n1, NVIDIA H100, 50, 1000, 2000"
DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
HANDLE = "Unable to determine the device handle for GPU2: 0000:BA:00.0: Unknown Error"


@pytest.mark.parametrize(
    ("said", "status", "listed", "lost", "words"),
    [
        (f"{TWO}\n{HANDLE}", 255, 2, 1, HANDLE),
        (f"{TWO}\n2, NVIDIA H100, [GPU is lost], [GPU is lost], [GPU is lost]", 0, 2, 1, "is lost"),
        (DRIVER, 9, 0, 0, DRIVER),
        ("No devices were found", 6, 0, 0, "No devices were found"),
        (f"{TWO}\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0", 14, 2, 0, "infoROM"),
        ("", 15, 0, 0, "exit status 15"),
    ],
)
async def test_what_a_failing_driver_says_is_kept_beside_what_it_lists(
    said: str, status: int, listed: int, lost: int, words: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "said").write_text(said)
    smi(tmp_path, f"cat {tmp_path}/said; exit {status}", monkeypatch)
    look = await read_gpus()
    assert (len(look.gpus), look.lost) == (listed, lost)
    assert look.error is not None
    assert words in look.error.message


async def test_no_driver_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await read_gpus() == GpuLook()


def run_in(folder: Path) -> RunSpec:
    return RunSpec(
        name="a",
        output_root=str(folder),
        job=JobSpec(kind="local", log=str(folder / "log"), pid_file=str(folder / "pid")),
        checkpoints=CheckpointSpec(path=(str(folder / "c"), "gs://bucket/run")),
    )


async def facet_of(run: RunSpec, **more: Any) -> Facet[HostValue]:
    asked = HostHealth(SystemClock(), lambda _: HERE_LINK)
    return (await asked.observe(HERE, [Query(run=run, **more)]))[run.name]


async def test_a_local_run(tmp_path: Path) -> None:
    facet = await facet_of(run_in(tmp_path))
    assert facet.value is not None and facet.error is None
    assert [disk.mount for disk in facet.value.disks] == [agent.disk(str(tmp_path))["mount"]]
    assert facet.value.disks[0].holds == tuple(str(tmp_path / name) for name in ("", "c", "log"))
    assert (await facet_of(RunSpec(name="a", job=JobSpec(kind="local")))).known


async def test_the_disks_memory_and_load_of_a_run(host: Host, tmp_path: Path) -> None:
    run, job = host.spec(), JobValue(id=f"pid:{os.getpid()}", state="x", phase=Phase.RUNNING)
    facet = (await host.platform.hosts([Query(run=run, job=job)]))[run.name]
    value = facet.value
    assert facet.known and value is not None
    (disk,) = value.disks
    assert disk.free > 0 and 0 < disk.used_frac <= 1 and tmp_path.is_relative_to(disk.mount)
    assert disk.holds == tuple(map(str, (run.output_root, run.job and run.job.log)))
    assert value.load is not None and value.load >= 0
    assert value.mem_frac is not None and 0 < value.mem_frac <= 1


async def test_a_disk_that_hangs_is_named_by_every_look_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, ask = threading.Event(), os.statvfs
    dead, good = run_in(tmp_path / "dead"), run_in(tmp_path / "good")
    runs = [dead, good.model_copy(update={"name": "b"})]

    def hanging(place: str) -> os.statvfs_result:
        if place.startswith(str(tmp_path / "dead")):
            answers.wait(60)
        return ask(place)

    hosts = HostHealth(SystemClock(), lambda _: HERE_LINK)
    monkeypatch.setattr(health, "PATIENCE", 1.0)
    monkeypatch.setattr(os, "statvfs", hanging)
    try:
        looks = [await hosts.observe(HERE, queries_of(runs)) for _ in range(2)]
    finally:
        answers.set()
    for look in looks:
        assert look["b"].known and look["a"].value is not None and not look["a"].value.disks
        assert look["a"].error is not None and look["a"].error.kind is ErrorKind.TIMEOUT
        assert look["a"].error.message.startswith(f"the disk of {tmp_path}/dead")
    monkeypatch.setattr(health, "PATIENCE", 60.0)
    assert (await hosts.observe(HERE, queries_of(runs)))["a"].known


async def test_a_disk_of_a_host_that_hangs_hides_no_other() -> None:
    link = Here()
    link.hangs = lambda each: "/mnt/dead" in each.arguments
    spec = RunSpec(
        name="dead", output_root="ssh://box/mnt/dead", job={"kind": "box", "host": "box"}
    )
    good = spec.model_copy(update={"name": "good", "output_root": None})
    found = await HostHealth(SystemClock(), lambda _: link).observe("box", queries_of([spec, good]))
    link.released.set()
    error = found["dead"].error
    assert error is not None and error.kind is ErrorKind.TIMEOUT and "/mnt/dead" in error.message
    assert found["good"].value is not None and found["good"].value.disks


def test_the_list_of_mounts_is_taken_apart_once(tmp_path: Path) -> None:
    agent.mounts.cache_clear()
    found = {agent.disk(str(tmp_path / name))["mount"] for name in "abc"}
    assert len(found) == 1 and agent.mounts.cache_info().misses == 1
