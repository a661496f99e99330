"""Which actions a run is offered, and the palette that lists them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.core.table import TABLE
from cockpit.app.commands import commands as commands_of
from cockpit.model.observed import UNCLEAR, Phase
from cockpit.model.report import Verdict
from cockpit.model.run import WandbSpec
from screens.acting.offers import (
    GROUPS,
    NEXT,
    NOT_NOW,
    RUNS,
    Command,
    choices,
    command_rows,
    fields_of,
    heading,
    in_groups,
    next_verb,
    offers,
    warning,
)
from screens.keys import Keys
from tests.screens.stand_in import StandIn, cockpit
from tests.widgets import reports as made
from tests.widgets.anything import words
from widgets.painting.plan import FIELD_LABEL


@pytest.mark.parametrize("verb", [row.verb for row in TABLE])
def test_a_title_names_the_run_and_labels_leave_room_for_their_marks(verb: str) -> None:
    assert "run-a" in heading(verb, "run-a")
    labels = [each.label for each in fields_of(verb, made.report())]
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= FIELD_LABEL - len("▸ * ") for label in labels)


def test_where_to_upload_to_stands_in_the_form_as_the_run_file_has_it() -> None:
    report = made.report()
    wandb = WandbSpec(entity="lab", project="moe", id="x")
    report = report.model_copy(update={"spec": report.spec.model_copy(update={"wandb": wandb})})
    assert [each.value for each in fields_of("sync", report)] == ["lab", "moe"]
    bare = report.model_copy(update={"spec": report.spec.model_copy(update={"wandb": None})})
    assert [each.value for each in fields_of("sync", bare)] == ["", ""]


def test_a_job_is_called_healthy_by_its_verdict_alone() -> None:
    def said(verb: str, verdict: Verdict, phase: Phase, state: str) -> str:
        facets = made.facets(job=made.job(phase, state=state))
        return warning(verb, made.report(verdict=verdict, facets=facets))

    well, unknown = Verdict.HEALTHY, Verdict.UNKNOWN
    assert said("relaunch", well, Phase.RUNNING, "RUNNING") == "running and healthy (RUNNING)"
    assert said("relaunch", unknown, Phase.RUNNING, "RUNNING") == "running (RUNNING)"
    assert said("relaunch", well, Phase.WAITING, "PENDING") == "waiting to run (PENDING)"
    for verb in ("launch", "relaunch", "stop", "seal"):
        assert said(verb, unknown, Phase.UNKNOWN, UNCLEAR) == "the job's state is unknown"


def failed(next_action: str = "relaunch from step 8,000") -> Any:
    report = made.failed()
    spec = report.spec.model_copy(update={"resubmit": ("python", "train.py")})
    return report.model_copy(update={"spec": spec, "next_action": next_action})


def listed(report: Any, reading_only: str = "") -> list[Command]:
    return choices(report, offers(report, Keys(), reading_only))


def test_the_next_safe_action_is_first_and_says_why() -> None:
    first = listed(failed())[0]
    assert (first.verb, first.group, first.help) == ("relaunch", NEXT, "relaunch from step 8,000")
    assert [each.group for each in listed(failed())].count(NEXT) == 1


@pytest.mark.parametrize(
    ("advice", "verb"),
    [("escalate to ada; do not relaunch", "escalate"), ("seal run-failed", "seal"),
     ("fix evaluation.py:14, then relaunch", "ack"), ("relaunching it is no default", "ack")],
)  # fmt: skip
def test_advice_names_an_action_only_by_its_own_imperative(advice: str, verb: str) -> None:
    assert next_verb(failed(advice)) == verb


def test_an_action_against_which_something_speaks_is_never_next() -> None:
    listing = listed(made.report("run-well").model_copy(update={"next_action": "relaunch it"}))
    assert all(each.group != NEXT for each in listing)
    assert next(each for each in listing if each.verb == "relaunch").group == NOT_NOW
    assert all(each.group == NOT_NOW for each in listed(failed(), "read-only"))


def test_what_failed_is_not_offered_to_be_sealed() -> None:
    seal = next(each for each in listed(failed()) if each.verb == "seal")
    assert seal.group == NOT_NOW and seal.note == "not finished (FAILED)"


def test_the_runs_stand_there_as_in_the_fleet_the_worst_first() -> None:
    fleet = StandIn(*reversed(made.fleet()))
    app = cockpit(engine=fleet)
    listing = [each.title for each in commands_of(app, ("everywhere",), "") if each.group == RUNS]
    assert listing[0] in ("run-failed", "run-nan") and listing[-1] == "run-well"


commands = st.builds(Command, title=words, help=words, call=words, key=words, why_not=words,
                     note=words, group=st.sampled_from(GROUPS))  # fmt: skip


@given(st.lists(commands, max_size=4).map(in_groups), st.integers(1, 200), st.booleans())
def test_property_no_line_is_too_wide(listing: list[Command], width: int, headed: bool) -> None:
    rows = command_rows(listing, headed)
    painted = [line for row in rows for line in row.paint(width, True)]
    assert all(line.cell_length <= max(width, 16) for line in painted)
    assert [row.key for row in rows if row.key] == [str(at) for at in range(len(listing))]
