"""A copy of the run's job that was started by hand and names nothing of the run (C-25)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.model.run import RunSpec
from cockpit.platforms.local.census import census, descendants
from cockpit.platforms.local.marks import starts_of
from tests.platforms.local.zoo import PYTHON, WAIT, Zoo, live, pids, possible, run_spec
from tests.waiting import until

UP = "import os; os.write(3, b'up\\n'); os.close(3)\nimport time; time.sleep(60)\n"
UP_HERE = "import time\nprint('up', flush=True)\ntime.sleep(60)\n"
PY = " ".join(PYTHON)


def recorded(folder: Path, command: str, **more: object) -> RunSpec:
    """Return a run with a command to start it by, and a log."""
    made = run_spec(folder, log=str(folder / "runs" / "a" / "run.log"), workdir=str(folder))
    return made.model_copy(update={"resubmit": command, **more})


def scripted(folder: Path, name: str, code: str = WAIT) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(code)
    return name


@pytest.mark.parametrize(
    ("command", "by_hand"),
    [
        (f"{PY} train.py --resume {{checkpoint}}", (*PYTHON, "train.py")),
        (f"nohup {PY} -u train.py --out {{output_root}}", (*PYTHON, "./train.py")),
        ("torchrun --nproc_per_node 2 train.py", (*PYTHON, "train.py")),
        ("uv run train.py", ("timeout", "90", *PYTHON, "train.py")),
        ("accelerate launch --config_file a.yaml train.py", (*PYTHON, "-u", "train.py")),
        ("bash launch.sh", (*PYTHON, "train.py", "--lr", "3e-4")),
        ("sh -c './launch.sh 2>&1 | tee -a log'", (*PYTHON, "train.py")),
        ("bash unread.sh", (*PYTHON, "train.py")),
        ("make train", (*PYTHON, "train.py")),
        (f"{PY} -m pkg.train", (*PYTHON, "-m", "pkg.train")),
        (f"{PY} -m torch.distributed.run -m pkg.train b", (*PYTHON, "-m", "pkg.train", "b")),
    ],
)  # fmt: skip
def test_what_runs_the_runs_own_script_is_for_a_person(
    tmp_path: Path, zoo: Zoo, command: str, by_hand: tuple[str, ...]
) -> None:
    scripted(tmp_path, "train.py")
    scripted(tmp_path / "pkg", "train.py")
    scripted(
        tmp_path, "launch.sh", "#!/bin/sh\nset -e\nexec python train.py \\\n  --lr 3e-4 > x 2>&1\n"
    )
    scripted(tmp_path, "unread.sh", "$COMMAND\n")
    run = recorded(tmp_path, command)
    pid = zoo.run(*by_hand, cwd=tmp_path)
    found = live(run)
    assert (pids(found) or possible(found)) == [pid]
    assert found.jobs or found.possible[0].alike


OTHERS = (
    "train.py b.yaml", "train.py a.yaml --output_dir runs/b", "other.py", "eval.py",
    "-m py_compile train.py",
)  # fmt: skip


def test_another_run_or_another_program_is_not(tmp_path: Path, zoo: Zoo) -> None:
    work = tmp_path / "work"
    for name in ("train.py", "other.py", "eval.py", "../elsewhere/train.py", "py_compile.py"):
        scripted((work / name).parent.resolve(), Path(name).name)
    run = recorded(work, f"{PY} train.py a.yaml")
    for words in OTHERS:
        zoo.run(*PYTHON, *words.split(), cwd=work)
    another = {"OUTPUT_DIR": str(work / "runs" / "b")}
    zoo.run(*PYTHON, "train.py", "a.yaml", "--seed", "1", cwd=work, env=another)
    zoo.run(*PYTHON, "train.py", "a.yaml", cwd=tmp_path / "elsewhere")
    found = live(run)
    assert (pids(found), possible(found)) == ([], [])


WAYS = (
    "exec {python} - < train.py",
    "exec {python} < train.py",
    "exec {python} -c 'import train'",
    "exec {python} -c 'import runpy; runpy.run_path(\"train.py\")'",
    "exec {python} link.py",
    "exec {python} -m train",
    "exec {python} -m pdb -c continue train.py",
    "exec {python} -m cProfile -o /dev/null -m train",
    "exec {python} ipython train.py",
    "exec -a gpu-burn {python} train.py",
    "exec {linker} {real} train.py",
)


def test_a_second_start_is_found_however_python_is_given_the_script(
    tmp_path: Path, zoo: Zoo
) -> None:
    scripted(tmp_path, "train.py", UP_HERE)
    scripted(tmp_path, "ipython", "import sys; exec(open(sys.argv[1]).read())\n")
    (tmp_path / "link.py").symlink_to("train.py")
    linker = next(iter(sorted(Path("/").glob("lib*/ld-linux-*.so.*"))), None)
    run = recorded(tmp_path, "python train.py")
    words = {"python": sys.executable, "linker": linker, "real": os.path.realpath(sys.executable)}
    started = [
        zoo.run("bash", "-c", way.format(**words), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
        for way in WAYS
        if linker is not None or "{linker}" not in way
    ]
    found = live(run)
    assert sorted([*pids(found), *possible(found)]) == sorted(started)
    assert all(each.alike for each in found.possible)


def test_code_that_names_another_script_is_none(tmp_path: Path, zoo: Zoo) -> None:
    for name in ("train.py", "other.py", "py_compile.py"):
        scripted(tmp_path, name, UP_HERE)
    scripted(tmp_path, "unread.sh", "$COMMAND\n")
    path = {"PYTHONPATH": str(tmp_path)}
    for words in (
        ("-c", "import other"),
        ("-m", "other"),
        ("-m", "py_compile", "train.py"),
        ("-m", "pdb", "other.py"),
        ("-c", f"import time\n{UP_HERE}"),
        ("-c", f"from multiprocessing.spawn import spawn_main\n{UP_HERE}"),
    ):
        zoo.run(sys.executable, *words, cwd=tmp_path, env=path)
    for command in ("python train.py", "bash unread.sh"):
        found = live(recorded(tmp_path, command))
        assert (pids(found), possible(found)) == ([], [])


def test_a_program_behind_a_title_is_for_a_person(tmp_path: Path, zoo: Zoo) -> None:
    run = recorded(tmp_path, "python train.py")
    (tmp_path / "elsewhere").mkdir()
    scripted(tmp_path, "code", UP_HERE)
    command = ("bash", "-c", f"(exec -a 'gpt2: step 5' {sys.executable} < {tmp_path}/code); true")
    zoo.run(*command, cwd=tmp_path)
    zoo.run(*command, cwd=tmp_path / "elsewhere")
    found = live(run)
    assert (pids(found), len(found.possible)) == ([], 1)
    assert found.possible[0].alike and "behind a title" in found.possible[0].why


def test_a_container_has_another_name_for_the_work_folder(tmp_path: Path, zoo: Zoo) -> None:
    mount = spaces_for_mounts()
    if mount is None:
        pytest.skip("mount namespaces are not permitted here")
    work, inside = tmp_path / "work", tmp_path / "inside"
    inside.mkdir()
    scripted(work, "train.py", UP_HERE)
    run = recorded(work, "python train.py")
    command = f"mount --bind {work} {inside} && cd {inside} && exec {sys.executable} train.py"
    pid = zoo.run(*mount, "sh", "-c", command, cwd=work)
    found = live(run)
    assert possible(found) == [pid]


def spaces_for_mounts() -> list[str] | None:
    """Return how a mount namespace is made here, if it is permitted."""
    for more in ([], ["--user", "--map-root-user"]):
        argv = ["unshare", "--mount", *more]
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([*argv, "true"], check=True, capture_output=True, timeout=10)
            return argv
    return None


def test_a_trainer_that_went_into_a_folder_of_its_own(tmp_path: Path, zoo: Zoo) -> None:
    """Hydra changes into ``outputs/DATE`` before it trains."""
    moves = "import os\nos.makedirs('outputs/1')\nos.chdir('outputs/1')\n"
    scripted(tmp_path, "train.py", moves + WAIT)
    run = recorded(tmp_path, f"{PY} train.py --resume {{checkpoint}}")
    pid = zoo.run(*PYTHON, "train.py", cwd=tmp_path)
    assert possible(live(run)) == [pid]


def test_a_placeholder_for_the_output_root_fits_no_other_root(tmp_path: Path, zoo: Zoo) -> None:
    scripted(tmp_path, "train.py")
    run = recorded(tmp_path, f"{PY} train.py --out {{output_root}}")
    zoo.run(*PYTHON, "train.py", "--out", "runs/b", cwd=tmp_path)
    found = live(run)
    assert (pids(found), possible(found)) == ([], [])
    pid = zoo.run(*PYTHON, "train.py", "--out", "runs/a", cwd=tmp_path)
    assert pids(live(run)) == [pid]


def test_who_writes_the_log_through_tee_is_a_job(tmp_path: Path, zoo: Zoo) -> None:
    scripted(tmp_path, "x.py", UP)
    run = recorded(tmp_path, "bash launch.sh")
    shell = zoo.run("sh", "-c", f"exec 3>&1; {PY} x.py | cat | tee runs/a/run.log", cwd=tmp_path)

    def programs() -> set[str]:
        processes = census()
        return {processes[pid].argv[0] for pid in descendants(processes, [shell])}

    until(lambda: {"cat", "tee"} <= programs() and (tmp_path / "runs/a/run.log").exists())
    found = live(run)
    assert len(found.jobs) == 1 and "x.py" in found.jobs[0].name


def test_who_shows_the_log_through_a_pipe_is_none(tmp_path: Path, zoo: Zoo) -> None:
    run = recorded(tmp_path, "bash launch.sh")
    (tmp_path / "runs" / "a" / "run.log").write_text("step 1\n")
    shown = zoo.run("sh", "-c", "tail -f runs/a/run.log | tee seen.txt", cwd=tmp_path)
    kept = zoo.run("sh", "-c", "echo up; tail -f seen.txt | tee -a runs/a/run.log", cwd=tmp_path)

    def programs() -> list[str]:
        """Until then they are copies of their shell, which might write anything."""
        processes = census()
        return [processes[pid].argv[0] for pid in descendants(processes, [shown, kept])]

    until(lambda: programs().count("tail") == programs().count("tee") == 2)
    found = live(run)
    assert (pids(found), possible(found)) == ([], [])


def test_a_launcher_is_read_through_its_own_options() -> None:
    words = (sys.executable, "/env/bin/torchrun", "--nproc_per_node", "2", "train.py", "--lr", "3")
    (found,) = starts_of(words, "/srv")
    assert (found.program, found.args) == ("/srv/train.py", ("--lr", "3"))
    assert not starts_of(("vim", "train.py"), "/srv")
    assert starts_of(("ruff", "check", "train.py"), "/srv")[0].program == "ruff"


RANKS = """\
import os, sys, time
os.environ["LOCAL_RANK"] = "0"
launcher = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == launcher:
    time.sleep(0.01)
