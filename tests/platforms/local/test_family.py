"""Readers are no jobs, and what belongs together is one job: real processes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from cockpit.model.jobs import Query
from cockpit.model.lineage import tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.local.census import census
from tests.platforms.local.making import local
from tests.platforms.local.zoo import PYTHON, WAIT, Zoo, live, noted, pids, possible, run_spec
from tests.platforms.reading import live_jobs
from tests.waiting import until

TRAIN = " ".join((*PYTHON, "-c", shlex.quote(WAIT)))


BY_ITSELF = " ".join(
    (*PYTHON, "-c", shlex.quote("import os, time; os.write(3, b'up\\n'); time.sleep(60)"))
)
"""A trainer that says that it is up where its output goes into a log: the shell cannot know."""


def root_of(run: RunSpec) -> Path:
    return Path(str(run.output_root))


def record(run: RunSpec, pid: int) -> None:
    assert run.job is not None and run.job.pid_file is not None
    Path(run.job.pid_file.path).write_text(f"{pid}\n")


def script(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


SLEEPS = "import time\nprint('up', flush=True)\ntime.sleep(60)\n"


def test_who_only_reads_is_no_job(tmp_path: Path, zoo: Zoo) -> None:
    """With the working folder inside the root, every word of a command looks like a path there."""
    run = run_spec(tmp_path)
    root = root_of(run)
    (root / "run.log").write_text("step 1\n")
    plot = script(tmp_path, "plot.py", SLEEPS)
    evaluate = script(tmp_path, "eval.py", SLEEPS)
    zoo.run(*PYTHON, plot, "run.log", cwd=root)
    zoo.run("sh", "-c", f"cd {root}; tail -f run.log; true")
    zoo.run("sh", "-c", "echo wandb leet; sleep 60; true", cwd=root)
    zoo.run("bash", "-c", f"{TRAIN}; true", "launch", "a", cwd=root)
    zoo.run(*PYTHON, evaluate, "--checkpoint", f"{root}/step-100")
    zoo.run(*PYTHON, plot, str(root), env={"OUTPUT_ROOT": str(root)})
    zoo.run("timeout", "60", "tail", "-f", "run.log", cwd=root)
    tool = script(tmp_path, "llamafactory-cli", SLEEPS)
    zoo.run(*PYTHON, tool, "export", "--export_dir", f"{root}/merged")
    zoo.run(*PYTHON, tool, "chat", f"{root}")
    zoo.add(cwd=root, code=f"f = open('run.log'); x = 1\n{WAIT}")
    found = live(run)
    assert (pids(found), possible(found)) == ([], [])


def test_a_place_that_nothing_proves_to_be_written_is_only_possible(
    tmp_path: Path, zoo: Zoo
) -> None:
    run = run_spec(tmp_path)
    by_dir = zoo.add("--dir", str(run.output_root))
    by_word = zoo.add(f"{run.output_root}/")
    zoo.run(*PYTHON, script(tmp_path, "sample.py", SLEEPS), f"--out_dir={run.output_root}")
    found = live(run)
    assert pids(found) == [] and sorted(possible(found)) == sorted([by_dir, by_word])


def test_a_file_of_the_run_outside_its_root_counts_too(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path, log=str(tmp_path / "logs" / "a.log"))
    (tmp_path / "logs").mkdir()
    pid = zoo.add(code=f"f = open('logs/a.log', 'a')\n{WAIT}")
    zoo.add(code=f"f = open('logs/a.log')\n{WAIT}")
    found = live(run)
    assert pids(found) == [pid] and "a.log open for writing" in found.jobs[0].why


def test_a_root_behind_a_link_is_the_same_root(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    real = tmp_path / "real"
    root_of(run).rename(real)
    root_of(run).symlink_to(real)
    writer = zoo.add(code=f"f = open('{run.output_root}/model.pt', 'w')\n{WAIT}")
    named = zoo.add("--output_dir", str(real))
    assert sorted(pids(live(run))) == sorted([writer, named])


def test_a_lock_that_is_held_is_a_job(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    lock = root_of(run) / ".cockpit" / "job.lock"
    lock.parent.mkdir()
    lock.touch()
    code = f"import fcntl\nf = open('{lock}')\nfcntl.flock(f, fcntl.LOCK_SH)\n{WAIT}"
    pid = zoo.add(code=code)
    assert pids(live(run)) == [pid]


@pytest.mark.parametrize(
    "launcher",
    [
        ("bash", "-c", "{train} --output_dir=. & echo $! > run.pid; wait; :", "launch", "a"),
        ("sh", "{script}", "{root}"),
        ("timeout", "90", "nice", "sh", "-c", "{train} --save_dir=. & echo $! > run.pid; wait"),
        ("bash", "-c", "echo $$ > run.pid; setsid {train} --output_dir=. & wait"),
        ("env", "OUTPUT_ROOT={root}", "bash", "-c", "{train} & echo $! > run.pid; wait"),
    ],
    ids=["bare word", "script", "wrappers", "setsid", "variable"],
)
def test_the_recorded_process_its_launcher_and_its_children_are_one_job(
    tmp_path: Path, zoo: Zoo, launcher: tuple[str, ...]
) -> None:
    run = run_spec(tmp_path)
    root = root_of(run)
    text = f'cd "$1"\n{BY_ITSELF} --out "$1" 3>&1 >> run.log & echo $! > run.pid\nwait\n:\n'
    filled = {"{train}": TRAIN, "{root}": str(root), "{script}": script(tmp_path, "train.sh", text)}
    argv = list(launcher)
    for key, value in filled.items():
        argv = [part.replace(key, value) for part in argv]
    zoo.run(*argv, cwd=root)
    until(lambda: (root / "run.pid").exists() and (root / "run.pid").read_text().strip())
    found = live(run)
    assert pids(found) == [int((root / "run.pid").read_text())]
    assert (possible(found), found.unknown) == ([], None)


def test_a_pipeline_is_one_job_whichever_end_is_recorded(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    root = root_of(run)
    zoo.run(
        "bash", "-c",
        f"echo up; {TRAIN} --output_dir=. | tee run.log & echo $! > run.pid; wait", cwd=root,
    )  # fmt: skip
    until(lambda: (root / "run.log").exists() and (root / "run.log").read_text())
    tee = int((root / "run.pid").read_text())
    assert pids(live(run)) == [tee]
    trainer = next(
        one.pid
        for one in census().values()
        if "--output_dir=." in one.argv[-1:] and one.cwd == str(root)
    )
    record(run, trainer)
    assert pids(live(run)) == [trainer]


def test_ranks_are_one_job_and_two_of_the_same_command_are_two(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    both = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    ranks = [zoo.add("--output_dir", str(root_of(run)), env={**both, "RANK": n}) for n in "01"]
    record(run, ranks[1])
    assert pids(live(run)) == [ranks[1]]
    other = zoo.add("--output_dir", str(root_of(run)))
    assert sorted(pids(live(run))) == sorted([ranks[1], other])


def test_a_shell_that_has_started_two_makes_them_no_one_job(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    command = f"{TRAIN} --output_dir=. & {TRAIN} --output_dir=. & echo $! > run.pid; wait"
    zoo.run("bash", "-c", command, cwd=root_of(run), env={"OUTPUT_ROOT": str(root_of(run))})
    recorded = noted(root_of(run) / "run.pid")
    until(lambda: len(live(run).jobs) == 2)
    assert pids(live(run))[0] == recorded


def test_a_session_manager_above_two_makes_them_no_one_job(tmp_path: Path) -> None:
    if subprocess.run(["which", "tmux"], capture_output=True).returncode:
        pytest.skip("tmux is not installed")
    run = run_spec(tmp_path)
    tmux = ("tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null")
    one = f"{TRAIN} --output_dir={run.output_root}"
    subprocess.run([*tmux, "new-session", "-d", one], check=True)
    subprocess.run([*tmux, "new-window", one], check=True)
    try:
        until(lambda: len(live(run).jobs) == 2)
        record(run, pids(live(run))[1])
        assert len(live(run).jobs) == 2
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def test_a_stranger_with_the_recorded_pid_is_not_among_what_a_stop_would_end(
    tmp_path: Path, zoo: Zoo
) -> None:
    run = run_spec(tmp_path)
    record(run, zoo.add(cwd=Path("/")))
    os.utime(root_of(run) / "run.pid", (1e9, 1e9))
    found = live(run)
    assert found.jobs == () and "nothing ties it to this run" in (found.unknown or "")
    record(run, zoo.add(cwd=root_of(run)))
    found = live(run)
    assert len(found.jobs) == 1 and found.unknown is None


def test_a_look_finds_what_a_job_that_has_left_its_parent_carries(tmp_path: Path, zoo: Zoo) -> None:
    """A double fork: the child belongs to init; it is found, and by its own evidence."""
    run = run_spec(tmp_path)
    root = root_of(run)
    command = f"(setsid {TRAIN} --output_dir={root} > /dev/null & echo $! > run.pid); echo up"
    zoo.run("bash", "-c", command, cwd=root)
    pid = noted(root / "run.pid")
    try:
        until(lambda: pids(live_jobs((run,))["a"]) == [pid])
    finally:
        os.kill(pid, signal.SIGKILL)


def helper(folder: Path, name: str) -> str:
    """Return a program that a process table calls by a helper's name."""
    path = folder / name
    if not path.exists():
        path.symlink_to(Path(PYTHON[0]).resolve())
    return str(path)


