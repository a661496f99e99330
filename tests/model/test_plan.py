"""What a plan says of itself in one sentence: never more than it knows."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.actions.core.table import TABLE
from cockpit.model.observed import Pick
from cockpit.model.plan import Plan, Request, plan_of
from tests.screens.acting.stand_in_service import BLOCKED, CLEAN, draft, target

DEAD = {"stops": (), "loses": "49 steps since step 46,000 (≈ 10s)"}


def plan(action: str = "relaunch", params: dict[str, str] | None = None, **fields: Any) -> Plan:
    request = Request(action=action, run="toy", operator="ada", params=params or {})
    return plan_of(request, draft("toy", action, **fields), 0.0)


def test_every_action_says_what_it_does_and_blocked_what_it_would_do() -> None:
    known = {"entity": "e", "project": "p", "send": '["a"]', "kind": "stop", "host": "box",
             "key": "C-09", "by": "ada", "to": "bob", "step": "9"}  # fmt: skip
    for row in TABLE:
        does, would = plan(row.verb, facts=known), plan(row.verb, facts=known, checks=(BLOCKED,))
        assert does.summary and " would " not in f" {does.summary.lower()} "
        assert would.summary.startswith("Cannot run now: 1 check blocks it. ")
        assert " would " in would.summary.lower()
        assert does.document()["summary"] == does.summary


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (DEAD, "Starts from step 46,000 and loses 49 steps (about 10s). "
               "Nothing will be stopped."),
        (DEAD | {"checkpoint": None, "loses": None}, "Starts without a checkpoint that is known. "
                                                     "Nothing will be stopped."),
        ({"loses": None}, "Stops /ada/toy (4 tasks). Then it starts from step 46,000."),
        (DEAD | {"trainer_would_load": None},
         "Is meant to start from step 46,000 (not known what the trainer picks itself) and loses "
         "49 steps (about 10s). Nothing will be stopped."),
        ({"stops": ("a", "b", "c"), "loses": None, "facts": {"save-first": "yes"}},
         "Asks the trainer for a checkpoint first. Stops 3 jobs. Then it starts from that one "
         "(newest now: step 46,000) and loses only the steps after that checkpoint."),
    ],
)  # fmt: skip
def test_a_relaunch_says_where_it_begins_and_what_it_stops(
    fields: dict[str, Any], said: str
) -> None:
    assert plan(**fields).summary == said


def test_another_checkpoint_of_the_trainer_is_no_start_unless_the_command_names_ours() -> None:
    other = Pick(path="/data/ckpt/step-9", step=9, why="by name")
    ours = Pick(path="/data/ckpt/step-7", step=7, why="newest complete")
    picks: dict[str, Any] = {"checkpoint": ours, "trainer_would_load": other, "loses": None}
    said = plan(**picks, command="train --from /data/ckpt/step-70").summary
    assert "though the trainer would load step 9" in said
    assert "starts from step 7." in plan(**picks, command="train --from=/data/ckpt/step-7").summary


def test_what_is_not_known_is_not_said() -> None:
    blocked = plan(stops=(), checks=(*CLEAN, BLOCKED)).summary
    assert "stopped" not in blocked
    assert plan("stop", loses=None).summary == (
        "Stops /ada/toy (4 tasks), and it is not known what is lost.")  # fmt: skip
    saved = plan("stop", loses="49 steps", facts={"save-first": "yes"}).summary
    assert saved.endswith("and loses only the steps after that checkpoint.") and "49" not in saved
    assert plan("stop", stops=(), checks=(BLOCKED,)).summary == (
        "Cannot run now: 1 check blocks it.")  # fmt: skip
    gone = plan("retain", targets=(target(1), target(2).model_copy(update={"size": None})))
    assert "Deletes 2 checkpoints (16.4 GB or more) for good." in gone.summary


def test_the_sentence_is_no_part_of_the_identity() -> None:
    assert plan(loses="1 step").plan_id == plan(loses="2 steps").plan_id
    assert plan(loses="1 step").summary != plan(loses="2 steps").summary


def test_a_job_that_is_called_by_its_whole_command_goes_by_its_id_in_the_sentence() -> None:
    command = "/venv/bin/python -m trainer --config config.json --steps 20000 (pid:13275)"
    assert "Stops pid:13275. Then" in plan(stops=(command,)).summary
    assert (
        "Stops /ada/run-failed (4 tasks). Then"
        in plan(stops=("/ada/run-failed (4 tasks)",)).summary
    )
