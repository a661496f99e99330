"""What ``check`` says of steps and times is true of the run's own files.

Why a job ended, through ``check`` and the plan of a relaunch: real logs, a real launcher.

What lies in the store's place, or who locks it, costs the history and no time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.hosts.launches import start
from cockpit.hosts.supervisor import Launch
from cockpit.model.base import rfc3339
from cockpit.sources.logs import follow
from cockpit.sources.wandb import fragment
from cockpit.store import store
from cockpit.store.store import Store
from cockpit.watch import onepass
from tests.sources.wandb import writer
from tests.verbs.acting_run import World
from tests.verbs.checking import check
from tests.verbs.seen_run import SeenRun, alert, ids, living, steps_of


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[bytes]]:
    yield from living()


@pytest.fixture
def seen(tmp_path: Path, process: subprocess.Popen[bytes]) -> SeenRun:
    return SeenRun(tmp_path, process)


def test_the_newest_step_wins_and_names_its_source(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", at) for step, at in steps_of(0, 46)], 48)
    seen.log("".join(f"iter {step}/300: loss 2.5\n" for step in range(75)), 76)
    progress = seen.check(capsys, 77)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~74/300", "log")
    assert progress["eta_s"] == pytest.approx(300 - 74)
    seen.saved(80, 84)
    progress = seen.check(capsys, 85)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~80/300", "checkpoints")


def test_a_step_of_the_former_job_does_not_win_by_being_larger(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.saved(240, -30)
    early = [seen.row(step, "2.5", step - 300.0) for step in range(200, 251)]
    seen.tracked(early, -50)
    seen.log("".join(f"iter {step}/300: loss 2.5\n" for step in (*range(200, 251), 205)), 12)
    progress = seen.check(capsys, 14)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~205/300", "log")


def test_before_its_first_step_a_running_job_has_none(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", step - 300.0) for step in range(200, 251)], -50)
    seen.log("loading the model\n", 1)
    progress = seen.check(capsys, 5)["progress"]
    assert (progress["text"], progress["step_source"]) == ("unknown/300", None)


def test_a_copied_checkpoint_is_no_progress(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", at) for step, at in steps_of(100, 150)], 53)
    seen.saved(290, 52)
    assert seen.check(capsys, 54)["progress"]["text"] == "~150/300"


def test_a_count_of_calls_is_no_step(seen: SeenRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The trainer calls ``log`` twice a step and logs no step of its own."""
    calls = [
        writer.history(call, {"_step": f"{call}", "_timestamp": f"{seen.start + call / 2}", **more})
        for call in range(2, 302)
        for more in [{"loss": "2.5"} if call % 2 else {"lr": "0.1"}]
    ]
    seen.tracked(calls, 151)
    moments = [time.strftime("%F %T", time.gmtime(seen.start + step)) for step in range(151)]
    lines = [f"{at} UTC iter {step}/300: loss 2.5\n" for step, at in enumerate(moments)]
    seen.log("".join(lines), 151)
    progress = seen.check(capsys, 152)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~150/300", "log")


