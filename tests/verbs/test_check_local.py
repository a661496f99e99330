"""What ``check`` says of real processes of this machine, and never says.

The figures in a row of ``check`` are those of the present job, or unknown.

A trainer that makes up its W&B id: what is said where the run file's id matches nothing.

What the cockpit and the runs write into the code repository is never taken for code (C-15).
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.lineage import Touches, touches, worst_first
from cockpit.model.observed import CodeValue, Phase, Row
from cockpit.model.report import RunReport
from cockpit.rules.lineage.drift import same_code
from cockpit.runtime.process import process_facts
from cockpit.sources.git.code import Code
from cockpit.verbs.table import loss_text, rate_text
from tests.actions.contexts import report
from tests.platforms.local.zoo import PYTHON, Zoo, noted
from tests.rules.making import T0, log, run_spec, tracker
from tests.rules.making import job as table_figures_job
from tests.sources.git.repos import commit, git, repository
from tests.sources.wandb import writer
from tests.waiting import until
from widgets.painting import rows

RUN = """
[[run]]
name = "{name}"
final_step = 1000
cadence = "10m"
output_root = "runs/{root}"
resubmit = "python3 train.py"
[run.job]
kind = "local"
log = "runs/{name}/run.log"
pid_file = "runs/{name}/run.pid"
exit_file = "runs/{name}/run.exit"
"""
TRAIN = """
import time
for step in range(100):
    print(f"step {step}/1000 loss=2.5", flush=True)
