"""A job trains: who only writes a file of its own, edits or copies is none. Real processes.

Which processes are no jobs: a supervisor is known by its file wherever that ever was.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import agent, launches
from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.link import ask
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, Gpu, HostValue, JobValue, Phase
from cockpit.model.place import HERE
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec
from cockpit.platforms.local import host as health
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.host import (
    GPUS,
    GpuLook,
    HostHealth,
    MemoryLook,
    disk_of,
    each_once,
    gpu_look,
)
from cockpit.platforms.local.marks import runs_command, runs_script, scripts_of
from cockpit.platforms.local.programs import is_cockpit, is_supervisor, is_tool
from tests.platforms.box.making import Here
from tests.platforms.conftest import Host
from tests.platforms.local.zoo import PYTHON, WAIT, Zoo, live, pids, possible, run_spec, spared
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


OPENS = "import sys; f = open(sys.argv[1], 'ab')\n"


@pytest.fixture
def run(tmp_path: Path) -> RunSpec:
    """Return a run whose command, log and checkpoints are known, as most are."""
    made = run_spec(tmp_path, log=str(tmp_path / "runs" / "a" / "run.log"), workdir=str(tmp_path))
    command = f"python train.py --out {made.output_root}"
    return made.model_copy(update={"resubmit": command})


def root_of(run: RunSpec) -> Path:
    return Path(str(run.output_root))


def named(folder: Path, name: str, code: str = WAIT) -> str:
    (folder / name).write_text(code)
    return str(folder / name)


def opens(folder: Path, zoo: Zoo, name: str, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return zoo.run(*PYTHON, named(folder, name, OPENS + WAIT), str(path))


TRAINS = (
    "run.log", "step-500/model.pt.tmp", "checkpoint-500/x.bin", "last.ckpt", "500/a/array",
    "wandb/run-1/run-a-id.wandb", "iter_0000500/mp_rank_00/x", "global_step5/zero.pt",
)  # fmt: skip
OWN = (
    "ev.log", "results.db", "curve.png", "checkpoint-500/eval_results.json", "notes.txt",
    "metrics.csv",
)  # fmt: skip
EDITED = (".train.py.swp", ".#train.py", "a.ipynb", ".cockpit-try-x1", ".cockpit/claim.json")


def test_who_writes_the_log_a_checkpoint_or_the_tracker_trains(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    started = [opens(tmp_path, zoo, "anything.py", root_of(run) / file) for file in TRAINS]
    assert sorted(pids(live(run))) == sorted(started)


def test_who_writes_a_file_of_its_own_there_is_no_second_job(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    """``python ev.py > out/ev.log`` was critical: "stop one of them"."""
    unknown = sorted(opens(tmp_path, zoo, "ev.py", root_of(run) / file) for file in OWN)
    evaluates = sorted(opens(tmp_path, zoo, "eval.py", root_of(run) / file) for file in OWN)
    found = live(run)
    assert (pids(found), sorted(possible(found)), sorted(spared(found))) == ([], unknown, evaluates)
    for each in found.possible:
        assert "not the log, a checkpoint or the W&B run" in each.why
        assert not each.alike, "it is only said"


EVALUATES = (
    ("--mode=eval",), ("--run-type", "eval"), ("--eval_only",), ("test",), ("--do_eval",),
    ("--phase", "test"), ("--evaluate=true", "--steps", "5"), ("--play", "--gpu", "0"),
)  # fmt: skip
TRAINS_TOO = (
    ("--mode=train_and_eval",), ("--do_train", "--do_eval"), ("--eval_steps", "500"),
    ("--eval=no",), ("fit",), ("--eval", "mmlu"), ("--mode", "train"), ("--test_size=0.1",),
)  # fmt: skip
LAST = "import sys; f = open(sys.argv[-1], 'ab')\n"


@pytest.mark.parametrize("file", ["eval/events.out.tfevents.1.host", "step-500/scores.bin"])
def test_the_runs_own_script_that_is_told_to_evaluate_is_for_a_person_to_judge(
    file: str, run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    """``main.py --mode=eval`` beside ``main.py --mode=train``: a stop would have ended both."""
    script, path = named(tmp_path, "train.py", LAST + WAIT), root_of(run) / file
    path.parent.mkdir(parents=True)
    evaluates = sorted(zoo.run(*PYTHON, script, *told, "--into", str(path)) for told in EVALUATES)
    trains = sorted(zoo.run(*PYTHON, script, *told, "--into", str(path)) for told in TRAINS_TOO)
    found = live(run)
    assert (sorted(pids(found)), sorted(possible(found))) == (trains, evaluates)
    for each in found.possible:
        assert each.alike and each.why.startswith("is told to evaluate, and it has")


def test_a_run_whose_own_command_evaluates_is_known_by_it(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    own = run.model_copy(update={"resubmit": f"python train.py --mode=eval --out {root_of(run)}"})
    script = named(tmp_path, "train.py", LAST + WAIT)
    path = root_of(run) / "scores.csv"
    job = zoo.run(*PYTHON, script, "--mode=eval", str(path))
    assert pids(live(own)) == [job]


def test_an_editor_or_a_cockpits_probe_is_nothing_at_all(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    for file in EDITED:
        opens(tmp_path, zoo, "some_program.py", root_of(run) / file)
    found = live(run)
    assert (pids(found), possible(found)) == ([], [])


def test_who_has_a_cockpits_store_open_is_a_cockpit(run: RunSpec, tmp_path: Path, zoo: Zoo) -> None:
    """A test, a script or an older program that plays one tries the log for a moment, too."""
    store = tmp_path / "cockpit" / "store-here.sqlite"
    store.parent.mkdir()
    code = f"s = open({str(store)!r}, 'ab')\n{OPENS}{WAIT}"
    zoo.run(*PYTHON, named(tmp_path, "plays.py", code), str(root_of(run) / "run.log"))
    found = live(run)
    assert (pids(found), possible(found)) == ([], [])


def test_the_recorded_script_trains_where_it_names_the_run(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    train = named(tmp_path, "train.py")
    by_argument = zoo.run(*PYTHON, train, "--seed", "1", "--out", str(root_of(run)))
    by_variable = zoo.run(*PYTHON, train, env={"OUTPUT_DIR": str(root_of(run))})
    zoo.run(*PYTHON, train, "--out", str(tmp_path / "elsewhere"))
    assert sorted(pids(live(run))) == sorted([by_argument, by_variable])


def test_another_script_that_names_it_as_its_output_is_for_a_person_to_judge(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    pid = zoo.run(*PYTHON, named(tmp_path, "tune.py"), "--out", str(root_of(run)))
    zoo.run(*PYTHON, named(tmp_path, "convert.py"), "--out", str(root_of(run)))
    found = live(run)
    assert (pids(found), possible(found)) == ([], [pid])
    assert found.possible[0].alike


def test_the_very_command_in_its_folder_trains_though_it_names_nothing(
    tmp_path: Path, zoo: Zoo
) -> None:
    root = tmp_path / "out"
    root.mkdir()
    train = named(tmp_path, "train.py")
    run = RunSpec(
        name="a", output_root=str(root), resubmit="python train.py --resume",
        job=JobSpec(kind="local", pid_file=str(root / "run.pid"), workdir=str(tmp_path)),
    )  # fmt: skip
    pid = zoo.run(*PYTHON, train, "--resume")
    zoo.run(*PYTHON, train, "--resume", "--seed", "7")
    (tmp_path / "other").mkdir()
    zoo.run(*PYTHON, train, "--resume", cwd=tmp_path / "other")
    found = live(run)
    assert pids(found) == [pid] and found.jobs[0].why == "it runs the recorded command"


ROOT = "/data/runs/a"


@pytest.mark.parametrize(
    "command",
    [
        "gvim {r}/notes", "neovide {r}", "joe {r}/x", "zed {r}", "cursor {r}", "subl {r}",
        "claude --add-dir {r}", "codex -C {r}", "gdu {r}", "dust {r}", "dua i {r}", "eza {r}",
        "lsd {r}", "broot {r}", "yazi {r}", "lf {r}", "clamscan -r {r}", "updatedb -U {r}",
        "parallel cp -t {r}", "sqlite3 {r}/x.db", "mbuffer -o {r}/x", "rotatelogs {r}/x 5",
        "uv run gdu {r}", "timeout 60 claude --add-dir {r}",
    ],
)  # fmt: skip
def test_editors_agents_readers_and_copiers(command: str) -> None:
    assert is_tool(command.format(r=ROOT).split())


@pytest.mark.parametrize(
    "command",
    [
        "uv run cockpit checkpoints {r}", "uvx cockpit check", "pipx run cockpit check",
        "uvx --from cockpit-ml cockpit check", "timeout 60 cockpit checkpoints {r}",
        "uv run --with x cockpit check", "nice -n 5 /v/bin/cockpit watch", "python -Im cockpit",
        "python3 -E -P /s/run_cockpit.py -m cockpit.attach.host f", "python -m cockpit.attach.host",
        "/v/bin/python /s/run_cockpit.py watch a", "conda run -n ml cockpit check",
        "python -E -P /s/run_cockpit.py -m cockpit.records.git.saver {r}", "sh -s cockpit-probe",
        "/v/bin/python -E -P /v/site-packages/run_cockpit/__init__.py -m cockpit.attach.host f",
        "python -m run_cockpit watch a", "poetry run python -m cockpit watch",
        "python -X dev -m cockpit check {r}",
    ],
)  # fmt: skip
def test_a_cockpit_is_known_whatever_started_it(command: str) -> None:
    assert is_cockpit(command.format(r=ROOT).split())


@pytest.mark.parametrize(
    "command",
    [
        "uv run train.py --name cockpit", "python -m cockpit.demo.trainer --config x",
        "uv run python train.py --out cockpit", "python /s/run_cockpit.py -m cockpit.demo.trainer",
        "python -m cockpits.train", "python cockpit/train.py", "bash cockpit.sh",
        "torchrun --nproc 2 train.py cockpit", "python train.py cockpit-probe",
    ],
)  # fmt: skip
def test_a_training_is_not_taken_for_a_cockpit(command: str) -> None:
    assert not is_cockpit(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --x 1", "python3.11 -u -X dev /w/train.py", "torchrun --nproc 8 train.py",
        "accelerate launch --config_file a.yaml train.py", "uv run --with a train.py",
        "python -m torch.distributed.run --nproc 2 train.py", "timeout 9 nice python train.py",
        "env A=b python train.py", "bash -c 'cd /w && python train.py'", "deepspeed train.py",
        "bash -eo pipefail -c 'python train.py'",
    ],
)  # fmt: skip
def test_the_script_is_known_whatever_starts_it(command: str) -> None:
    import shlex

    scripts = scripts_of([shlex.split(command)])
    assert "train.py" in scripts
    assert runs_script(["/usr/bin/python3", "/elsewhere/train.py", "--y"], scripts)
    assert not runs_script(["/usr/bin/python3", "eval.py", "train.py"], scripts)
    assert not runs_script(["myeditor", "train.py"], scripts)


def test_the_very_command_is_compared_from_its_script_on() -> None:
    recorded = [("python", "train.py", "--id", "{launch_id}", "--resume")]
    assert runs_command([sys.executable, "-u", "/w/train.py", "--id", "a-i1", "--resume"], recorded)
    assert not runs_command([sys.executable, "train.py", "--id", "a-i1"], recorded)


def test_a_copy_with_a_log_of_its_own_is_for_a_person_and_another_run_of_the_file_is_not(
    run: RunSpec, tmp_path: Path, zoo: Zoo
) -> None:
    """A pid file beside that log proves nothing: whoever starts a second copy notes its pid."""
    command = " ".join((*PYTHON, "train.py"))
    run = run.model_copy(update={"resubmit": command})
    # The copy itself says that it is up: before its exec it is still the shell.
    up = "import os; os.write(3, b'up\\n'); os.close(3)\n"
    named(tmp_path, "train.py", up + WAIT)
    other = tmp_path / "second" / "run.log"
    other.parent.mkdir()
    shell = f"{command} 3>&1 >> {other} & echo $! > {other.with_name('run.pid')}; wait"
    zoo.run("sh", "-c", shell, cwd=tmp_path)
    (found,) = live(run).possible
    assert found.alike and "its output in" in found.why
    known = run.model_copy(update={"logs_of_others": (str(other),)})
    (found,) = live(known).possible
    assert not found.alike


async def test_where_there_is_no_proc_one_line_says_so(tmp_path: Path) -> None:
    asked = ask("its processes", "processes", proc=str(tmp_path))
    (said,) = (await HERE_LINK.ask([asked])).values()
    assert isinstance(said, Problem)
    assert said.message == f"{tmp_path}: processes are seen on Linux alone"


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (b"COCKPIT_RUN=a\0HOME=/root\0", "a"),
        (b"HOME=/root\0COCKPIT_RUN=a", "a"),
        (b"A=1\0COCKPIT_RUN=a\0COCKPIT_RUN=b\0", "a"),
        (b"OLD_COCKPIT_RUN=b\0COCKPIT_RUN=a=c\0", "a=c"),
        (b"A=COCKPIT_RUN=b\0", None),
        (b"A=1\0COCKPIT_RUN=\0B=2\0", ""),
        (b"COCKPIT_RUN=\xff\0", "\N{REPLACEMENT CHARACTER}"),
        (b"COCKPIT_RUNS=b\0", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_variable_is_what_its_own_name_stands_for(env: bytes | None, told: str | None) -> None:
    process = Process(7, 1, 7, 7, 0, "S", 5, ("python",), env, None)
    assert process.variable("COCKPIT_RUN") == told


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


@pytest.mark.parametrize("words", [("diff.py",), ("gemini.py",), ("-m", "vector.train")])
def test_a_script_of_ones_own_may_be_called_like_a_tool(
    tmp_path: Path, zoo: Zoo, words: tuple[str, ...]
) -> None:
    (tmp_path / "vector").mkdir()
    for name in ("diff.py", "gemini.py", "vector/train.py"):
        (tmp_path / name).write_text(WAIT)
    run = run_spec(tmp_path)
    pid = zoo.run(*PYTHON, *words, "--output_dir", str(run.output_root), cwd=tmp_path)
    assert pids(live(run)) == [pid]


@pytest.mark.parametrize("words", [("-m", "tensorboard.main"), ("tensorboard",)])
def test_a_tool_that_python_runs_is_no_job(
    tmp_path: Path, zoo: Zoo, words: tuple[str, ...]
) -> None:
    (tmp_path / "tensorboard").mkdir()
    for name in ("tensorboard/main.py", "tensorboard/__main__.py"):
        (tmp_path / name).write_text(WAIT)
    run = run_spec(tmp_path)
    zoo.run(*PYTHON, *words, "--output_dir", str(run.output_root), cwd=tmp_path)
    assert not pids(live(run))
