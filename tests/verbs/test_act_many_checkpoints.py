"""More checkpoints than one look has time for: what is not looked at is never called nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.actions.core import whole
from cockpit.sources.checkpoints import look
from cockpit.sources.checkpoints.bucket import Survey
from cockpit.sources.checkpoints.host import HostTree
from tests.verbs.acting_run import World


@pytest.mark.parametrize("in_time", [True, False])
def test_a_relaunch_takes_the_time_that_its_listing_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_time: bool
) -> None:
    monkeypatch.setattr(look, "survey_here", _three_at_a_look)
    if not in_time:
        monkeypatch.setattr(whole, "Anew", _hung)
    world = World(tmp_path)
    world.add("toy")
    world.save("toy", *range(20, 180, 20))
    world.ended("toy", 137)
    _, plan, _ = world.told("relaunch", "toy")
    (check,) = [each for each in plan["checks"] if each["id"] == "C-17"]
    if in_time:
        assert check["level"] == "pass" and "the trainer agrees" in check["text"]
        assert plan["trainer_would_load"]["path"] == plan["checkpoint"]["path"]
    else:
        assert check["level"] == "block" and plan["trainer_would_load"] is None
        assert "5 checkpoints not read in time" in check["text"]
        assert "start at 0" not in check["text"]


def _three_at_a_look() -> Survey:
    tree = HostTree(None)
    tree.limits = tree.limits._replace(newest=1, growth=1, rounds=4)
    return Survey(tree)


def _hung(*_: object) -> None:
    raise TimeoutError