def test_helpers_that_have_outlived_their_trainer_are_no_second_job(
    tmp_path: Path, zoo: Zoo
) -> None:
    """W&B's go a few seconds after whom they serve; one that serves somebody is a job's."""
    run = run_spec(tmp_path)
    env = {"COCKPIT_LINEAGE": tag_of(run), "COCKPIT_LAUNCH_ID": "a-i001"}
    core = helper(tmp_path, "wandb-core")
    trainer = zoo.add(cwd=tmp_path)  # nothing but its helper ties it to the run
    writes = f"f = open('{run.output_root}/run-a-id.wandb', 'w')\n{WAIT}"
    serving = zoo.run(core, "-S", "-c", writes, "--pid", str(trainer))
    symon = zoo.run(helper(tmp_path, "wandb-symon"), "-S", "-c", WAIT, "--portfile=x", env=env)
    found = live(run)
    assert pids(found) == [serving]
    assert [job.id for job in found.leftovers] == [f"pid:{symon}"]
    os.kill(trainer, signal.SIGKILL)
    until(lambda: trainer not in census())
    found = live(run)
    assert (pids(found), len(found.leftovers), possible(found)) == ([], 2, [])
    child = zoo.add(env=env)  # a rank that has lost its trainer and may write on
    assert pids(live(run)) == [symon] and len(live(run).leftovers) == 1
    os.kill(child, signal.SIGKILL)
    until(lambda: child not in census())
    zoo.run(core, "-S", "-c", WAIT, "--detached", env={**env, "COCKPIT_LAUNCH_ID": "a-i002"})
    assert len(live(run).jobs) == 1


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("while true; do {train} & echo $! > run.pid; echo up; wait; done", True),
        ("until false; do {train} & echo $! > run.pid; echo up; wait; sleep 1; done", True),
        ("for i in 1; do sleep 0; done; {train} & echo $! > run.pid; echo up; wait; :", False),
        ("# while {train}; done\n{train} & echo $! > run.pid; echo up; wait; :", False),
    ],
)
@pytest.mark.parametrize("as_file", [True, False])
async def test_the_loop_that_starts_a_job_again_comes_next_by_itself(
    tmp_path: Path, zoo: Zoo, text: str, again: bool, as_file: bool
) -> None:
    run = run_spec(tmp_path)
    text = text.format(train=" ".join((*PYTHON, script(tmp_path, "train.py", SLEEPS))))
    given = (script(tmp_path, "loop.sh", text),) if as_file else ("-c", text)
    shell = zoo.run("bash", *given, cwd=root_of(run))
    noted(root_of(run) / "run.pid")
    value = (await local(tmp_path).jobs([Query(run=run)]))[run.name].value
    assert value is not None
    found = [job.why for job in value.queued if job.id == f"pid:{shell}"]
    assert len(found) == again, "what runs the tests may be a loop too"
    assert not again or f"by the loop of pid {shell}" in found[0]