time.sleep(60)
"""
Check = Callable[..., dict[str, Any]]
DAY = 86400.0


@pytest.fixture
def zoo(tmp_path: Path) -> Any:
    found = Zoo(tmp_path)
    yield found
    found.end()


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return what ``check --json`` says of one run."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "plot.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    write(tmp_path, RUN.format(name="a", root="a"))

    def look(name: str = "a") -> dict[str, Any]:
        main(["check", "--json", "--config", str(tmp_path / "cockpit.toml")])
        runs = json.loads(capsys.readouterr().out)["runs"]
        return next(run for run in runs if run["name"] == name)

    return look


def write(folder: Path, *runs: str) -> None:
    for name in "ab":
        (folder / "runs" / name).mkdir(parents=True, exist_ok=True)
    (folder / "cockpit.toml").write_text("".join(runs))


def train(zoo: Zoo, name: str = "a", *args: str) -> int:
    """Start a trainer as a person does, its output redirected, and note its pid."""
    folder = zoo.folder / "runs" / name
    words = " ".join((*PYTHON, str(zoo.folder / "train.py"), *args))
    zoo.run("sh", "-c", f"{words} >> run.log & echo $! > run.pid; echo up; wait", cwd=folder)
    until(lambda: (folder / "run.log").exists() and "step 99/" in (folder / "run.log").read_text())
    return noted(folder / "run.pid")


def alerts(run: dict[str, Any]) -> dict[str, str]:
    return {alert["id"]: alert["severity"] for alert in run["alerts"]}


def job(run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run["facets"]["job"]["value"]
    return found


def aged(path: Path, age: float) -> None:
    then = time.time() - age
    os.utime(path, (then, then))


def test_a_priced_job_says_what_it_has_cost(
    zoo: Zoo, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        zoo.folder,
        RUN.format(name="a", root="a").replace("\n[run.job]", "\nprice_per_hour = 3600\n[run.job]"),
    )
    train(zoo)
    cost = check()["cost"]
    assert (cost["per"], cost["currency"], cost["per_hour"]) == ("job", "USD", 3600.0)
    assert 0 < cost["spent"] < 600
    assert cost["spent"] == pytest.approx(cost["held_s"])
    assert (cost["burning"], cost["lost_to_repeats"]) == (0.0, 0.0)
    assert cost["basis"][0] == "3,600 USD/h, by cockpit.toml"
    main(["check", "--config", str(zoo.folder / "cockpit.toml")])
    assert " USD spent (" in capsys.readouterr().out


def test_a_reader_is_never_told_to_be_stopped_and_a_second_writer_is(
    zoo: Zoo, check: Check
) -> None:
    train(zoo)
    root = zoo.folder / "runs" / "a"
    plot = " ".join((*PYTHON, "../../plot.py", "run.log"))
    zoo.run("sh", "-c", f"cd {root}; {plot}; true")
    zoo.run("sh", "-c", f"cd {root}; tail -n 1 -f run.log; true")
    zoo.run("sh", "-c", "echo wandb leet; sleep 60; true", cwd=root)
    run = check()
    assert (run["verdict"], alerts(run)) == ("healthy", {})
    zoo.add("--dir", str(root))
    run = check()
    assert alerts(run) == {"C-25": "info"}, "what --dir means to it is not known"
    assert "stop" not in run["alerts"][0]["next_action"]
    zoo.add("--output_dir", str(root))
    run = check()
    assert alerts(run) == {"C-25": "warning"}, "another script than the run's"
    zoo.run(*PYTHON, str(zoo.folder / "train.py"), "--output_dir", str(root), quiet=True)
    run = check()
    assert alerts(run) == {"C-25": "critical"} and "then stop one of them" in run["next_action"]


def test_the_recorded_process_is_known_whatever_the_clocks_say(zoo: Zoo, check: Check) -> None:
    pid = train(zoo)
    note = zoo.folder / "runs" / "a" / "run.pid"
    for age in (-7200.0, 10.0, 7200.0, DAY):
        aged(note, age)
        assert (job(check())["phase"], job(check())["id"]) == ("running", f"pid:{pid}")
    note.write_text(f"{pid}\nstart={time.time() - 7200:.2f}\n")
    assert job(check())["phase"] == "running"
    note.write_text(f"{pid}\nstart={time.time():.2f}\nticks=1\n")
    run = check()
    assert job(run)["phase"] == "unknown" and "ticks" not in (job(run)["reason"] or "")


def test_a_job_that_hung_is_not_one_that_has_not_begun(zoo: Zoo, check: Check) -> None:
    """Its pid file was touched a moment ago; its hundred log lines are older than that."""
    train(zoo)
    time.sleep(0.01)
    aged(zoo.folder / "runs" / "a" / "run.pid", -60.0)
    run = check()
    assert (job(run)["phase"], job(run)["state"]) == ("running", "running")


def test_a_finished_run_whose_pid_file_was_touched_stays_finished(zoo: Zoo, check: Check) -> None:
    root = zoo.folder / "runs" / "a"
    for name, text, age in (
        ("run.log", "step 1000/1000 loss=2.5\n", 101.0),
        ("run.exit", "0\n", 100.0),
    ):
        (root / name).write_text(text)
        aged(root / name, age)
    (root / "run.pid").write_text("4194303\n")
    assert job(check())["phase"] == "succeeded"
    (root / "run.log").write_text("step 3/1000 loss=2.5\n")
    run = check()
    assert job(run)["state"] == "gone", "a log that went on after that end is a later job's"


def test_a_restart_loop_makes_no_living_job_failed(zoo: Zoo, check: Check) -> None:
    pid = train(zoo)
    status = zoo.folder / "runs" / "a" / "run.exit"
    for age in (-1.0, 1.0, 60.0):
        status.write_text("1\n")
        aged(status, age)
        run = check()
        assert (job(run)["phase"], job(run)["id"]) == ("running", f"pid:{pid}")
        assert alerts(run) == {}


def test_a_stopped_process_is_said_at_once_and_closes_when_it_goes_on(
    zoo: Zoo, check: Check
) -> None:
    pid = train(zoo)
    shell = process_facts(pid)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: process_facts(pid).stopped)
    run = check()
    assert shell.alive and (run["verdict"], alerts(run)) == ("attention", {"C-06": "alert"})
    assert (job(run)["state"], run["progress"]["eta_s"]) == ("stopped", None)
    assert f"kill -CONT {pid}" in run["next_action"]
    wrapper = next(each for each in zoo.pids if each != pid)
    (zoo.folder / "runs" / "a" / "run.pid").write_text(f"{wrapper}\n")
    run = check()
    assert job(run)["state"] == "stopped" and f"pid {pid} " in job(run)["reason"]
    os.kill(pid, signal.SIGCONT)
    until(lambda: not process_facts(pid).stopped)
    run = check()
    assert (job(run)["state"], alerts(run)) == ("running", {})


def test_two_runs_with_one_root_are_critical_only_while_both_live(zoo: Zoo, check: Check) -> None:
    write(zoo.folder, RUN.format(name="a", root="a"), RUN.format(name="b", root="a"))
    train(zoo)
    run = check()
    assert alerts(run) == {"C-25": "warning"}
    assert "run b in cockpit.toml writes to the same place" in run["alerts"][0]["title"]
    train(zoo, "b")
    for name in "ab":
        assert alerts(check(name)) == {"C-25": "critical"}


def test_a_pid_that_nothing_ties_to_the_run_is_unknown_with_its_reason(
    zoo: Zoo, check: Check
) -> None:
    """Copied from another machine, or left behind by a job whose number is used again."""
    stranger = zoo.add(cwd=Path("/"))
    note = zoo.folder / "runs" / "a" / "run.pid"
    note.write_text(f"{stranger}\n")
    aged(note, DAY)
    run = check()
    assert (job(run)["phase"], alerts(run)) == ("unknown", {"C-02": "warning"})
    assert "nothing ties it to this run" in run["facets"]["job"]["error"]["message"]
    note.write_text(f"{stranger}\nstart={time.time():.2f}\nticks=1\n")
    assert "now belongs to another process" in job(check())["reason"]


def test_a_container_s_own_pid_is_not_taken_for_init(zoo: Zoo, check: Check) -> None:
    """Everything descends from process 1; a stranger's stopped process is not this run's."""
    train(zoo)
    (zoo.folder / "runs/a/run.pid").write_text("1\n")
    aged(zoo.folder / "runs/a/run.log", 3600)
    run = check()
    assert job(run)["phase"] == "unknown"
    assert not {"C-06", "C-01"} & set(alerts(run))


NOW = T0 + 1000.0


def resumed(*logged: Row, tracked_at: float) -> RunReport:
    told = tracker(step=90, loss=2.08, throughput=9.46, last_step_at=tracked_at)
    now = table_figures_job(Phase.RUNNING, started_at=T0 + 500)
    return report(run_spec(), now=NOW, job=now, tracker=told, log=log(rows=logged))


def painted(found: RunReport) -> tuple[str, str]:
    return rows.loss(found, NOW).plain, rows.throughput(found, NOW).plain


def test_a_former_job_s_loss_and_rate_are_not_shown_as_the_present_one_s() -> None:
    """After a resume, until the new job's first row has come."""
    found = resumed(tracked_at=T0 + 400)
    assert (loss_text(found), rate_text(found), *painted(found)) == ("?", "?", "?", "?")
    logged = resumed(Row(80, T0 + 390, 2.5), Row(180, T0 + 600, 0.1039), tracked_at=T0 + 400)
    assert (loss_text(logged), painted(logged)[0]) == ("0.104", "0.104")
    old = resumed(Row(80, T0 + 390, 2.5), tracked_at=T0 + 400)
    assert (loss_text(old), painted(old)[0]) == ("?", "?")


