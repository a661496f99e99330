"""``check`` of a run whose files lie on an ssh host: it looks once more at what it has read.

A run without ``[run.job]`` is known by its steps alone: where those stop, it is not well.

What a job is, held against its record through the real entry; and a look-alike that is well.

Several logs of one job through ``check``: each is read for why the job ended.

C-12 through ``check``: who restarted it does not matter, and an empty bar is no step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import state_dir
from cockpit.model.base import rfc3339
from cockpit.sources.logs.follow import FIRST
from cockpit.sources.logs.source import WHOLE
from tests.sources.git.repos import git, repository
from tests.sources.wandb import writer
from tests.sshd import needs_sshd, serving
from tests.verbs.acting_run import World
from tests.verbs.checking import check
from tests.verbs.tiny_run import TinyRun

FACETS = ["job", "log", "tracker", "checkpoints", "monitor", "host", "code", "records"]
RUN = {
    "cost", "goodput", "name", "owner", "verdict", "verdict_reason", "facets", "progress", "alerts",
    "next_action",
}  # fmt: skip
FACET = {"value", "source", "observed_at", "age_s", "error"}
PROGRESS = {
    "step", "step_source", "final_step", "final_step_source", "final_step_doubt", "text", "eta_s",
}  # fmt: skip
ALERT = {
    "id", "key", "severity", "title", "since", "since_or_before", "no_success", "evidence",
    "confidence", "next_action", "acknowledged",
}  # fmt: skip
VALUES = {
    "job": {
        "id", "state", "phase", "tasks", "reason", "exit_code", "pending_since", "started_at",
        "ended_at", "restarts", "launch_id", "children", "diagnostic",
    },
    "log": {"path", "size", "mtime", "last_line_at", "lines", "triage"},
    "checkpoints": {"latest_complete", "relaunch_from", "trainer_would_load", "items"},
    "monitor": {"fresh", "last_update", "cadence_s", "owner", "restart_count", "others"},
    "host": {"disks", "mem_frac", "oom_kills", "load", "gpus"},
}  # fmt: skip


def checked(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, Any]]:
    code = main(["check", "--json", "--config", str(tiny.config), *words])
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    return code, document


def test_the_document_has_interface_s_shape(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = checked(tiny, capsys)
    assert code == 0
    assert list(document) == ["schema", "checked_at", "runs"]
    assert document["schema"] == 1
    (run,) = document["runs"]
    assert run.keys() == RUN
    assert list(run["facets"]) == FACETS
    assert all(facet.keys() == FACET for facet in run["facets"].values())
    assert run["progress"].keys() == PROGRESS
    for name, keys in VALUES.items():
        assert run["facets"][name]["value"].keys() >= keys, name
    assert run["facets"]["tracker"]["error"]["kind"] == "not_configured"


def test_a_healthy_run_is_seen_as_it_is(tiny: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = checked(tiny, capsys)
    (run,) = document["runs"]
    assert (code, run["verdict"], run["alerts"]) == (0, "healthy", [])
    assert run["facets"]["job"]["value"]["phase"] == "running"
    assert run["facets"]["checkpoints"]["value"]["latest_complete"] == 10
    assert run["progress"]["text"] == f"~{run['progress']['step']}/1000"


def test_a_dead_run_is_critical_with_its_triage(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.die()
    code, document = checked(tiny, capsys)
    (run,) = document["runs"]
    assert (code, run["verdict"]) == (1, "critical")
    alert = run["alerts"][0]
    assert alert.keys() == ALERT
    assert (alert["id"], alert["severity"]) == ("C-01", "critical")
    assert alert["evidence"] and alert["evidence"][0].keys() == {"text", "source"}
    assert run["facets"]["log"]["value"]["triage"].keys() >= {
        "class", "action", "confidence", "evidence", "code_location", "step",
    }  # fmt: skip


def test_check_writes_nothing(tiny: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.die()
    before = {path: path.stat().st_mtime_ns for path in tiny.folder.rglob("*")}
    checked(tiny, capsys)
    assert {path: path.stat().st_mtime_ns for path in tiny.folder.rglob("*")} == before
    assert not state_dir().exists()


def test_a_later_now_finds_the_monitor_stale(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = checked(tiny, capsys, "--now", "2099-01-01T00:00:00Z")
    assert document["checked_at"] == "2099-01-01T00:00:00.000Z"
    assert "C-03" in [alert["id"] for alert in document["runs"][0]["alerts"]]
    assert code == 1


def test_a_half_written_state_file_is_an_unknown_facet_and_the_rest_works(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = (tiny.folder / "scratch").iterdir()
    state.write_text('{"ts": 17')
    code, document = checked(tiny, capsys)
    (run,) = document["runs"]
    assert code == 1
    assert run["facets"]["monitor"]["value"] is None
    assert run["facets"]["monitor"]["error"]["message"]
    assert run["facets"]["job"]["value"]["phase"] == "running"


def test_nothing_that_can_be_observed_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "r"\njob = { kind = "slurm", id = "1", host = "nowhere" }\n')
    assert main(["check", "--config", str(path)]) == 3
    assert "UNKNOWN" in capsys.readouterr().out


def test_the_table_is_aligned_and_the_worst_is_first(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with tiny.config.open("a") as file:
        file.write('\n[[run]]\nname = "gone"\njob = { kind = "local", pid_file = "x", ')
        file.write('exit_file = "bad.exit" }\n')
    (tiny.folder / "bad.exit").write_text("3\n")
    assert main(["check", "--config", str(tiny.config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if not line.startswith(" ")]
    assert [row.split()[:2] for row in rows] == [
        ["VERDICT", "RUN"],
        ["CRITICAL", "gone"],
        ["HEALTHY", "tiny"],
    ]
    column = rows[0].index("STEP")
    assert all(row[column - 1] == " " and row[column] != " " for row in rows)
    assert any("C-01 critical" in line for line in lines)


@needs_sshd
@pytest.mark.parametrize("wide", [False, True], ids=["in one piece", "in many"])
def test_rows_that_were_all_read_are_not_said_to_be_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    now = time.time()
    rows = [
        writer.row(step, "2.5", now - 30 + step * 0.001, pad='"' + "x" * 900 + '"')
        for step in range(4000 if wide else 20)
    ]
    with serving(tmp_path) as sshd:
        monkeypatch.setenv("PATH", f"{sshd.root}/bin:{os.environ['PATH']}")
        path = sshd.home / "w/offline-run-20260101_000000-r1/run-r1.wandb"
        path.parent.mkdir(parents=True)
        path.write_bytes(writer.log([writer.run("r1", now - 31), *rows]))
        (tmp_path / "cockpit.toml").write_text(
            f'[[run]]\nname = "toy"\nwandb = {{ dir = "ssh://{sshd.host}/~/w", id = "r1" }}\n'
        )
        value = check(tmp_path)["facets"]["tracker"]["value"]
        assert (value["step"], value["scanned"]) == (len(rows) - 1, 1.0)
        assert main(["check", "--config", str(tmp_path / "cockpit.toml")]) == 0


BEGAN = datetime.fromisoformat("2026-03-11T08:00:00Z").timestamp()
RUN_FILE = """
[cockpit]
cadence = "15m"
[[run]]
name = "jobless"
dri = "ada"
final_step = 10000
wandb = { id = "jobless", dir = "wandb" }
"""


def judged(folder: Path, stopped_for: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What check says ``stopped_for`` seconds after the last of 300 steps, one a second."""
    (folder / "cockpit.toml").write_text(RUN_FILE)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    tracked = folder / "wandb" / "offline-run-20260311_080000-jobless"
    tracked.mkdir(parents=True)
    file = tracked / "run-jobless.wandb"
    rows = [writer.row(step, "2.5", BEGAN + step) for step in range(300)]
    file.write_bytes(writer.log([writer.run("jobless", BEGAN), *rows]))
    os.utime(file, (BEGAN + 300, BEGAN + 300))
    return check(folder, rfc3339(BEGAN + 299 + stopped_for))