print("up", flush=True)
time.sleep(60)
"""
SPAWNS = """\
import multiprocessing, os, time
def work():
    print("up", flush=True)
    time.sleep(60)
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    multiprocessing.Process(target=work).start()
    while not os.path.exists("go"):
        time.sleep(0.01)
    os._exit(1)
"""


def test_what_a_trainer_that_was_killed_has_left_behind_is_for_a_person(
    tmp_path: Path, zoo: Zoo
) -> None:
    """Ranks and workers go on after a launcher was killed (pytorch 1223, 49305)."""
    scripted(tmp_path, "train.py", RANKS)
    scripted(tmp_path, "spawns.py", SPAWNS)
    run = recorded(tmp_path, f"{PY} -u train.py --out {{output_root}}")
    zoo.run(*PYTHON, "-u", "train.py", "--local_rank=0", cwd=tmp_path)
    (rank,) = live(run).possible
    assert rank.alike
    led = zoo.run(*PYTHON, "spawns.py", cwd=tmp_path)
    assert len(live(run).possible) == 1, "its trainer lives, and is another program"
    (tmp_path / "go").touch()
    until(lambda: led not in census())
    (orphan,) = [each for each in live(run).possible if each.id != rank.id]
    assert orphan.alike and "whose trainer has gone" in orphan.why
    for each in (rank, orphan):
        os.kill(int(each.handle["pid"]), signal.SIGKILL)


@pytest.mark.parametrize(
    "wrapper", [("uv", "run"), ("timeout", "90"), ("conda", "run", "-n", "ml")]
)
def test_a_wrapper_and_what_it_runs_are_one(
    tmp_path: Path, zoo: Zoo, wrapper: tuple[str, ...]
) -> None:
    scripted(tmp_path, "train.py")
    fake = tmp_path / "bin" / wrapper[0]
    fake.parent.mkdir()
    skip = len(wrapper) - 1
    fake.write_text(
        f"#!{sys.executable} -S\nimport subprocess, sys\nsubprocess.run(sys.argv[1 + {skip}:])\n"
    )
    fake.chmod(0o755)
    run = recorded(tmp_path, f"{PY} train.py --resume {{checkpoint}}")
    zoo.run(sys.executable, "-S", str(fake), *wrapper[1:], *PYTHON, "train.py", cwd=tmp_path)
    (found,) = live(run).possible
    assert found.alike


CLIENT = "echo up; exec -a docker tail -f /dev/null -- run --rm -m 64g -w /work img {train}"
SHIM = "exec -a containerd-shim-runc-v2 {py} -c 'import subprocess; subprocess.run({words})'"


def test_what_a_container_runs_is_the_job_of_its_client_and_outlives_it(
    tmp_path: Path, zoo: Zoo
) -> None:
    """A client that is killed tells its container nothing: what runs there trains on."""
    scripted(tmp_path, "train.py")
    words = [*PYTHON, "train.py", "--steps", "9"]
    run = recorded(tmp_path, f"docker run img {' '.join(words)}")
    client = zoo.run("bash", "-c", CLIENT.format(train=" ".join(words)), cwd=tmp_path)
    until(lambda: census()[client].argv[0] == "docker")
    listed = ", ".join(f'"{word}"' for word in words)
    shim = zoo.run("bash", "-c", SHIM.format(py=PY, words=f"[{listed}]"), cwd=tmp_path)
    (trainer,) = descendants(census(), [shim]) - {shim}
    (job,) = live(run).jobs
    assert job.id == f"pid:{client}" and job.handle["also"].startswith(f"{trainer}:")
    os.kill(client, signal.SIGKILL)
    os.waitid(os.P_PID, client, os.WEXITED | os.WNOWAIT)
    assert pids(live(run)) == [trainer]


@pytest.mark.parametrize("client_lives", [True, False])
def test_a_container_that_another_client_may_have_asked_for_is_left_to_a_person(
    tmp_path: Path, zoo: Zoo, client_lives: bool
) -> None:
    """Two projects run the same words; the other's (perhaps ``run -d``) began first."""
    words = [*PYTHON, "train.py", "--steps", "9"]
    listed = ", ".join(f'"{word}"' for word in words)
    for name in ("mine", "other", "inside"):
        (tmp_path / name).mkdir()
        scripted(tmp_path / name, "train.py")

    def client(name: str) -> int:
        asks = CLIENT.format(train=" ".join(words))
        pid = zoo.run("bash", "-c", asks, cwd=tmp_path / name)
        until(lambda: census()[pid].argv[0] == "docker")
        return pid

    def container() -> int:
        starts = SHIM.format(py=PY, words=f"[{listed}]")
        shim = zoo.run("bash", "-c", starts, cwd=tmp_path / "inside")
        (trainer,) = descendants(census(), [shim]) - {shim}
        return trainer

    run = recorded(tmp_path / "mine", f"docker run img {' '.join(words)}")
    mine = client("mine")
    if client_lives:
        client("other")
    theirs, ours = container(), container()
    found = live(run)
    (job,) = found.jobs
    assert job.id == f"pid:{mine}" and not job.handle.get("also"), job
    assert {theirs, ours} <= {int(each.id.removeprefix("pid:")) for each in found.possible}
