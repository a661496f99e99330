"""What a text names is a whole name and a whole number, never the beginning of one."""

from __future__ import annotations

import pytest

from cockpit.actions.retention.other_runs import keeps
from cockpit.actions.retention.retain import RecoverySources
from tests.rules.making import T0, checkpoint


def named(line: str, step: int = 10, path: str | None = None) -> bool:
    item = checkpoint(step, T0)
    item = item if path is None else item.model_copy(update={"path": path})
    return RecoverySources(lines=(line,)).why(item) is not None


@pytest.mark.parametrize(
    "line",
    [
        "- Next: relaunch from /c/step-10", "relaunch from `/c/step-10`.", "from: step-10, of ada",
        "back to step 10", "from step 10 (the last good one)", "resumed at step=10",
        "checkpoint 10", "/other/step-10/metadata.json", "step-000010",
    ],
)  # fmt: skip
def test_it_is_named(line: str) -> None:
    assert named(line)


@pytest.mark.parametrize(
    "line",
    [
        "- Next: relaunch from /c/step-100", "step-100", "step 100", "step 10,000", "step 10.5",
        "steps 1 to 9", "/c/step-10-old", "last-step-10", "substep 10", "2026-03-10 10:10",
        "10 checkpoints", "checkpoint 100",
    ],
)  # fmt: skip
def test_it_is_not_named(line: str) -> None:
    assert not named(line)


def test_a_bare_number_needs_a_path_or_a_word() -> None:
    assert named("from /c/10", path="/c/10") and named("step 10", path="/c/10")
    assert not named("lost 10 steps at 10:10", path="/c/10")
    assert not named("from /c/100", path="/c/10")


def test_separators_are_part_of_a_number() -> None:
    assert named("step 1,000", 1000) and named("step 1000", 1000)
    assert not named("step 1,000,000", 1000) and not named("step 21,000", 1000)


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("/c/step-10", True), ("/c/step-10/d/0", True), ("/c/step-1*", True), ("/*/step-10", True),
        ("*/step-10", True), ("*/c/step-10/d", True), ("*/step-1?/*", True), ("/c/*", True),
        ("/c", False), ("/c/step-1", False), ("/*", False), ("/*/step-1", False), ("*/*", False),
        ("/c/step-1*0/../x", True), ("*/other/step-10", False), ("*/c", False), ("*/*.bin", False),
        ("c/step-10", False), ("/d/c/step-10", False), ("/c/*/d", True), ("/*/*.bin", False),
    ],
)  # fmt: skip
def test_a_place_keeps_the_save_that_it_is_or_lies_in(place: str, kept: bool) -> None:
    assert keeps(place, "/c/step-10") is kept