@pytest.mark.parametrize(
    ("stopped_for", "verdict", "says"),
    [
        (5.0, "healthy", "nothing to do until the next check"),
        (17 * 60.0, "unknown", "steps stopped 17m ago; no job is configured"),
        (45 * 60.0, "attention", ""),
    ],
)
def test_steps_that_stopped_make_no_run_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_for: float, verdict: str, says: str
) -> None:
    run = judged(tmp_path, stopped_for, monkeypatch)
    assert run["verdict"] == verdict
    assert says in run["next_action"]
    assert (run["progress"]["eta_s"] is not None) is (verdict == "healthy")


LINEAGE_RUN_FILE = """
[cockpit]
cadence = "2m"
operator = "ada"

[[run]]
name = "toy"
output_root = "out"
final_step = 1000
job = { kind = "local", log = "out/log.txt", pid_file = "out/run.pid" }
wandb = { entity = "e", project = "p", id = "toy", dir = "wandb" }
checkpoints = { path = "out/ck", layout = "levanter" }
code = { repo = "code" }
records = { logbook = "book.md" }
monitor = { state = "*_monitoring_state.json" }
"""
LOGBOOK = """# Toy: Hero Run Logbook

## Launched Instances

### 2026-01-02 03:04 UTC - toy-i001
- Command: `python train.py`
- Git SHA: {sha}
"""

