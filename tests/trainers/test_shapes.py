"""What is told of a run whose log has the shape of a real trainer's, through ``check``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.trainers import shapes
from tests.verbs.checking import check

RUN_FILE = """
[[run]]
name = "a"
final_step = 300
job = { kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }
"""
GONE = 4_194_300


class Told:
    """What ``check`` says of one log."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.run = run
        self.step = run["progress"]["step"]
        self.verdict = run["verdict"]
        self.alerts = {each["id"]: each for each in run["alerts"]}
        job, log = run["facets"]["job"]["value"], run["facets"]["log"]["value"]
        self.phase = job["phase"]
        self.triage = log["triage"] or {}


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """Return a function that leaves a run with a log and asks; without an exit it lives."""

    def ask(log: str, status: int | None = None) -> Told:
        (tmp_path / "cockpit.toml").write_text(RUN_FILE)
        (tmp_path / "run.log").write_text(log, encoding="utf-8", newline="")
        (tmp_path / "run.pid").write_text(f"{os.getpid() if status is None else GONE}\n")
        if status is not None:
            (tmp_path / "run.exit").write_text(f"{status}\n")
        return Told(check(tmp_path))

    return ask


def falling(steps: int) -> list[str]:
    return [f"{9 - step / 50:.4f}" for step in range(steps)]


@pytest.mark.parametrize(
    ("shape", "done", "step"),
    [("hf", 208, 208), ("own-loop", 209, 208), ("jax-orbax", 208, 205), ("lightning", 208, None)],
)
def test_a_killed_run_was_where_its_log_says(told: Any, shape: str, done: int, step: int) -> None:
    found = told(shapes.SHAPES[shape](falling(done)), 137)
    assert (found.step, found.phase, found.verdict) == (step, "failed", "critical")
    assert (found.triage["class"], found.triage["action"]) == ("killed", "relaunch")
    assert found.triage["step"] in (step, 200, 208)


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_what_every_start_prints_is_no_reason(told: Any, shape: str) -> None:
    killed = told(shapes.SHAPES[shape]([]), 137)
    assert (killed.triage["class"], killed.triage["action"]) == ("killed", "relaunch")
    broke = told(shapes.SHAPES[shape]([]) + "\n" + shapes.raised("import b", NO_MODULE), 1)
    assert broke.triage["class"] == "small_code_bug"


NO_MODULE = "ModuleNotFoundError: No module named 'b'"
SHAPES_DIFFER = "mat1 and mat2 shapes cannot be multiplied (64x15 and 16x1)"
READING = 'raise OSError(f"could not read shard {step:05d}: {why}")'
EXCEPTIONS = [
    ("hf", "loss = x @ w", f"RuntimeError: {SHAPES_DIFFER}", "complex_code_bug"),
    ("own-loop", "import abcd", "ModuleNotFoundError: No module named 'abcd'", "small_code_bug"),
    ("jax-orbax", READING, "OSError: could not read shard 00070: I/O error", "data_error"),
    ("jax-orbax", "y = f(x)", "ValueError: Incompatible shapes: (8, 16), (9,)", "complex_code_bug"),
]


@pytest.mark.parametrize(("shape", "source", "message", "name"), EXCEPTIONS)
def test_an_exception_is_its_class_and_the_step_is_the_logs(
    told: Any, shape: str, source: str, message: str, name: str
) -> None:
    found = told(shapes.SHAPES[shape](falling(69)) + "\n" + shapes.raised(source, message), 1)
    assert found.triage["class"] == name
    assert found.triage["code_location"] == {"file": "/runs/a/train.py", "line": 32}
    assert found.triage["step"] == found.step == {"hf": 69, "own-loop": 68, "jax-orbax": 65}[shape]


def test_lightning_that_ends_with_0_under_sigterm_has_not_finished(told: Any) -> None:
    found = told(shapes.lightning_terminated(falling(47)), 0)
    assert found.verdict == "attention"
    assert found.alerts["C-19"]["title"].startswith("Not a success: it was told to stop")
    assert (found.triage["class"], found.triage["action"]) == ("user_stopped", "none")


@pytest.mark.parametrize(("shape", "sound"), [("own-loop", 50), ("jax-orbax", 49)])
def test_the_first_loss_that_is_no_number_is_named_however_much_was_printed_since(
    told: Any, shape: str, sound: int
) -> None:
    found = told(shapes.SHAPES[shape]([*falling(sound), *["nan"] * 300]))
    assert found.verdict == "critical"
    assert "step 50" in found.alerts["C-09"]["title"]


@pytest.mark.parametrize("quoted", [True, False])
def test_a_zero_loss_beside_a_norm_that_is_no_number_is_not_healthy(
    told: Any, quoted: bool
) -> None:
    found = told(shapes.hugging_face([*falling(50), *["0"] * 50], quoted=quoted))
    assert found.verdict == "critical" and "C-09" in found.alerts


@pytest.mark.parametrize("shape", ["hf", "lightning"])
def test_an_empty_bar_is_no_step(told: Any, shape: str) -> None:
    found = told(shapes.SHAPES[shape]([]))
    assert found.step is None and "C-12" not in found.alerts


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_a_run_that_lives_and_learns_is_healthy(told: Any, shape: str) -> None:
    found = told(shapes.SHAPES[shape](falling(120)))
    assert found.verdict == "healthy", found.run["alerts"]
    assert found.step in {"lightning": (None,)}.get(shape, (120, 118))
