"""``cockpit history`` tells the goodput: the newest report's, or that of an earlier time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import load, store_path
from cockpit.model.history import PhaseMark
from cockpit.model.observed import Phase
from cockpit.model.report import Verdict
from cockpit.store.memory import Observation, RunMemory
from cockpit.store.store import Store, run_key

T0 = 1_800_000_000.0
CADENCE = 600.0


def told(config: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["history", "toy", "--config", str(config), *words]) == 0
    return capsys.readouterr().out


def test_an_earlier_time_is_accounted_by_what_was_noted_once_a_cadence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "toy"\ncadence = "10m"\n')
    with_store = Store(store_path())
    memory, key = RunMemory(with_store), run_key(load(config).path, "toy")
    for at in range(30):  # 20 cadences of training, then ten in which it is dead
        phase = Phase.RUNNING if at < 20 else Phase.FAILED
        seen = Observation(
            at=T0 + at * CADENCE, verdict=Verdict.HEALTHY, phase=phase, step=min(at, 19) * 100
        )
        assert memory.observe(key, seen, CADENCE)
    marks = [
        PhaseMark(at=T0, phase=Phase.RUNNING, job_id="1"),
        PhaseMark(at=T0 + 19 * CADENCE, phase=Phase.FAILED, job_id="1"),
    ]
    memory.add_phases(key, marks)
    with_store.close()
    document = json.loads(told(config, capsys, "--json"))["goodput"]
    assert (document["productive_s"], document["down_s"]) == (19 * CADENCE, 10 * CADENCE)
    assert document["share"] == pytest.approx(19 / 29)
    assert "30 observations, one a cadence" in document["evidence"][0]
    before = datetime.fromtimestamp(T0 + 10 * CADENCE, UTC).isoformat()
    earlier = json.loads(told(config, capsys, "--at", before, "--json"))["goodput"]
    assert (earlier["productive_s"], earlier["down_s"]) == (10 * CADENCE, 0.0)
    assert "goodput 65.5 % of " in told(config, capsys)
