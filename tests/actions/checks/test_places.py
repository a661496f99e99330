"""Everything that a submit needs is proven, as this user, before anything is stopped.

On this machine and on an ssh host alike.

A job that its system has forgotten: unknown for good, so a person says that it is over.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from cockpit.actions.checks import jobs
from cockpit.actions.checks.places import tried
from cockpit.actions.checks.setup import agrees, pinned
from cockpit.hosts import folders
from cockpit.model.facet import ErrorKind, unknown
from cockpit.model.jobs import Live
from cockpit.model.observed import Pick
from cockpit.model.plan import Check, Level
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.command import fill, values_of
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.rules.lineage.paths import (
    StatedOutput,
    all_outside,
    command_paths,
    config_paths,
    record_paths,
    shared_folders,
)
from tests.actions.contexts import context, hard, levels, living, soft
from tests.machines import Machine
from tests.machines import machine as machine
from tests.platforms.box.making import spec
from tests.platforms.local.making import contents
from tests.platforms.stand_in import StandIn
from tests.rules.making import T0, blind, run_spec

AS_NOBODY = """
import os, sys
from cockpit.hosts.folders import try_folder
os.setgid(65534); os.setuid(65534)
for path in sys.argv[2:]:
    print(try_folder(path, sys.argv[1], append=True))
