"""``cockpit triage`` without a state: nothing is assumed, and nothing is relaunched (SPEC T)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.cli import main

STEPS = [f"step {n}/100 loss 2.{n}" for n in range(1, 40)]
PREEMPTED = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-06-26T22:39:06 DUE TO PREEMPTION"


def said(
    lines: list[str], folder: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[str, str]:
    path = folder / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["triage", str(path), "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["class"], found["action"]


@pytest.mark.parametrize(
    ("end", "answer"),
    [
        ([], ("unknown", "escalate")),
        (["Training complete!"], ("success", "none")),
        (["step 100/100 loss 2.1"], ("success", "none")),
        ([PREEMPTED], ("preempted", "escalate")),
        (["Training complete!", "OSError: [Errno 28] No space left on device"],
         ("disk_full", "escalate")),
    ],
)  # fmt: skip
def test_nothing_is_assumed_of_a_job_without_a_state(
    end: list[str], answer: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said([*STEPS, *end], tmp_path, capsys) == answer


def test_an_exit_status_is_a_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(STEPS, tmp_path, capsys, "--exit-code", "0") == ("success", "none")
    assert said([*STEPS, PREEMPTED], tmp_path, capsys, "--exit-code", "1")[1] == "relaunch"


def test_a_person_is_asked_for_the_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(STEPS))
    assert main(["triage", str(path)]) == 0
    assert "say --state, or --exit-code" in capsys.readouterr().out
