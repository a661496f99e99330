"""A job trains: who only writes a file of its own, edits or copies is none. Real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.marks import runs_command, runs_script, scripts_of
from cockpit.platforms.local.programs import is_cockpit, is_tool
from tests.platforms.local.zoo import PYTHON, WAIT, Zoo, live, pids, possible, run_spec, spared

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
