"""A cockpit killed with -9 at every point between the steps: never two jobs, none forgotten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
STEPS = ("stop", "submit", "count", "log")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.actions.killing", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_was_killed_at_every_point(seen: list[dict[str, Any]]) -> None:
    steps = [f"{step}:{when}" for step in STEPS for when in ("begun", "did", "done")]
    steps.insert(steps.index("submit:did"), "submit:accepted")
    assert [one["point"] for one in seen] == [
        "begun", "claimed", "planned", *steps, "ended", "released",
    ]  # fmt: skip
    assert not [one for one in seen if "error" in one]


def test_there_is_one_live_job_in_the_end_whatever_was_killed(seen: list[dict[str, Any]]) -> None:
    for one in seen:
        assert one["result"] == "done", one
        assert len(one["living"]) == 1, one


def test_no_submit_is_forgotten(seen: list[dict[str, Any]]) -> None:
    """What the killed cockpit had started is known, recorded and logged once by the next one."""
    for one in seen:
        before = one["before"]
        assert set(before) <= set(one["known"]), one
        assert before == one["recorded"], one
        for name in one["started"]:
            assert sum(name in line for line in one["log"]) == 1, one


def test_nothing_is_left_open_and_no_claim_is_left_behind(seen: list[dict[str, Any]]) -> None:
    for one in seen:
        assert one["open"] == [], one
        assert one["claim"] is False, one


def test_what_was_interrupted_is_said(seen: list[dict[str, Any]]) -> None:
    told = {one["point"]: one["settled"] for one in seen}
    assert told["submit:did"] == [["done", "relaunch by ada: looked up toy-i001: it lives"]], told[
        "submit:did"
    ]
    assert told["submit:begun"] == [
        ["failed", "relaunch by ada: looked up toy-i001: it was never started"]
    ]
    assert told["submit:accepted"] == [
        ["failed", "relaunch by ada: looked up toy-i001: it was accepted and is cancelled"]
    ]
    assert told["released"] == []


def test_what_was_accepted_and_not_let_go_never_runs(seen: list[dict[str, Any]]) -> None:
    (one,) = [one for one in seen if one["point"] == "submit:accepted"]
    assert (one["before"], one["known"]) == ([], [])
    assert (one["started"], one["living"]) == (["toy-i002"], ["toy-i002"])
