"""``checkpoints``, ``triage`` and ``progress`` take a run of the run file, or a path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.cli import main
from tests.sources.checkpoints.trees import levanter

ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RUN_FILE = """
[[run]]
name = "toy"
job = { kind = "local", log = "out/run.log", pid_file = "out/run.pid", exit_file = "out/run.exit" }
checkpoints = { path = "out/saved", layout = "levanter" }
[[run]]
name = "bare"
job = { kind = "local", log = "out/none.log", pid_file = "out/none.pid" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    (tmp_path / "out").mkdir()
    steps = "\n".join(f"step {n}/100 loss=2.{n}" for n in range(1, 40))
    (tmp_path / "out" / "run.log").write_text(f"{steps}\n{ERROR}\n")
    (tmp_path / "out" / "run.pid").write_text("999999999\n")
    (tmp_path / "out" / "run.exit").write_text("1\n")
    levanter(tmp_path / "out" / "saved", 30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("verb", "path"), [
    ("checkpoints", "out/saved"), ("progress", "out/run.log"),
])  # fmt: skip
def test_a_run_is_its_own_files(
    verb: str, path: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_run = printed(capsys, verb, "toy")
    assert by_run == printed(capsys, verb, path) and by_run


def test_triage_of_a_run_takes_the_state_of_its_job(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_run = printed(capsys, "triage", "toy")
    by_file = printed(capsys, "triage", "out/run.log", "--state", "failed", "--exit-code", "1")
    assert isinstance(by_run, dict) and isinstance(by_file, dict)
    assert by_run["class"] == by_file["class"] != "unknown"
    assert by_run["action"] == by_file["action"]
    assert main(["triage", "toy", "--state", "failed"]) == 2
    assert "is a run: its job's state" in capsys.readouterr().err


def test_what_exists_is_a_path_before_it_is_a_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "toy").write_text("step 7/100 loss=9.5\n")
    found = printed(capsys, "progress", "toy")
    assert isinstance(found, list) and [each["step"] for each in found] == [7]


def test_a_run_without_what_is_asked_for_says_so_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoints", "bare"]) == 2
    assert "bare has no checkpoints" in capsys.readouterr().err
    for verb in ("triage", "progress"):
        assert main([verb, "bare"]) == 2
        assert "the log of bare cannot be read" in capsys.readouterr().err
    assert main(["checkpoints", "nobody"]) == 2
    assert "expected a run, or a folder" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["triage", "progress", "checkpoints"])
def test_a_name_that_no_file_may_have_is_one_clear_line(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main([verb, "a" * 5_000]) == (3 if verb == "checkpoints" else 2)
    said = capsys.readouterr().err
    assert "internal error" not in said and said.count("\n") == 1


def test_the_overview_has_every_verb_in_one_of_three_groups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    look, act, tools = (said.index(f"\n{group}: ") for group in ("look", "act", "tools"))
    places = {name: said.index(f"\n  {name} ") for name in ("check", "retain", "doctor", "triage")}
    assert look < places["check"] < act < places["retain"] < tools < places["doctor"]
    assert look < places["triage"] < act
