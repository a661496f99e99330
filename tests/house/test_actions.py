"""Every guarded action is reached by its verb, and its steps have the names that others read.

The names stand in results, journals and on screens, and recovery and checks look for them: a
step that is renamed here is renamed for every reader.
"""

from __future__ import annotations

from typing import cast

import pytest

from cockpit.actions.core.action import ActionContext
from cockpit.actions.core.recovery import NOT_LOOKED_UP
from cockpit.actions.core.table import TABLE, Actions
from cockpit.model.plan import Draft, Request, plan_of
from cockpit.store.journal import SUBMIT
from widgets.painting.journal import STEP_WORDS

LAUNCHED = ("record-launch", "failure", "state-file", "follow")
STEPS: dict[str, tuple[str, ...]] = {
    "launch": (
        *("evidence", "checkpoint", "create-issue", "submit", "verify"),
        *(*LAUNCHED, "instance", "log", "issue", "run-log", "confirm", "log-trouble"),
    ),
    "relaunch": (
        *("evidence", "save", "stop", "checkpoint", "submit", "verify"),
        *(*LAUNCHED, "instance", "log", "issue", "run-log", "confirm", "log-trouble"),
    ),
    "lineage": (
        *("checkpoint", "submit", "verify"),
        *(*LAUNCHED, "log", "issue", "run-log", "confirm", "log-trouble"),
    ),
    "rollback": ("mark", "reject", "intent", "move", "verify", "log", "run-log", "issue"),
    "stop": ("evidence", "save", "stop", "log", "run-log"),
    "retain": ("delete", "log", "issue"),
    "seal": ("seal", "end", "log", "run-log", "issue"),
    "handoff": ("transfer", "log", "issue"),
    "escalate": ("notify", "issue", "log", "reach"),
    "log": ("log",),
    "autolog": ("allow",),
    "sync": ("sync", "log"),
    "teardown": ("teardown", "log", "issue"),
    "publish": ("training-log", "run-log", "log"),
    "ack": ("ack", "log"),
    "standing": ("allow", "log"),
    "hold": ("order", "log", "run-log"),
    "release": ("order", "log", "run-log"),
    "requeue": ("evidence", "save", "order", "log", "run-log"),
    "extend": ("order", "log", "run-log"),
    "adopt": ("adopt", "record-launch", "state-file", "instance", "log"),
}
READ_BY_RECOVERY = {SUBMIT: {"launch", "relaunch", "lineage"}, **{
    name: {"teardown"} for name in NOT_LOOKED_UP
}}  # fmt: skip
"""Steps that recovery looks for, and the actions that have them."""
NOT_BUILT: set[str] = set()
"""Actions of SPEC that do not exist yet: building one moves its id out of here."""


def steps_of(verb: str) -> tuple[str, ...]:
    """The steps of a verb's action, found as a service finds it, for a plan of the verb."""
    request = Request(action=verb, run="toy", operator="ada")
    facts = {"title": "note", "to": "bob", "off": ""}
    plan = plan_of(request, Draft(words=f"{verb} toy", checks=(), facts=facts), 0.0)
    action = Actions()[verb]
    assert action.verb == verb
    return tuple(step.name for step in action.steps(cast(ActionContext, None), plan))


def test_every_action_of_the_specification_has_its_place() -> None:
    placed = {*(row.spec for row in TABLE if row.spec != "J"), *NOT_BUILT}
    assert placed == {f"A-{number}" for number in range(1, 16)}


@pytest.mark.parametrize("verb", STEPS)
def test_the_steps_of_an_action_keep_their_names(verb: str) -> None:
    names = steps_of(verb)
    assert names == STEPS[verb]
    assert len(set(names)) == len(names)


def test_every_step_is_told_in_words_that_fit_its_column() -> None:
    names = {name for steps in STEPS.values() for name in steps}
    assert names == set(STEP_WORDS)
    assert all(len(words) <= 20 and "-" not in words for words in STEP_WORDS.values())


def test_no_action_is_without_its_steps() -> None:
    assert sorted(row.verb for row in TABLE) == sorted(STEPS)


@pytest.mark.parametrize("name", READ_BY_RECOVERY)
def test_recovery_finds_the_steps_that_it_looks_for(name: str) -> None:
    assert {verb for verb in STEPS if name in steps_of(verb)} == READ_BY_RECOVERY[name]