"""


def run_on(machine: Machine, folder: Path) -> RunSpec:
    """Return a run with its files in ``folder`` of a machine."""
    if machine.host is not None:
        return spec(machine.host, folder)
    root = folder / "runs" / "buoy"
    files = {
        key: machine.at(root / f"run.{end}")
        for key, end in (("log", "log"), ("pid_file", "pid"), ("exit_file", "exit"))
    }
    job = JobSpec(kind="local", workdir=machine.at(folder), **files)
    return RunSpec(name="buoy", output_root=machine.at(root), job=job)


async def checks(
    machine: Machine, run: RunSpec, *words: str, pick: Pick | None = None, need: int | None = None
) -> list[Check]:
    return await tried(run, words, pick, need, machine.host)


async def said(machine: Machine, run: RunSpec, *words: str, pick: Pick | None = None) -> list[str]:
    found = await checks(machine, run, *words, pick=pick)
    return [f"{check.level.value} {check.id}: {check.text}" for check in found]


async def rooted(machine: Machine, root: Path) -> list[str]:
    return await said(machine, RunSpec(name="toy", output_root=machine.at(root)))


async def test_where_all_is_well_is_left_as_it_was(machine: Machine, tmp_path: Path) -> None:
    found = await said(machine, run_on(machine, tmp_path), "sh", "-c", "true")
    assert [line.partition(":")[0] for line in found] == ["pass places"], found
    assert contents(tmp_path) == {}
    assert [line[:11] for line in await rooted(machine, tmp_path)] == ["pass places"]
    assert contents(tmp_path) == {}


async def test_what_is_no_folder_and_what_lies_in_the_way(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "the output root is not a folder" in (await rooted(machine, tmp_path / "file"))[0]
    below = (await rooted(machine, tmp_path / "file" / "root"))[0]
    assert "is not writable by this user: not a directory" in below
    (tmp_path / ".cockpit").symlink_to(tmp_path / "elsewhere")
    assert any("it is a link" in line for line in await rooted(machine, tmp_path))


async def test_each_thing_that_is_wrong_is_told_of_its_place(
    machine: Machine, tmp_path: Path
) -> None:
    run, root = run_on(machine, tmp_path), tmp_path / "runs" / "buoy"
    (root / "run.log").mkdir(parents=True)
    (root / "run.exit").mkdir()
    (root / ".cockpit").write_text("in the way")
    (tmp_path / "tool").write_text("not executable")
    found = await said(machine, run, "./tool")
    for name, what in (("log", "the log's"), ("exit", "the exit file's")):
        assert [line for line in found if f"run.{name}" in line] == [
            f"block places: {what} folder is not writable by this user: is a directory "
            f"({machine.shown(root / f'run.{name}')})"
        ]
    assert any("the cockpit's notes in it is not a folder" in line for line in found)
    assert "block program: no executable program ./tool (chmod +x ./tool)" in found
    found = await said(machine, run, "python3", "no_such.py")
    assert any(line.startswith("block program: no_such.py does not exist, seen") for line in found)


async def test_a_log_that_is_a_pipe_is_not_opened(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "runs" / "buoy"
    root.mkdir(parents=True)
    os.mkfifo(root / "run.log")
    assert (await said(machine, run_on(machine, tmp_path)))[0].startswith("pass places")


async def test_a_checkpoint_that_is_gone_or_shut_blocks(machine: Machine, tmp_path: Path) -> None:
    run, saved = run_on(machine, tmp_path), tmp_path / "step-5"
    (saved / "shard").mkdir(parents=True)
    (saved / "shard" / "weights").write_bytes(b"x")
    (saved / "shard" / "0").symlink_to("/nowhere")
    where = str(machine.at(saved))
    found = await said(machine, run, pick=Pick(path=where, step=5, why="test"))
    assert not any("C-17" in line for line in found)
    gone = Pick(path=f"{where}0", step=50, why="test")
    found = await said(machine, run, pick=gone)
    text = f"step 50 cannot be read by this user: no such file or directory ({where}0)"
    assert f"block C-17:readable: {text}" in found


async def test_a_disk_that_is_not_mounted_is_not_written_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fstab, here = tmp_path / "fstab", Machine(None)
    fstab.write_text(f"# a\n/dev/a / ext4\n/dev/b {tmp_path}/my\\040disk ext4\nnone swap\n")
    monkeypatch.setattr(folders, "FSTAB", str(fstab))
    (line,) = await rooted(here, tmp_path / "my disk" / "out" / "run")
    assert line.startswith("block places") and "my disk is not mounted" in line
    assert "not mounted" not in (await rooted(here, tmp_path / "out" / "run"))[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make something in /mnt")
async def test_what_is_missing_where_disks_are_may_be_a_disk(machine: Machine) -> None:
    (line,) = await rooted(machine, Path("/mnt/no-such-disk/out/run"))
    assert line.startswith("warn places") and "check whether a disk is missing" in line


async def test_the_login_node_of_a_slurm_job_is_tried_too(machine: Machine, tmp_path: Path) -> None:
    if machine.host is None:
        return
    job = JobSpec(kind="slurm", host=machine.host, workdir=machine.at("/no/such/folder"))
    run = RunSpec(
        name="toy",
        job=job,
        output_root=machine.at(tmp_path / "out"),
        checkpoints=CheckpointSpec(path=(machine.at("/proc/1/none"),)),
    )
    found = await said(machine, run, "sbatch", "job.sh")
    assert f"block program: workdir does not exist: {machine.host}:/no/such/folder" in found
    assert any("the checkpoints' folder is not writable by this user" in line for line in found)


async def test_a_host_that_does_not_answer_blocks(tmp_path: Path) -> None:
    away = Machine("no-such-host.invalid")
    found = await checks(away, spec("no-such-host.invalid", tmp_path), "sh")
    assert [check.level for check in found] == [Level.BLOCK]
    assert "cannot be checked" in found[0].text


def test_a_host_without_proc_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders.missing_for_launcher() is None
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert folders.missing_for_launcher() == "/proc"


@pytest.fixture
def entered() -> Iterator[Path]:
    """Return a folder that everybody may enter.

    Not pytest's own: each session of this user closes the folders above those of all others.
    """
    with tempfile.TemporaryDirectory(prefix="cockpit-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_is_tried_as_the_user_who_acts(entered: Path) -> None:
    closed, group, log = entered / "closed", entered / "group", entered / "open" / "run.log"
    for folder, mode in ((closed, 0o755), (group, 0o2770), (log.parent, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    log.write_text("")
    log.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(log), str(closed), str(group), str(log.parent)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    first, second, third = done.stdout.splitlines()
    assert "permission denied" in first and "closed'" in first
    assert "permission denied" in second
    assert "run.log" in third, "the folder takes files, the log that is there does not"


async def test_a_full_disk_and_one_without_inodes_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, real, here = (
        RunSpec(name="toy", output_root=str(tmp_path)),
        os.statvfs("/tmp"),
        Machine(None),
    )

    async def about_disks(run: RunSpec, need: int | None) -> list[tuple[str, str]]:
        found = [each for each in await checks(here, run, need=need) if each.id == "disk"]
        return [(each.level.value, each.text) for each in found if "the output" in each.text]

    def told(**changed: int) -> None:
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree",
                 "f_favail", "f_flag", "f_namemax")  # fmt: skip
        values = [changed.get(name, getattr(real, name)) for name in names]
        monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))

    told(f_frsize=1, f_bfree=10**9, f_bavail=10**9, f_files=10**6, f_ffree=10**6, f_favail=10**6)
    assert await about_disks(run, None) == []
    told(f_frsize=1, f_bfree=4 * 10**7, f_bavail=4 * 10**7, f_ffree=10**6, f_favail=10**6)
    assert [level for level, _ in await about_disks(run, 30_000_000)] == ["warn"]
    assert [level for level, _ in await about_disks(run, 50_000_000)] == ["block"]
    told(f_frsize=1, f_bfree=10**9, f_bavail=10**9, f_files=10**6, f_ffree=3, f_favail=3)
    assert "has inodes for only" in (await about_disks(run, None))[0][1]
    told(f_frsize=1, f_bfree=10**9, f_bavail=10**9, f_files=10**6, f_ffree=0, f_favail=0)
    assert "has inodes for only 0" in (await about_disks(run, None))[0][1], "all are in use"
    told(f_frsize=1, f_bfree=10**9, f_bavail=10**9, f_files=0, f_ffree=0, f_favail=0)
    assert await about_disks(run, None) == [], "such a disk has none to count"


async def begun(machine: Machine, workdir: Path, *words: str) -> list[Check]:
    job = (
        JobSpec(kind="local", workdir=machine.at(workdir))
        if machine.host is None
        else JobSpec(kind="slurm", host=machine.host, workdir=machine.at(workdir))
    )
    return await checks(machine, RunSpec(name="toy", job=job), *words)


async def test_a_command_that_cannot_begin_blocks(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    for words, why in (
        ((sys.executable, "-S", "train.py", "--x"), None),
        (("python3", "-m", "no.such"), None),
        (("no-such-program-here",), "no executable program no-such-program-here"),
        (("./train.py",), "no executable program ./train.py (chmod +x ./train.py)"),
    ):
        found = await begun(machine, tmp_path, *words)
        assert [check.text for check in found] == ([] if why is None else [why])
    (guess,) = await begun(machine, tmp_path, "python3", "-u", "trian.py")
    assert "trian.py does not exist" in guess.text
    assert guess.overridable and guess.level.value == "block"
    (gone,) = await begun(machine, tmp_path / "x", "python3")
    assert gone.text == f"workdir does not exist: {machine.shown(tmp_path / 'x')}"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m pkg x.py", "python3 -um pkg x.py", "python3 -mpkg x.py", "python3 -c 1 x.py",
        "python3 -cpass x.py", "python3 - x.py", "python3 -u -X dev train.py",
        "python3 -W x.py -m y", "bash -c 'cd sub && python3 x.py'",
        "python3 $CODE/x.py", "python3 -u", "env A=b python3 x.py",
        "sh run.sh x.py", "python3 train.py --from x.py", "./go.sh x.py", "~/no/../../$X x.py",
        "timeout 9 python3 x.py", "python3 sub", "nice -n 5 python3 x.py",
    ],
)  # fmt: skip
async def test_what_may_be_a_good_command_is_never_stopped_by_a_guess(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "go.sh").write_text("")
    (tmp_path / "go.sh").chmod(0o755)
    assert await begun(Machine(None), tmp_path, *shlex.split(command)) == []


async def test_a_program_below_home_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "go.sh").write_text("")
    (found,) = await begun(Machine(None), tmp_path, "~/go.sh")
    assert "chmod +x" in found.text
    (tmp_path / "go.sh").chmod(0o755)
    assert await begun(Machine(None), tmp_path, "~/go.sh") == []


ROOT = "gs://bucket/toy"


def run(root: str | None = ROOT, *paths: str) -> RunSpec:
    return run_spec(output_root=root, checkpoints=CheckpointSpec(path=paths))


@pytest.mark.parametrize(
    "root", [None, "out/toy", "gs://b/{name}", "/out/$USER", "/out/%Y-%m-%d", "/out/*", "/o/<id>"]
)
def test_a_root_that_is_not_one_fixed_place_is_never_overridden(root: str | None) -> None:
    (check,) = pinned(run(root))
    assert hard(check)


@pytest.mark.parametrize("root", [ROOT, "/data/toy", "gs://b/toy-2026-03-11"])
def test_a_fixed_place_is_pinned(root: str) -> None:
    assert pinned(run(root)) == []


@pytest.mark.parametrize(
    "path", ["gs://bucket/other", "gs://bucket-eu/toy", "gs://bucket/toy2", "/bucket/toy"]
)
def test_a_contradiction_is_a_hard_block(path: str) -> None:
    (check,) = agrees(run(), [StatedOutput("the config file (output_dir)", path)], {})
    assert hard(check) and path in check.text and ROOT in check.text


@pytest.mark.parametrize("path", [ROOT, ROOT + "/", ROOT + "/checkpoints", "GS://bucket/toy"])
def test_the_same_place_or_one_below_it_agrees(path: str) -> None:
    assert levels(agrees(run(), [StatedOutput("the config", path)], {})) == {"C-16": "pass"}


def test_a_checkpoint_root_that_the_run_file_names_is_fine_and_said() -> None:
    found = agrees(run(ROOT, "gs://temp/toy"), [StatedOutput("config", "gs://temp/toy")], {})
    assert levels(found) == {"C-16": "pass", "C-16:checkpoints": "warn"}


def test_links_are_followed_on_this_machine() -> None:
    spec = run("/data/toy")
    said = [StatedOutput("config", "/mnt/a/toy")]
    assert hard(agrees(spec, said, {})[0])
    same = {"/data/toy": "/real/toy", "/mnt/a/toy": "/real/toy"}
    assert levels(agrees(spec, said, same)) == {"C-16": "pass"}


def test_a_made_up_root_warns_until_something_confirms_it() -> None:
    spec = run("gs://b/toy-2026-03-11")
    assert levels(agrees(spec, [], {}))["C-16:derived"] == "warn"
    assert levels(agrees(spec, [StatedOutput("x", "gs://b/toy-2026-03-11")], {})) == {
        "C-16": "pass"
    }


def test_settings_that_are_written_to_and_not_those_that_are_read() -> None:
    config = {
        "trainer.output_dir": '"/o"', "load.checkpoint_path": '"/old"', "save_dir": '"rel"',
        "init_from.base_path": '"/older"', "x.base_path": '"gs://b"', "output_dir_level": '"/z"',
    }  # fmt: skip
    assert [said.path for said in config_paths("c", config)] == ["/o", "gs://b"]
    words = ("train", "--output-dir", "/a", "trainer.save_path=/b", "--load-checkpoint-path=/c")
    assert [said.path for said in command_paths(words)] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("options", "path", "fine"),
    [
        (("-v", "/data/toy:/workspace/out"), "/workspace/out/ckpt", True),
        (("--volume=/data/toy:/workspace/out:rw,z",), "/workspace/out", True),
        (("--mount", "type=bind,source=/data/toy,target=/out,readonly=false"), "/out", True),
        (("--mount=type=bind,src=/data/toy,dst=/out",), "/out", True),
        (("--container-mounts=/usr:/usr,/data:/d",), "/d/toy", True),
        (("-v", "/data/toy:/workspace", "-v", "/scratch:/workspace/out"), "/workspace/out", False),
        (("-v", "/usr:/usr"), "/workspace/out", False),
        (("--mount=type=bind,source=/data/toy,destination=/out",), "/out", True),
        (("-v", "/usr:/usr", "-v", "./runs:/out"), "/out", True),  # where that is is not known
        (("-v", "$PWD/runs:/out"), "/out", True),
        (("-v", "volume:/out"), "/out", True),
        (("--bind", "/usr:/usr,/data"), "/data/toy", True),
        (("--bind", "/usr:/usr,/data"), "/data/other", False),
        (("-v", "/usr:/usr", "-v", "/out"), "/out", False),  # a volume without a name
    ],
)
def test_a_path_in_a_container_is_compared_as_it_lies_outside(
    options: tuple[str, ...], path: str, fine: bool
) -> None:
    words = ("docker", "run", *options, "img", "python", "train.py", "--output_dir", path)
    said = list(all_outside(command_paths(words), shared_folders(words)))
    (check,) = agrees(run("/data/toy"), said, {})
    assert hard(check) is not fine
    words_of_it = ("shares with its container", "/scratch", "/data/other")
    assert fine or any(each in check.text for each in words_of_it)


def test_a_record_may_be_relative_to_the_root_s_end() -> None:
    def paths(text: str | None) -> list[str]:
        return [said.path for said in record_paths(text, "/x/runs/toy")]

    assert paths("`runs/toy`") == ["/x/runs/toy"]
    assert paths("`runs/other`") == ["runs/other"]
    assert paths("`/x/runs/toy/`") == ["/x/runs/toy"]
    assert paths("see the issue") == paths("") == paths(None) == paths("toy") == []


def far() -> RunSpec:
    """Return a run whose root is written as an address, and whose job sees a path of its host."""
    return run_spec(
        output_root="ssh://isambard/scratch/ada/toy",
        job=JobSpec(kind="slurm", host="isambard"),
        checkpoints=CheckpointSpec(path=("ssh://isambard/scratch/ada/toy/ckpt",)),
    )


@pytest.mark.parametrize(
    "path", ["/scratch/ada/toy", "/scratch/ada/toy/ckpt/", "ssh://isambard/scratch/ada/toy"]
)
def test_a_path_of_the_jobs_host_is_compared_as_the_job_sees_it(path: str) -> None:
    assert levels(agrees(far(), [StatedOutput("the command (--out)", path)], {})) == {
        "C-16": "pass"
    }


@pytest.mark.parametrize("path", ["/scratch/eve/toy", "ssh://elsewhere/scratch/ada/toy"])
def test_another_root_of_the_host_or_of_another_host_is_a_hard_block(path: str) -> None:
    assert hard(agrees(far(), [StatedOutput("the command (--out)", path)], {})[0])


def test_a_command_is_filled_with_what_the_job_itself_can_open() -> None:
    checkpoint = "ssh://isambard/scratch/ada/toy/ckpt/step-20"
    values = values_of(far(), "toy-i002", checkpoint, 20)
    assert fill(("--out={output_root}", "--load={checkpoint}"), values) == (
        "--out=/scratch/ada/toy",
        "--load=/scratch/ada/toy/ckpt/step-20",
    )


class Forgets(StandIn):
    forgets: ClassVar[bool] = RayPlatform.forgets


class SlurmForgets(StandIn):
    forgets: ClassVar[bool] = SlurmPlatform.forgets


GONE = unknown(ErrorKind.NOT_FOUND, "the head does not list job toy-i001", "ray", T0)


@pytest.mark.parametrize("platform", [Forgets(), SlurmForgets()])
def test_a_person_says_that_it_is_over_where_the_list_is_here_and_names_nothing(
    platform: Platform,
) -> None:
    (check,) = jobs.relaunch_state(context(job=GONE, platform=platform))
    assert soft(check) and check.id == "forgotten" and "does not list job toy-i001" in check.text
    assert "approve if you know that it is over" in check.text
    assert check.text.startswith("no such job is listed there: "), "one may never have been"


@pytest.mark.parametrize(
    ("facet", "live", "platform"),
    [
        (GONE, Live(), StandIn()),
        (blind(), Live(), Forgets()),
        (GONE, Live(unknown="no answer"), Forgets()),
        (GONE, Live(jobs=(living(),)), Forgets()),
        (GONE, Live(possible=(living(),)), Forgets()),
    ],
)
def test_nobody_says_so_in_any_other_case(facet: object, live: Live, platform: Platform) -> None:
    (check,) = jobs.relaunch_state(context(job=facet, live=live, platform=platform))
    assert hard(check) and check.id == "job-state"


def test_a_run_whose_job_is_forgotten_is_no_run_without_a_job() -> None:
    (check,) = jobs.launch_state(context(job=GONE))
    assert check.text == "the run has no job yet", "none is named"
    named = run_spec(job=JobSpec(kind="local", id="toy-i001"))
    (check,) = jobs.launch_state(context(named, job=GONE))
    assert check.level is Level.WARN and "does not list job toy-i001" in check.text