@pytest.mark.parametrize(
    ("above", "told"),
    [
        ("subprocess.run(WORDS)", "pid {}: "),
        ("subprocess.run(['timeout', '60', *WORDS])", "pid {}: "),
        ("subprocess.run(' '.join(map(shlex.quote, WORDS)) + '; true', shell=True)", "pid {}: "),
        ("[subprocess.Popen(WORDS) for _ in '12'][1].wait()", None),
    ],
)
def test_who_waits_for_a_job_may_start_it_again(
    tmp_path: Path, zoo: Zoo, above: str, told: str | None
) -> None:
    """A manager of several programs goes on whatever becomes of one."""
    run = run_spec(tmp_path)
    words = [*PYTHON, "-c", WAIT, "--output_dir", str(run.output_root)]
    manager = script(
        tmp_path, "manager.py", f"import shlex, subprocess\nWORDS = {words}\n{above}\n"
    )
    pid = zoo.run(*PYTHON, manager)
    starters = [job.starter for job in live(run).jobs]
    assert starters
    if told is None:
        assert not any(starters)
    else:
        assert str(starters[0]).startswith(told.format(pid))


AS_NOBODY = """
import os, sys
from cockpit.platforms.local.lineage import _beyond
from cockpit.hosts import agent
from cockpit.hosts.here import HERE_LINK
from cockpit.platforms.local.sight import Places, seen_by
os.setuid(65534)
look = seen_by(HERE_LINK, agent.about(), agent.processes(), Places())
print(_beyond(look.processes[int(sys.argv[1])], look))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_job_that_this_user_may_not_signal_says_so(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    pid = zoo.add("--output_dir", str(run.output_root))
    assert live(run).jobs[0].beyond is None, "root may signal everybody"
    done = subprocess.run(
        [PYTHON[0], "-c", AS_NOBODY, str(pid)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stdout == f"pid {pid} belongs to user 0, which you may not signal\n"


BOTH = "for (1, 2) {{ fork or exec({words}) }} wait; wait;"
SPAWN = (
    "for (const _ of [1, 2]) require('child_process').spawn('env', [{words}], {{stdio: 'inherit'}})"
)
TITLED = "process.title = 'PM2 v5.3.0: God Daemon (/root/.pm2)';"


@pytest.mark.parametrize(
    ("language", "name", "text"),
    [("perl", "parallel", BOTH), ("node", "nodemon", SPAWN), ("node", "Daemon.js", TITLED + SPAWN)],
)
def test_who_starts_the_next_is_known_by_its_script_or_its_title(
    tmp_path: Path, zoo: Zoo, language: str, name: str, text: str
) -> None:
    """Two run beside one another: whoever starts them is known by name, or by nothing."""
    if shutil.which(language) is None:
        pytest.skip(f"no {language} here")
    run = run_spec(tmp_path)
    command = [*PYTHON, script(tmp_path, "train.py", WAIT), "--output_dir", str(run.output_root)]
    path = script(tmp_path, name, text.format(words=", ".join(map(repr, command))))
    pid = zoo.run(language, path, cwd=tmp_path)
    until(lambda: len(live(run).jobs) == 2)
    for job in live(run).jobs:
        assert job.starter is not None and job.starter.startswith(f"pid {pid}: ")


REPEATS = "import subprocess, sys\nfor _ in '12':\n    subprocess.run({words})\n"


@pytest.mark.parametrize(
    ("named", "command"),
    [
        ("xargs", "echo a b | xargs -n1 sh -c '{train}; true'"),
        ("wandb", "exec {python} wandb agent e/p/sweep"),
        ("supervisord", "exec {python} supervisord -n -c sv.conf"),
        ("shim", "exec {python} containerd-shim-runc-v2 -namespace moby -id 3f"),
        ("systemd", "SYSTEMD_EXEC_PID=$$ exec {train}"),
    ],
)
def test_who_starts_one_command_after_another_is_named(
    tmp_path: Path, zoo: Zoo, named: str, command: str
) -> None:
    """A sweep's agent begins its next trial in the same output root, docker the same command."""
    run = run_spec(tmp_path)
    words = [*PYTHON, script(tmp_path, "train.py", WAIT), "--output_dir", str(run.output_root)]
    script(tmp_path, "wandb", REPEATS.format(words=words))
    other = [*PYTHON, "-c", "import time; time.sleep(60)"]
    both = f"import subprocess\nsubprocess.Popen({other})\n"
    script(tmp_path, "containerd-shim-runc-v2", REPEATS.format(words=words))
    script(tmp_path, "supervisord", both + REPEATS.format(words=words))
    text = command.format(train=" ".join(words), python=" ".join(PYTHON))
    zoo.run("sh", "-c", text, cwd=tmp_path)
    (job,) = live(run).jobs
    assert job.starter is not None and named in job.starter