LONG_AGO = 1_700_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A job that lives, at its recorded commit, with one complete and one torn checkpoint."""
    (tmp_path / "cockpit.toml").write_text(LINEAGE_RUN_FILE)
    repo = repository(tmp_path / "code")
    for step, whole in ((40, False), (50, True)):
        place = tmp_path / f"out/ck/step-{step}"
        place.mkdir(parents=True)
        (place / "weights").write_bytes(b"w")
        if whole:
            (place / "metadata.json").write_text(json.dumps({"step": step}))
        for each in (*place.iterdir(), place):
            os.utime(each, (LONG_AGO, LONG_AGO))  # nobody writes it any more
    (tmp_path / "book.md").write_text(LOGBOOK.format(sha=git(repo, "rev-parse", "HEAD")))
    told(tmp_path, page="toy", step=50)
    job = subprocess.Popen(["sleep", "600"], cwd=tmp_path)
    (tmp_path / "out/run.pid").write_text(f"{job.pid}\n")
    yield tmp_path
    job.kill()
    job.wait()


def told(folder: Path, page: str, step: int, last: str = "step 52 loss 2.3") -> None:
    """Write what the trainer prints and what its monitor holds."""
    address = f"https://wandb.ai/e/p/runs/{page}"
    lines = (
        f"wandb: View run toy at: {address}",
        f"Resuming from checkpoint {folder}/out/ck/step-{step}",
        "step 51 loss 2.4",
        last,
    )
    (folder / "out/log.txt").write_text("".join(f"{line}\n" for line in lines))
    state = {"job_id": "toy", "owner": "ada", "wandb_url": address}
    (folder / "toy_monitoring_state.json").write_text(json.dumps(state))


WATCHED = ("C-13", "C-15", "C-16", "C-17", "C-18", "C-26")


def opened(folder: Path) -> dict[str, list[str]]:
    alerts = [each for each in check(folder)["alerts"] if each["id"] in WATCHED]
    return {each["id"]: [line["text"] for line in each["evidence"]] for each in alerts}


def test_a_job_that_is_what_the_record_says_opens_none_of_them(folder: Path) -> None:
    (folder / "code/notes.md").write_text("a thought")
    (folder / "code/out.pt").write_bytes(b"x")
    assert opened(folder) == {}


def test_another_page_other_code_a_torn_checkpoint_and_a_notice(folder: Path) -> None:
    told(folder, page="abc", step=40, last="Preemption notice received, 30 s left")
    (folder / "code/train.py").write_text("lr = 2")
    git(folder / "code", "add", ".")
    git(folder / "code", "commit", "-q", "-m", "x")
    found = opened(folder)
    assert sorted(found) == ["C-13", "C-15", "C-17", "C-26"]
    assert [text.split(" https")[0] for text in found["C-13"]] == [
        "the log names", "the state file holds",
    ]  # fmt: skip
    assert found["C-15"][0].endswith(": train.py (affects training)")
    assert found["C-17"][0].startswith("step 40 is incomplete")


LOGS_RUN_FILE = """
[cockpit]
operator = "ada"
[[run]]
name = "toy"
final_step = 600
[run.job]
kind = "local"
log = ["run.out", "run.err"]
exit_file = "run.exit"
"""
TRACEBACK = """Traceback (most recent call last):
  File "/home/u/train.py", line 12, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 3 has a total
