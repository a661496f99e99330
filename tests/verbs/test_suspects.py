"""Suspect, emptied and stepless checkpoints, through the program itself, on real files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import levanter, put

HEAD = '[cockpit]\ncadence = "30s"\noperator = "ada"\n'
RUN = """
[[run]]
name = "toy"
dri = "ada"
tier = "ordinary"
final_step = 5000
output_root = "out"
resubmit = "{command}"
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
checkpoints = {{ path = "out", layout = "{layout}", save_every = "5m", keep = 2 }}
"""


class Folder:
    """A run that is over, its log and its saves; nothing in it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.out.mkdir()
        self.began = time.time() - 7200
        self.lines: list[str] = []
        self.config = folder / "cockpit.toml"
        self.of()

    def of(self, command: str = "python3 train.py", layout: str = "auto") -> None:
        self.config.write_text(HEAD + RUN.format(command=command, layout=layout))

    def logged(self, first: int, last: int, at: float, bad: int | None = None) -> None:
        """Log a step a second, without a number from ``bad`` on."""
        for step in range(first, last + 1):
            moment = datetime.fromtimestamp(at + step, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")
            loss = "nan" if bad is not None and step >= bad else f"{3 - step / 5000:.4f}"
            self.lines.append(f"{moment} step {step}/5000 loss={loss}")
        put(self.folder / "run.log", "\n".join(self.lines) + "\n", at + last)

    def ended(self, status: int = 1) -> None:
        put(self.folder / "run.exit", f"{status}\n", (self.folder / "run.log").stat().st_mtime + 1)

    def told(self, *words: str) -> dict[str, Any]:
        main([*words, "--json", "--config", str(self.config)])
        document: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return document

    capsys: pytest.CaptureFixture[str]

    def seen(self) -> dict[str, Any]:
        (run,) = self.told("check")["runs"]
        found: dict[str, Any] = run
        return found

    def checks(self, *words: str) -> dict[str, tuple[str, bool, str]]:
        plan = self.told(*words)
        found = ((c["id"], (c["level"], c["overridable"], c["text"])) for c in plan["checks"])
        return dict(found)


@pytest.fixture
def folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Folder]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    made = Folder(tmp_path)
    made.capsys = capsys
    yield made


def suspects(value: dict[str, Any]) -> list[int]:
    return [item["step"] for item in value["items"] if item["suspect"]]