def test_a_queue_of_commands_is_no_part_of_the_job_that_it_runs_now(
    tmp_path: Path, zoo: Zoo
) -> None:
    """A stop of the queue would take what waits in it along."""
    run = run_spec(tmp_path, log=str(tmp_path / "run.log"))
    train = [*PYTHON, script(tmp_path, "train.py", f"{WAIT}")]
    text = f"""import subprocess, time
with open({str(tmp_path / "run.log")!r}, "a") as log:
    one = subprocess.Popen({train}, stdout=log, start_new_session=True)
open("pid", "w").write(str(one.pid))
print("up", flush=True)
time.sleep(60)
"""
    queue = zoo.run(*PYTHON, script(tmp_path, "pueued", text), "-vv", cwd=tmp_path)
    trains = noted(tmp_path / "pid")
    until(lambda: pids(live(run)) != [])
    (job,) = live(run).jobs
    assert job.id == f"pid:{trains}"
    assert job.starter is not None and job.starter.startswith(f"pid {queue}: ")


@pytest.mark.parametrize("launcher", ["supervisord", "watchdog.py"])
def test_who_runs_others_beside_a_job_is_no_part_of_it(
    tmp_path: Path, zoo: Zoo, launcher: str
) -> None:
    """A stop of the job would end the others: what a supervisor or a watchdog runs besides."""
    run = run_spec(tmp_path)
    train = [*PYTHON, script(tmp_path, "train.py", f"{WAIT}"), "--output_dir", str(root_of(run))]
    other = [*PYTHON, script(tmp_path, "other.py", SLEEPS)]
    text = f"""import subprocess, time
log = open({str(root_of(run) / "run.log")!r}, "a")
one = subprocess.Popen({train}, stdout=log, start_new_session=True)
two = subprocess.Popen({other}, stdout=subprocess.DEVNULL)
log.close()
open("pid", "w").write(str(one.pid))
print("up", flush=True)
time.sleep(60)
"""
    zoo.run(*PYTHON, script(tmp_path, launcher, text), cwd=tmp_path)
    trains = noted(tmp_path / "pid")
    until(lambda: pids(live(run)) != [])
    assert pids(live(run)) == [trains]