def test_the_present_job_s_own_are() -> None:
    found = resumed(tracked_at=T0 + 600)
    assert loss_text(found) == painted(found)[0] == "2.080"
    assert rate_text(found).startswith("9.46") and painted(found)[1].startswith("9.46")


WANDB_IDS_T0 = 1_700_000_000.0


def started(folder: Path, run_id: str, day: int, loss: str) -> None:
    """Leave what a start of a trainer leaves."""
    directory = folder / f"offline-run-2026010{day}_000000-{run_id}"
    directory.mkdir(parents=True)
    rows = [writer.row(step, loss, WANDB_IDS_T0 + step) for step in range(3)]
    data = writer.log([writer.run(run_id, WANDB_IDS_T0 + day), *rows])
    (directory / f"run-{run_id}.wandb").write_bytes(data)


def trackers(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> dict[str, Any]:
    """Return each run's tracker facet, as ``check`` tells it."""
    (folder / "cockpit.toml").write_text(text)
    main(["check", "--json", "--config", str(folder / "cockpit.toml")])
    runs = json.loads(capsys.readouterr().out)["runs"]
    return {run["name"]: run["facets"]["tracker"] for run in runs}


def test_an_id_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(tmp_path / "wandb", "q1w2e3r4", 1, "3.5")
    started(tmp_path / "wandb", "t5z6u7i8", 2, "2.5")
    text = '[[run]]\nname = "a"\nwandb = { dir = "wandb", id = "my-run" }\n'
    found = trackers(capsys, tmp_path, text)["a"]
    assert found["value"] is None and found["error"]["kind"] == "not_found"
    assert "there: t5z6u7i8, q1w2e3r4" in found["error"]["message"]
    assert main(["doctor", "--config", str(tmp_path / "cockpit.toml")]) == 1
    assert "without wandb.id the newest is read" in capsys.readouterr().out
    found = trackers(capsys, tmp_path, '[[run]]\nname = "a"\nwandb = { dir = "wandb" }\n')["a"]
    assert (found["value"]["id"], found["value"]["loss"]) == ("t5z6u7i8", 2.5)


def test_two_runs_that_read_one_folder_without_ids_are_told_that_nobody_knows_whose_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(tmp_path / "wandb", "q1w2e3r4", 1, "3.5")
    both = (
        '[[run]]\nname = "a"\nwandb = {{ dir = "wandb" }}\n[[run]]\nname = "b"\nwandb = {{ {} }}\n'
    )
    found = trackers(capsys, tmp_path, both.format('dir = "./wandb"'))
    assert {name: each["value"] for name, each in found.items()} == {"a": None, "b": None}
    assert found["a"]["error"]["message"].startswith("b reads the same folder")
    assert "set wandb.id, or one dir each" in found["b"]["error"]["message"]
    found = trackers(capsys, tmp_path, both.format('dir = "wandb", id = "q1w2e3r4"'))
    assert found["b"]["value"]["id"] == "q1w2e3r4" and found["a"]["value"] is None


RUN_FILE = """
[cockpit]
operator = "ada"
cadence = "5m"

[[run]]
name = "toy"
dri = "ada"
output_root = "{root}"
resubmit = "true"
job = {{ kind = "local", log = "logs/toy.txt", pid_file = "state/toy.pid", exit_file = "toy.exit" }}
monitor = {{ state = "scratch/*_monitoring_state.json", events = "scratch/monitor.events" }}
records = {{ logbook = "book/toy.md", run_log = "book/run_logs/toy.md" }}
code = {{ repo = "." }}
"""


def checkout(tmp_path: Path, root: str = "outputs/run1") -> Path:
    repo = repository(tmp_path / "code")
    (repo / "cockpit.toml").write_text(RUN_FILE.format(root=root))
    (repo / "book").mkdir()
    (repo / "book/toy.md").write_text("# Toy\n")
    commit(repo, "run file")
    git(repo, "push", "-q")
    return repo


async def code_of(repo: Path, **launched: str) -> CodeValue:
    file = load(repo / "cockpit.toml")
    facet = (await Code(SystemClock()).observe(file.runs, launched))["toy"]
    assert facet.value is not None, facet.error
    return facet.value


def counting(repo: Path, *paths: str) -> list[str]:
    spec = load(repo / "cockpit.toml").runs[0].code
    assert spec is not None
    return [path for _, path in worst_first(paths, spec)]


WRITTEN = (
    "outputs/run1/.cockpit/claim.lock",
    "outputs/run1/step-5/weights.bin",
    "outputs/run1/step-5/config.json",
    "logs/toy.txt",
    "state/toy.pid",
    "toy.exit",
    "toy.exit.4211.new",
    "toy.exit.123",
    "scratch/20260311-0855_monitoring_state.json",
    "scratch/monitor.events",
    "book/toy.md",
    "book/run_logs/toy.md",
    ".cockpit/told.md",
)


async def test_what_the_cockpit_and_the_run_write_never_counts(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    for name in WRITTEN:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("x\n")
    (repo / "cockpit.toml").write_text((repo / "cockpit.toml").read_text() + "\n# edited\n")
    value = await code_of(repo)
    assert (value.dirty, value.untracked, value.patch_id) == ((), (), None)
    assert counting(repo, *WRITTEN, "cockpit.toml") == []


async def test_code_beside_or_inside_an_output_folder_still_counts(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    (repo / "outputs/run1/.cockpit").mkdir(parents=True)
    (repo / "outputs/run1/.cockpit/claim.lock").touch()
    (repo / "outputs/model.py").write_text("width = 2\n")
    value = await code_of(repo)
    assert counting(repo, *value.dirty) == ["outputs/model.py"]
    assert counting(repo, "outputs/run1/train.py", "outputs/run10/a.bin", "toy.exits.py") == [
        "outputs/run1/train.py", "outputs/run10/a.bin", "toy.exits.py",
    ]  # fmt: skip


@pytest.mark.parametrize("root", [".", "..", "/elsewhere/out"])
async def test_an_output_root_that_holds_the_repository_hides_no_code(
    tmp_path: Path, root: str
) -> None:
    repo = checkout(tmp_path, root)
    assert counting(repo, "model.py", "new/", ".cockpit/x") == ["model.py", "new/"]


async def test_commits_are_compared_by_what_they_change(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    launched = git(repo, "rev-parse", "HEAD")
    shas = [launched]
    for number in range(3):
        (repo / "book/toy.md").write_text(f"# Toy\n{number}\n")
        shas.append(commit(repo, "toy: log check"))
    (repo / "README.md").write_text("prose\n")
    shas.append(commit(repo, "prose"))
    value = await code_of(repo, toy=shas[1])
    assert all(same_code(value, one, other) for one in shas for other in shas)
    (repo / "train.py").write_text("lr = 9\n")
    changed = commit(repo, "another rate")
    (repo / "book/toy.md").write_text("# Toy\nlater\n")
    later = commit(repo, "toy: log check")
    value = await code_of(repo, toy=shas[1])
    assert same_code(value, shas[0], shas[-1]) and not same_code(value, shas[0], changed)
    assert not same_code(value, shas[0], later)
    assert not same_code(value, "0" * 40, shas[0])


def test_a_launch_plan_is_not_stopped_by_what_its_own_first_act_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = checkout(tmp_path)
    (repo / "outputs/run1/.cockpit").mkdir(parents=True)
    (repo / "outputs/run1/.cockpit/claim.lock").touch()
    main(["relaunch", "toy", "--config", str(repo / "cockpit.toml"), "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    said = [check["text"] for check in checks if check["id"].startswith("C-15")]
    assert said and not any("uncommitted" in text for text in said), said


def test_the_run_file_cannot_say_what_is_the_cockpits(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    text = (repo / "cockpit.toml").read_text()
    (repo / "cockpit.toml").write_text(text.replace('repo = "."', 'repo = ".", own_files = ["**"]'))
    with pytest.raises(Exception, match="own_files"):
        load(repo / "cockpit.toml")


def test_a_name_in_any_folder_is_known_by_its_whole_part(tmp_path: Path) -> None:
    spec = load(checkout(tmp_path) / "cockpit.toml").runs[0].code
    assert spec is not None
    assert touches("a/b/.cockpit/launches/x", spec) is Touches.IGNORE
    assert touches("a/my.cockpit/x.py", spec) is Touches.TRAJECTORY