def test_a_listing_says_that_the_rows_which_tell_the_suspect_ones_could_not_be_read(
    folder: Folder,
) -> None:
    folder.logged(1, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    assert main(["checkpoints", "out", "--config", str(folder.config)]) == 0
    assert "suspect is not known" not in folder.capsys.readouterr().err
    (folder.folder / "run.log").unlink()
    (folder.folder / "run.log").mkdir()
    assert main(["checkpoints", "out", "--config", str(folder.config)]) == 0
    assert "it is not certain which are suspect: " in folder.capsys.readouterr().err


def test_a_listing_of_a_folder_above_the_roots_knows_the_suspect_ones_too(folder: Folder) -> None:
    folder.logged(1, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    assert suspects(folder.told("checkpoints", str(folder.folder))) == [200]
    second = RUN.format(command="python3 train.py", layout="auto").replace("run.", "second.")
    second = second.replace('"out"', '"second"').replace('"toy"', '"other"')
    folder.config.write_text(folder.config.read_text() + second)
    levanter(folder.folder / "second", 250, at=folder.began + 250.5)
    both = folder.told("checkpoints", str(folder.folder))
    assert suspects(both) == [200]
    protected = {item["step"]: item["protected"] for item in both["items"]}
    assert "newest complete" in " ".join(protected[200]) and protected[250] == ["newest complete"]
    assert both["relaunch_from"] is None and both["trainer_would_load"] is None
    main(["checkpoints", str(folder.folder), "--config", str(folder.config)])
    assert "checkpoints of 2 runs: name one run's roots" in folder.capsys.readouterr().out


def test_a_listing_of_one_checkpoint_tells_what_a_relaunch_of_the_run_would_take(
    folder: Folder,
) -> None:
    folder.logged(1, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    (one,) = (each["path"] for each in folder.seen()["facets"]["checkpoints"]["value"]["items"][1:])
    part = folder.told("checkpoints", one)
    assert suspects(part) == [200] and part["relaunch_from"]["step"] == 100
    main(["checkpoints", one, "--config", str(folder.config)])
    assert "every complete checkpoint is suspect" not in folder.capsys.readouterr().out


def test_a_listing_from_far_above_has_what_lies_in_the_roots(folder: Folder) -> None:
    far = str(folder.folder)
    levanter(folder.out / "a/b/c", 100, at=folder.began)
    deep = HEAD + RUN.format(command="python3 train.py", layout="auto")
    folder.config.write_text(deep.replace('path = "out"', 'path = "out/a/b/c"'))
    one = folder.told("checkpoints", far)
    assert [item["step"] for item in one["items"]] == [100] and one["latest_complete"] == 100
    assert one["relaunch_from"]["step"] == 100
    second = RUN.format(command="python3 train.py", layout="auto").replace("run.", "second.")
    second = second.replace('"out"', '"out/second/b/c"').replace('"toy"', '"other"')
    folder.config.write_text(folder.config.read_text() + second)
    levanter(folder.out / "second/b/c", 250, at=folder.began)
    both = folder.told("checkpoints", far)
    assert [item["step"] for item in both["items"]] == [100, 250]
    assert both["relaunch_from"] is None
    (folder.out / "second").rename(folder.folder / "elsewhere")
    assert [item["step"] for item in folder.told("checkpoints", far)["items"]] == [100]


def test_no_checkpoint_in_sight_of_several_runs_is_no_start_from_scratch(folder: Folder) -> None:
    second = RUN.format(command="python3 train.py", layout="auto").replace("run.", "second.")
    second = second.replace('"out"', '"second"').replace('"toy"', '"other"')
    folder.config.write_text(folder.config.read_text() + second)
    main(["checkpoints", str(folder.folder), "--config", str(folder.config)])
    told = folder.capsys.readouterr().out
    assert "no checkpoint was found" in told and "scratch" not in told


def test_a_listing_has_the_remark_on_one_saved_between_the_last_sound_row_and_the_first_other(
    folder: Folder,
) -> None:
    folder.logged(1, 120, folder.began)
    folder.logged(130, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 125, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    notes = {item["step"]: item["note"] for item in folder.told("checkpoints", "out")["items"]}
    assert "saved between step 120, still good, and step 130" in (notes[125] or "")


def test_what_was_saved_after_the_numbers_were_lost_is_nowhere_taken_for_good(
    folder: Folder,
) -> None:
    folder.logged(1, 1500, folder.began, bad=130)  # its end holds no number at all
    folder.ended()
    for step in range(50, 1501, 50):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    run = folder.seen()
    value = run["facets"]["checkpoints"]["value"]
    assert suspects(value) == list(range(150, 1501, 50))
    assert value["relaunch_from"]["step"] == 100 and value["latest_complete"] == 1500
    assert value["trainer_would_load"]["step"] == 1500
    assert "from step 1,500" not in run["next_action"]
    assert suspects(folder.told("checkpoints", "out")) == list(range(150, 1501, 50))
    level, overridable, text = folder.checks("relaunch", "toy")["suspect"]
    assert (level, overridable) == ("block", True) and "step 1,500" in text
    assert "cockpit rollback toy --to 100" in text
    level, overridable, text = folder.checks("rollback", "toy", "--to", "1000")["suspect"]
    assert (level, overridable) == ("block", True) and "step 130" in text and "step 100" in text
    assert "suspect" not in folder.checks("rollback", "toy", "--to", "100")
    plan = folder.told("retain", "toy")
    assert not {50, 100} & {target["step"] for target in plan["targets"]}
    folder.of("python3 train.py --load {checkpoint}")
    plan = folder.told("relaunch", "toy")
    assert plan["checkpoint"]["step"] == 100 and plan["command"].endswith("/step-100")
    assert "suspect" not in {check["id"] for check in plan["checks"]}


def test_a_replay_that_is_sound_is_good_and_the_old_saves_stay_suspect(folder: Folder) -> None:
    folder.logged(1, 400, folder.began, bad=130)
    folder.logged(101, 300, folder.began + 1000)
    folder.ended()
    for step in (50, 100, 350, 400):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    for step in (150, 200, 250, 300):
        levanter(folder.out, step, at=folder.began + 1000 + step + 0.5)
    value = folder.seen()["facets"]["checkpoints"]["value"]
    assert suspects(value) == [350, 400]
    assert value["relaunch_from"]["step"] == 300


def test_a_marker_whose_data_is_gone_is_not_taken(folder: Folder) -> None:
    folder.logged(1, 700, folder.began)
    folder.ended(137)
    for step in (500, 600, 700):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    for path in (folder.out / "step-700").rglob("*"):
        if path.is_file() and path.name != "metadata.json":
            path.unlink()
    value = folder.seen()["facets"]["checkpoints"]["value"]
    last = value["items"][-1]
    assert (last["step"], last["state"]) == (700, "incomplete")
    assert last["note"] == "no data beside metadata.json"
    assert value["relaunch_from"]["step"] == value["latest_complete"] == 600
    level, overridable, text = folder.checks("relaunch", "toy")["C-17"]
    assert (level, overridable) == ("block", False) and "would load step 700" in text
    assert "--to 600 --move yes" in text


def test_a_file_without_a_step_is_relaunched_from(folder: Folder) -> None:
    folder.logged(1, 260, folder.began)
    folder.ended(137)
    state = {"model": {}, "optimizer": {}, "iter_num": 250}
    put(folder.out / "ckpt.pt", archive(state), folder.began + 251)
    for layout in ("auto", "nanogpt"):
        folder.of("python3 train.py --init_from=resume", layout)
        run = folder.seen()
        value = run["facets"]["checkpoints"]["value"]
        assert [item["step"] for item in value["items"]] == [250]
        assert value["relaunch_from"]["path"].endswith("/out/ckpt.pt")
        assert "relaunch toy from step 250" in run["next_action"]
        plan = folder.told("relaunch", "toy")
        found = {check["id"]: check for check in plan["checks"]}
        assert found["C-17"]["level"] == "pass" and "--init_from=resume" in found["C-17"]["text"]
        assert "checkpoint" not in found and plan["checkpoint"]["step"] == 250
    put(folder.out / "ckpt.pt", archive({"model": {}}), folder.began + 251)
    folder.of("python3 train.py --from {checkpoint}", "nanogpt")
    plan = folder.told("relaunch", "toy")
    found = {check["id"]: check for check in plan["checks"]}
    assert found["C-17"]["level"] == "pass" and "step unknown" in found["C-17"]["text"]
    assert plan["checkpoint"]["step"] is None and plan["command"].endswith("/out/ckpt.pt")
    folder.of("python3 train.py", "nanogpt")
    level, overridable, text = folder.checks("relaunch", "toy")["resume"]
    assert (level, overridable) == ("block", True) and "overwrites" in text
    main(["check", "--config", str(folder.config)])
    assert "ckpt.pt" in folder.capsys.readouterr().out


def test_what_a_former_job_left_torn_is_not_blamed_on_the_new_one(folder: Folder) -> None:
    folder.logged(1, 700, folder.began)
    levanter(folder.out, 600, at=folder.began + 600)
    levanter(folder.out, 700, at=folder.began + 700, marker=None)
    (folder.folder / "run.pid").write_text(f"{os.getpid()}\n")  # a job that has just begun
    run = folder.seen()
    torn = run["facets"]["checkpoints"]["value"]["items"][-1]
    assert torn["state"] == "incomplete"
    told = json.dumps(run["alerts"])
    assert "full disk" not in told and "unfinished for too long" not in told
    assert "left by an earlier job" in told