"""


def test_what_ended_it_stands_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "cockpit.toml").write_text(LOGS_RUN_FILE)
    (tmp_path / "run.err").write_text(TRACEBACK)
    (tmp_path / "run.out").write_text("".join(f"step {at}/600 loss 2.5\n" for at in range(9)))
    (tmp_path / "run.exit").write_text("1\n")
    found = check(tmp_path)
    log = found["facets"]["log"]["value"]
    assert log["path"] == str(tmp_path / "run.out")
    assert [each["path"] for each in log["others"]] == [str(tmp_path / "run.err")]
    assert log["triage"]["class"] == "oom_device"
    ended = next(each for each in found["alerts"] if each["id"] == "C-01")
    assert any(each["source"].startswith(str(tmp_path / "run.err")) for each in ended["evidence"])


RESTARTS_RUN_FILE = """
[cockpit]
cadence = "60s"
operator = "ada"
[[run]]
name = "toy"
final_step = 600
job = { kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }
checkpoints = { path = "checkpoints", layout = "levanter" }
"""
BAR = "{percent:3}%|█  | {step}/600 [00:02<04:53,  1.00it/s]"


def c12(folder: Path) -> list[str]:
    return [alert["title"] for alert in check(folder)["alerts"] if alert["id"] == "C-12"]


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Path]:
    """A run with a complete checkpoint at 460 that somebody has started again by hand."""
    saved = tmp_path / "checkpoints" / "step-460"
    saved.mkdir(parents=True)
    (saved / "metadata.json").write_text('{"step": 460}')
    (saved / "arrays").write_bytes(b"x" * 100)
    for path in (saved / "metadata.json", saved / "arrays"):
        os.utime(path, (time.time() - 600, time.time() - 600))
    (tmp_path / "cockpit.toml").write_text(RESTARTS_RUN_FILE)
    trainer = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (tmp_path / "run.pid").write_text(f"{trainer.pid}\n")
    yield tmp_path
    trainer.kill()
    trainer.wait(60)


def test_a_reset_to_step_0_is_seen_whoever_restarted_it(restarted: Path) -> None:
    (restarted / "run.log").write_text("step 29/600 loss=5.1\n")
    assert c12(restarted) == ["Restarted at step 29 although step 460 was there"]


def test_an_empty_bar_is_no_step(restarted: Path) -> None:
    log = restarted / "run.log"
    log.write_text("  0%|          | 0/600 [00:00<?, ?it/s]")
    assert c12(restarted) == [] and check(restarted)["progress"]["step"] is None
    log.write_text("  0%|   | 0/600 [00:00<?, ?it/s]\r" + BAR.format(percent=77, step=461) + "\r")
    assert c12(restarted) == []
    log.write_text("  0%|   | 0/600 [00:00<?, ?it/s]\r" + BAR.format(percent=1, step=4) + "\r")
    assert c12(restarted) == ["Restarted at step 4 although step 460 was there"]


TRAINER = """
import os, sys, time
sys.stderr.write("  0%|          | 0/300 [00:00<?, ?it/s]\\r")
sys.stderr.flush()
while not os.path.exists("go"):
    time.sleep(0.05)
for step in range(41, 300):
    sys.stderr.write(f" 14%|█         | {step}/300 [00:02<00:51,  5.00it/s]\\r")
    sys.stderr.flush()
    time.sleep(0.1)
"""


def test_our_own_relaunch_that_draws_an_empty_bar_first_is_right(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("toy")
    (tmp_path / "code" / "trainer.py").write_text(TRAINER)
    subprocess.run(["git", "commit", "-qam", "bar"], cwd=tmp_path / "code", check=True)
    subprocess.run(["git", "push", "-q"], cwd=tmp_path / "code", check=True)
    world.save("toy", 20, 40)
    world.ended("toy", 137, "step 44/300 loss=2.1", "Killed")
    try:
        approved = ("--approve", "C-15", "--by", "ada", "--reason", "a trainer with a bar")
        world.said("relaunch", "toy")
        done = world.said("relaunch", "toy", "--confirm", "relaunch toy", *approved)
        assert done.returncode == 0, done.stdout + done.stderr
        log = tmp_path / "out" / "toy.log"
        world.until(log.exists)
        seen = {alert["id"] for alert in check(tmp_path)["alerts"]}
        (tmp_path / "code" / "go").touch()
        while "50/300" not in log.read_text():
            seen |= {alert["id"] for alert in check(tmp_path)["alerts"]}
            time.sleep(0.1)
        assert "C-12" not in seen | {alert["id"] for alert in check(tmp_path)["alerts"]}
        history = world.told("history", "toy")[1]
        assert "step 0" not in json.dumps(history)
    finally:
        world.close()


def stamped(steps: range, padding: str) -> str:
    """Lines of a trainer that is quick and says when: all of them since the job's start."""
    begun = datetime.now()
    times = (begun + timedelta(milliseconds=2 * at) for at in range(len(steps)))
    return "".join(
        f"{at:%Y-%m-%d %H:%M:%S.%f} INFO {padding} step {step}/600 loss=2.5\n"
        for at, step in zip(times, steps, strict=True)
    )


def test_a_fresh_look_tells_the_first_step_only_where_it_has_seen_it(restarted: Path) -> None:
    log = restarted / "run.log"
    log.write_text(stamped(range(401, 459), "x" * 700))
    assert FIRST < log.stat().st_size < WHOLE
    assert c12(restarted) == ["Restarted at step 401 although step 460 was there"]


def test_of_a_log_read_from_near_its_end_the_first_step_is_only_the_latest(restarted: Path) -> None:
    log = restarted / "run.log"
    log.write_text(("x" * 700 + "\n") * 800 + stamped(range(401, 459), "x" * 700))
    assert log.stat().st_size > WHOLE
    (title,) = c12(restarted)
    assert title.startswith("Restarted at or before step 4") and title.endswith(
        " although step 460 was there"
    )