@pytest.mark.parametrize("told", [["--local_rank={}"], ["--rank", "{}"], ["--process-id", "{}"]])
def test_a_launcher_of_ranks_is_part_of_their_job(
    tmp_path: Path, zoo: Zoo, told: list[str]
) -> None:
    """Only the first rank writes the log: a stop of it alone left the others holding their GPUs."""
    run = run_spec(tmp_path, log=str(tmp_path / "run.log"))
    train = [*PYTHON, script(tmp_path, "train.py", f"{WAIT}")]
    text = f"""import subprocess, time
log = open({str(tmp_path / "run.log")!r}, "a")
for rank in range(2):
    told = [each.format(rank) for each in {told}]
    out = subprocess.DEVNULL if rank else log
    subprocess.Popen([*{train}, *told], stdout=out, start_new_session=True)
log.close()
open("up", "w").close()
print("up", flush=True)
time.sleep(60)
"""
    launcher = zoo.run(*PYTHON, script(tmp_path, "launch.py", text), cwd=tmp_path)
    until((tmp_path / "up").exists)
    until(lambda: pids(live(run)) == [launcher])


RANKS = """import multiprocessing, subprocess, time
def rank(number):
    if number == 0:
        log = open("run.log", "a")
        {then}
    open(f"up-{{number}}", "w").close()
    time.sleep(60)
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    for number in range(2):
        context.Process(target=rank, args=(number,)).start()
    print("up", flush=True)
    time.sleep(60)
"""
HELPER = 'subprocess.Popen(["wandb-core", "60"], executable="/bin/sleep", stdout=log)'
HELPED = f"{HELPER}; log.close()"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("then", ["pass", HELPED], ids=["by itself", "by a helper"])
def test_ranks_that_a_program_has_forked_or_spawned_are_part_of_its_job(
    tmp_path: Path, zoo: Zoo, method: str, then: str
) -> None:
    """As ``torch.multiprocessing.spawn``: only the first rank writes, by itself or by a helper."""
    run = run_spec(tmp_path, log=str(tmp_path / "run.log"))
    text = RANKS.format(method=method, then=then)
    trainer = zoo.run(*PYTHON, script(tmp_path, "train.py", text), cwd=tmp_path)
    until(lambda: all((tmp_path / f"up-{number}").exists() for number in range(2)))
    until(lambda: pids(live(run)) == [trainer])
