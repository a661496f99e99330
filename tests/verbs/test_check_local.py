"""What ``check`` says of real processes of this machine, and never says."""

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
from cockpit.runtime.process import process_facts
from tests.platforms.local.zoo import PYTHON, Zoo, noted
from tests.waiting import until

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
