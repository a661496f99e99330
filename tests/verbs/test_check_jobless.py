"""A run without ``[run.job]`` is known by its steps alone: where those stop, it is not well."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.base import rfc3339
from tests.sources.wandb import writer
from tests.verbs.checking import check

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
