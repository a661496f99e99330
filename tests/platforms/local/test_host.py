from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.observed import Gpu
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec
from cockpit.platforms.local import host
from cockpit.platforms.local.host import GpuLook, Hosts, MemoryHere, Mounts, read_disk, read_gpus
from cockpit.runtime.mounts import MOUNTS

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


def test_cgroup_v2_takes_the_tightest_limit_above(tmp_path: Path) -> None:
    assert MemoryHere(tree(tmp_path, V2)).around(None) == (0.5, 2)


def test_cgroup_v1_without_droppable_caches(tmp_path: Path) -> None:
    assert MemoryHere(tree(tmp_path, V1)).around(None) == (0.5, 7)


def test_without_a_limit_the_machine_counts(tmp_path: Path) -> None:
    assert MemoryHere(tree(tmp_path, MACHINE)).around(None) == (0.6, 4)


def test_inside_a_container_the_path_is_not_there(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/../../outside\n",
        "sys/fs/cgroup/memory.max": "100\n",
        "sys/fs/cgroup/memory.current": "95\n",
    }
    assert MemoryHere(tree(tmp_path, files)).around(None) == (0.95, None)


def test_the_job_s_own_group_is_read(tmp_path: Path) -> None:
    root = tree(tmp_path, MACHINE | {"proc/77/cgroup": "0::/job\n"})
    tree(root, {f"sys/fs/cgroup/job/memory.{name}": "10\n" for name in ("max", "current")})
    assert MemoryHere(root).around(77).frac == 1.0
    assert MemoryHere(root).around(78).frac == 0.6


def test_nothing_known(tmp_path: Path) -> None:
    assert MemoryHere(tmp_path).around(None) == (None, None)


def test_a_disk_before_its_folder_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = os.statvfs(tmp_path)  # once: others write to this disk between two readings
    monkeypatch.setattr(os, "statvfs", {str(tmp_path): figures}.__getitem__)
    disk = read_disk(str(tmp_path / "not" / "yet"))
    assert disk == read_disk(str(tmp_path))
    assert disk.free == figures.f_bavail * figures.f_frsize
    assert 0 <= disk.used_frac <= 1 and os.path.ismount(disk.mount)


def test_a_filled_disk_is_told_apart() -> None:
    if not Path("/dev/shm").is_mount():
        pytest.skip("no second file system here")
    assert read_disk("/dev/shm/run").mount == "/dev/shm"


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


async def test_a_local_run(tmp_path: Path) -> None:
    facet = (await Hosts(SystemClock()).observe([run_in(tmp_path)]))["a"]
    assert facet.value is not None and facet.error is None
    assert [disk.mount for disk in facet.value.disks] == [read_disk(str(tmp_path)).mount]
    assert facet.value.load is not None and facet.value.load >= 0
    assert facet.value.mem_frac is not None and 0 <= facet.value.mem_frac <= 1


async def test_memory_of_the_job_s_process(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", MACHINE | {"proc/77/cgroup": "0::/job\n"})
    tree(root, {f"sys/fs/cgroup/job/memory.{name}": "10\n" for name in ("max", "current")})
    (tmp_path / "pid").write_text("77\n")
    facet = (await Hosts(SystemClock(), root).observe([run_in(tmp_path)]))["a"]
    assert facet.value is not None and facet.value.mem_frac == 1.0


async def test_a_disk_that_hangs_is_named_by_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, ask = threading.Event(), os.statvfs

    def hanging(place: str) -> os.statvfs_result:
        answers.wait(60)
        return ask(place)

    hosts, run = Hosts(SystemClock()), run_in(tmp_path)
    monkeypatch.setattr(host, "DEADLINE", 0.2)
    monkeypatch.setattr(os, "statvfs", hanging)
    try:
        looks = [(await hosts.observe([run]))["a"] for _ in range(2)]
    finally:
        answers.set()
    said = [look.error.message for look in looks if look.error is not None]
    assert len(said) == 2 and "earlier call" in said[1]
    assert all(each.startswith(f"the disk of {tmp_path}") for each in said)
    monkeypatch.setattr(host, "DEADLINE", 60.0)
    assert (await hosts.observe([run]))["a"].known


def test_one_look_reads_what_its_runs_share_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def reading(path: Path, **how: str) -> str:
        read.append(path)
        return path.read_bytes().decode(**how)

    monkeypatch.setattr(Path, "read_text", reading)
    mounts = Mounts()
    disks = [read_disk(str(tmp_path / name), mounts) for name in "abc"]
    assert len({disk.mount for disk in disks}) == 1 and read == [MOUNTS]
    assert disks[0].mount == next(str(p) for p in (tmp_path, *tmp_path.parents) if p.is_mount())