def test_a_bar_that_is_drawn_counts_before_it_is_overwritten(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = "".join(
        f"\r {step // 3}%|██        | {step}/300 [00:{step}<04:01,  1.00it/s, loss=2.5]"
        for step in range(1, 60)
    )
    seen.log(bars, 60)
    run = seen.check(capsys, 61)
    assert run["progress"]["text"] == "~59/300"
    assert "59/300" in run["facets"]["log"]["value"]["lines"][-1]


def test_the_end_is_told_by_the_log_where_the_tracker_lost_its_last_rows(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", at) for step, at in steps_of(0, 280)], 282)
    seen.log("".join(f"iter {step}/300: loss 2.5\n" for step in range(1, 301)), 302)
    (seen.folder / "run.exit").write_text("0\n")
    assert seen.check(capsys, 310)["progress"]["text"] == "~300/300"


BROKEN, LAST = 130, 3600
LINE = "iter {step}: loss {loss}, time 2.31ms, mfu 31.00%\n"


def half_read(seen: SeenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of which a check reads the newest rows only; the loss broke long before those."""
    rows = [
        seen.row(step, "2.5" if step < BROKEN else "NaN", 1 + step / 100)
        for step in range(LAST + 1)
    ]
    seen.tracked(rows, 1 + LAST / 100)
    monkeypatch.setattr(fragment, "CHUNK_BYTES", 4096)
    monkeypatch.setattr(onepass, "ROWS_BUDGET", 0.05)
    monkeypatch.setattr(onepass, "RECENT", 50)


def test_a_file_that_was_not_read_whole_in_time_says_so(
    seen: SeenRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    half_read(seen, monkeypatch)
    run = seen.check(capsys, 40)
    found = alert(run, "C-09")
    assert found["title"].startswith("Loss is NaN at or before step 3,")
    assert found["since_or_before"]
    assert "at or before" in found["evidence"][0]["text"]
    assert 0 <= run["facets"]["tracker"]["value"]["scanned"] < 1
    seen.tracked([seen.row(step, "2.5", 1 + step / 100) for step in range(LAST)], 1 + LAST / 100)
    now = rfc3339(seen.start + 40)
    assert main(["check", "--config", str(seen.config), "--now", now]) == 1
    assert "of the tracker's rows were read in time" in capsys.readouterr().out


def test_a_file_that_was_read_whole_names_the_first_step(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [seen.row(step, "2.5" if step < 30 else "NaN", 1 + step / 9) for step in range(300)]
    seen.tracked(rows, 35)
    found = alert(seen.check(capsys, 36), "C-09")
    assert (found["title"], found["since_or_before"]) == ("Loss is NaN at step 30", False)


def test_the_first_broken_line_of_a_log_is_found_above_its_tail(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = ("2.5" if step < BROKEN else "nan" for step in range(LAST))
    seen.log("".join(LINE.format(step=n, loss=loss) for n, loss in enumerate(losses)), 40)
    found = alert(seen.check(capsys, 41), "C-09")
    assert (found["title"], found["since_or_before"]) == ("Loss is NaN at step 130", False)


def test_a_trouble_that_was_over_is_not_the_first(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {130, 131, *range(2000, LAST)}
    losses = ("nan" if step in bad else "2.5" for step in range(LAST))
    seen.log("".join(LINE.format(step=n, loss=loss) for n, loss in enumerate(losses)), 40)
    assert alert(seen.check(capsys, 41), "C-09")["title"] == "Loss is NaN at step 2,000"


def test_beyond_what_is_looked_through_the_step_is_only_the_latest(
    seen: SeenRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST_EARLIER", 20_000)
    monkeypatch.setattr(follow, "EARLIER_CHUNK", 10_000)
    monkeypatch.setattr("cockpit.sources.logs.source.WHOLE", 0)
    losses = ("2.5" if step < BROKEN else "nan" for step in range(LAST))
    seen.log("".join(LINE.format(step=n, loss=loss) for n, loss in enumerate(losses)), 40)
    found = alert(seen.check(capsys, 41), "C-09")
    assert found["title"].startswith("Loss is NaN at or before step 2,")
    assert "at least" in found["evidence"][0]["text"]


def test_a_zero_beside_a_gradient_that_is_no_number_is_no_loss(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        seen.row(step, "2.5" if step < 30 else "0.0", step / 9, **{"train/grad_norm": norm})
        for step in range(1, 300)
        for norm in ["1.5" if step < 30 else "NaN"]
    ]
    seen.tracked(rows, 34)
    found = alert(seen.check(capsys, 36), "C-09")
    assert found["title"] == "Loss is 0.0 beside a grad norm of NaN at step 30"
    fine = [seen.row(step, "0.0", step / 9, **{"train/grad_norm": "0.0"}) for step in range(1, 300)]
    seen.tracked(fine, 34)
    assert "C-09" not in ids(seen.check(capsys, 36))


def test_the_log_of_a_trainer_that_writes_zeros_says_it_too(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = "\r {part}%|##   | {step}/300 [00:01<00:02,  9.0it/s]"
    said = "{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 5e-05, 'epoch': 0.26}}\n"
    text = ""
    for step in range(10, 301, 10):
        text += bar.format(part=step // 3, step=step) + "\r" + " " * 60 + "\r"
        fine = step < 130
        text += said.format(loss=2.31 if fine else 0.0, norm=1.5 if fine else "nan")
    seen.log(text, 40)
    run = seen.check(capsys, 41)
    assert alert(run, "C-09")["title"] == "Loss is 0.0 beside a grad norm of NaN at step 130"
    assert run["progress"]["text"] == "~300/300"


AHEAD = 7200.0


def beats(seen: SeenRun, first: float, last: float, off: float = 0.0) -> list[bytes]:
    """What the client writes every 15 s, whatever training does."""
    moments = range(round(first), round(last) + 1, 15)
    return [writer.stats(seen.start + at + off) for at in moments]


def offset(run: dict[str, Any], facet: str = "tracker") -> float | None:
    found: float | None = run["facets"][facet]["value"]["clock_offset_s"]
    return found


@pytest.mark.parametrize("off", [AHEAD, -AHEAD, 100.0, -1234.0])
@pytest.mark.parametrize("client", [True, False])
def test_a_hung_trainer_is_seen_whatever_its_clock_says(
    seen: SeenRun, capsys: pytest.CaptureFixture[str], off: float, client: bool
) -> None:
    """``client``: the tracker's client goes on writing, by the right clock, as wandb-core does."""
    rows = [seen.row(step, "2.5", step + off) for step in range(1, 61)]
    late = beats(seen, 62, 540) if client else []
    written = 540 if client else 62
    seen.tracked([*(beats(seen, 0, 0) if client else []), *rows, *late], written)
    seen.log("loading the model\n", 0.5)
    run = seen.check(capsys, 541)
    assert "C-23" not in ids(run)
    if not client and off == -1234.0:
        assert offset(run) is None  # the file alone cannot tell a slow clock from a copied file
        return
    assert offset(run) == pytest.approx(off, abs=20)
    assert "C-06" in ids(run)
    last = datetime.fromisoformat(alert(run, "C-06")["since"]).timestamp()
    assert last - seen.start == pytest.approx(60, abs=20)


@pytest.mark.parametrize("off", [AHEAD, -AHEAD])
def test_a_trainer_that_steps_is_well_whatever_its_clock_says(
    seen: SeenRun, capsys: pytest.CaptureFixture[str], off: float
) -> None:
    rows = [seen.row(step, "2.5", step + off) for step in range(1, 301)]
    seen.tracked([*rows[:150], *beats(seen, 150, 150), *rows[150:]], 302)
    seen.log("loading the model\n", 0.5)
    run = seen.check(capsys, 305)
    assert "C-06" not in ids(run)
    assert offset(run) == pytest.approx(off, abs=20)
    main(["check", "--config", str(seen.config), "--now", rfc3339(seen.start + 305)])
    way = "ahead" if off > 0 else "behind"
    assert f"clock of the tracker's writer: 2h {way}, times corrected" in capsys.readouterr().out


@pytest.mark.parametrize("off", [AHEAD, -8 * 3600.0, -1800.0])
def test_a_log_s_stamps_by_another_clock_or_zone(
    seen: SeenRun, capsys: pytest.CaptureFixture[str], off: float
) -> None:
    stamped = [
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seen.start + step + off))
        + f" iter {step}: loss 2.5\n"
        for step in range(1, 101)
    ]
    seen.log("".join(stamped), 101)
    run = seen.check(capsys, 103)
    assert "C-06" not in ids(run)
    assert offset(run, "log") == pytest.approx(off, abs=5)
    assert "C-06" in ids(seen.check(capsys, 400))


def test_a_save_after_the_log_lost_the_numbers_is_suspect_before_the_tracker_s_next_row(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = {step: "NaN" if step >= 30 else "2.5" for step in range(101)}
    seen.tracked([seen.row(step, losses[step], 1.0 + step) for step in range(0, 101, 50)], 102)
    seen.log("".join(f"iter {step}/300: loss {loss}\n" for step, loss in losses.items()), 102)
    for step in (20, 40, 60):
        seen.saved(step, 1.5 + step)
    run = seen.check(capsys, 104)
    assert "nan at step 30" in alert(run, "C-09")["title"].lower()
    value = run["facets"]["checkpoints"]["value"]
    why = "loss nan from step 30"
    assert {item["step"]: item["suspect"] for item in value["items"]} == {
        20: None,
        40: why,
        60: why,
    }
    assert value["relaunch_from"]["step"] == 20


RUN_FILE = """
[cockpit]
cadence = "60s"
operator = "bob"
[[run]]
name = "toy"
dri = "ada"
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
checkpoints = {{ path = "checkpoints", layout = "levanter" }}
{more}
"""
TRAIN = [f"step {i}/100000 | loss {3 - i / 1000:.3f} | 1.2 it/s" for i in range(1, 201)]
NAN = ["Traceback (most recent call last):", '  File "/home/ada/train.py", line 9, in main',
       "    raise RuntimeError(text)", "RuntimeError: Loss is NaN"]  # fmt: skip
FRAMES = [
    f"frame #{i}: c10d::watchdog() + 0x{i * 77:x} (0x7f{i * 991:x} in a.so)" for i in range(60)
]
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"


def ended(folder: Path, status: int, lines: Sequence[str], more: str = "") -> dict[str, Any]:
    """Leave a job that is over, and look at it."""
    saved = folder / "checkpoints" / "step-100"
    saved.mkdir(parents=True, exist_ok=True)
    (saved / "metadata.json").write_text('{"step": 100}')
    (saved / "arrays").write_bytes(b"x" * 100)
    (folder / "cockpit.toml").write_text(RUN_FILE.format(more=more))
    (folder / "run.log").write_text("\n".join(lines) + "\n")
    (folder / "run.pid").write_text("4194300\n")
    (folder / "run.exit").write_text(f"{status}\n")
    return check(folder)


def triage(run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run["facets"]["log"]["value"]["triage"]
    return found


@pytest.mark.parametrize("between", [60, 15_000])
def test_the_cause_far_above_the_tail_decides(tmp_path: Path, between: int) -> None:
    frames = (FRAMES * (between // 60))[:between]
    lines = [*TRAIN, *NAN, *frames, *[RESET] * 8]
    run = ended(tmp_path, 1, lines)
    found = triage(run)
    assert (found["class"], found["action"]) == ("numeric_instability", "escalate")
    assert [line["line"] for line in found["evidence"]] == [lines.index(NAN[-1]) + 1]
    assert found["read"]["whole"] and len(run["facets"]["log"]["value"]["lines"]) <= 50
    (alert,) = [alert for alert in run["alerts"] if alert["id"] == "C-01"]
    place = f"{tmp_path / 'run.log'}:{lines.index(NAN[-1]) + 1}"
    assert place in [each["source"] for each in alert["evidence"]]
    assert run["next_action"].startswith("tell ada yourself")
    assert run["progress"]["step"] == found["step"] is not None


def test_what_was_not_read_is_said_and_echoes_alone_decide_nothing(tmp_path: Path) -> None:
    run = ended(tmp_path, 1, [*TRAIN, *NAN, *FRAMES * 400, *[RESET] * 8])
    found = triage(run)
    assert (found["class"], found["action"]) == ("unknown", "escalate")
    assert not found["read"]["whole"]
    (alert,) = [alert for alert in run["alerts"] if alert["id"] == "C-01"]
    said = [each["text"] for each in alert["evidence"]]
    assert "not the whole log: only its last 20,000 lines were read" in said


def test_the_plan_and_the_pages_rest_on_the_same_diagnosis(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("toy")
    world.save("toy", 20, 40)
    lines = [*TRAIN, "RuntimeError: Loss is NaN", *FRAMES, *[RESET] * 8]
    world.ended("toy", 1, *lines)
    code, plan, _ = world.told("relaunch", "toy")
    (verdict,) = [each for each in plan["checks"] if each["id"] == "T"]
    assert code == 4 and verdict["level"] == "block" and "Loss is NaN" in verdict["text"]
    assert "numerical instability" in json.dumps(world.told("escalate", "toy")[1])


TRAINER = """
import sys, time
for step in range(1, 60):
    print(f"step {step}/100000 | loss {3 - step / 1000:.3f} | 1.2 it/s", flush=True)
if sys.argv[1] == "nan":
    raise RuntimeError("Loss is NaN")
time.sleep(600)
"""


def launched(folder: Path, word: str) -> int:
    launch = Launch(
        command=[sys.executable, "-c", TRAINER, word], log=folder / "run.log",
        pid_file=folder / "run.pid", exit_file=folder / "run.exit", cwd=folder,
    )  # fmt: skip
    return start(launch).pid


def until(true: Any) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def test_a_former_job_s_end_in_the_same_log_is_not_this_one_s(tmp_path: Path) -> None:
    (tmp_path / "cockpit.toml").write_text(RUN_FILE.format(more=""))
    launched(tmp_path, "nan")
    until((tmp_path / "run.exit").exists)
    assert triage(check(tmp_path))["class"] == "numeric_instability"
    pid = launched(tmp_path, "sleep")
    log = tmp_path / "run.log"
    until(lambda: log.read_text().count("step 59/") == 2)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until((tmp_path / "run.exit").exists)
    found = triage(check(tmp_path))
    assert (found["class"], found["read"]["since"]) == ("killed", "recorded")
    last = log.read_text().splitlines()
    assert found["evidence"][-1] == {"line": len(last), "text": last[-1]}


def test_sigterm_that_ends_with_0_short_of_the_end_is_no_success(tmp_path: Path) -> None:
    lines = [*TRAIN[:29], "[rank: 0] Received SIGTERM: 15"]
    run = ended(tmp_path, 0, lines, "final_step = 300")
    assert run["verdict"] == "attention" and triage(run)["class"] == "user_stopped"
    (alert,) = [alert for alert in run["alerts"] if alert["id"] == "C-19"]
    assert alert["title"] == "Not a success: it ended at step 29 of 300"
    assert "seal" not in run["next_action"].replace("do not seal", "")
    blind = ended(tmp_path, 0, lines)
    assert triage(blind)["confidence"] == "guess"
    (alert,) = [alert for alert in blind["alerts"] if alert["id"] == "C-19"]
    assert "told to stop" in alert["title"] and alert["confidence"] == "likely"


def test_a_run_that_reached_its_end_is_a_success_whatever_it_shouts(tmp_path: Path) -> None:
    run = ended(tmp_path, 0, [*TRAIN, "Received SIGTERM: 15"], "final_step = 200")
    assert (triage(run)["class"], triage(run)["confidence"]) == ("success", "sure")


def test_the_relaunch_of_one_that_a_signal_ended_cleanly_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("toy")
    world.save("toy", 20, 40)
    world.ended("toy", 0, *TRAIN[:44], "[rank: 0] Received SIGTERM: 15")
    checks = {each["id"]: each for each in world.told("relaunch", "toy")[1]["checks"]}
    assert checks["job-state"]["level"] == "warn"
    assert checks["T"]["level"] == "warn"
    assert "nobody is recorded as having done it" in checks["T"]["text"]
    assert "SIGTERM" in checks["T"]["text"]


def test_a_job_that_is_gone_without_a_status_is_diagnosed_too(tmp_path: Path) -> None:
    ended(tmp_path, 1, [*TRAIN, "torch.OutOfMemoryError: CUDA out of memory.", *FRAMES])
    (tmp_path / "run.exit").unlink()
    run = check(tmp_path)
    assert triage(run)["class"] == "oom_device"
    assert run["next_action"].startswith("tell ada yourself")


def test_steps_above_long_farewells_are_not_missing(tmp_path: Path) -> None:
    run = ended(tmp_path, 0, [*TRAIN, *FRAMES * 10], "final_step = 200")
    assert triage(run)["class"] == "success"
    titles = [alert["title"] for alert in run["alerts"] if alert["id"] == "C-19"]
    assert titles == ["Exited with success, but no complete checkpoint of the final step 200"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "cockpit.toml"
    path.write_text("".join(f'[[run]]\nname = "run-{number}"\n' for number in range(20)))
    store_path().parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("end", ["", "-journal", "-wal"])
def test_a_pipe_in_its_place_is_named_and_not_read(
    end: str, config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if end:
        Store(store_path()).close()
    os.mkfifo(f"{store_path()}{end}")
    assert main(["check", "--config", str(config)]) == 3
    out, err = capfd.readouterr()
    assert f"{store_path()}: is a pipe, a socket or a device; expected a file" in err
    assert err.count("\n") == 1
    assert "run-19" in out


def test_a_locked_one_is_waited_for_once_for_all_runs(
    config: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(store_path()).close()
    monkeypatch.setattr(store, "BUSY_SECONDS", 1.0)
    with closing(sqlite3.connect(store_path(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert main(["watch", "--once", "--config", str(config)]) == 3
    assert 1.0 < time.monotonic() - began < 20.0, "a second was waited for each of twenty runs"
    assert "kept it locked" in capfd.readouterr().err
