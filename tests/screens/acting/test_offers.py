"""What forms are titled by, what their fields are called, and what stands in them already."""

from __future__ import annotations

import pytest

from cockpit.actions.core.table import TABLE
from cockpit.model.observed import UNCLEAR, Phase
from cockpit.model.report import Verdict
from cockpit.model.run import WandbSpec
from screens.acting.offers import fields_of, heading, warning
from tests.widgets import reports as made
from widgets.painting.plan import FIELD_LABEL


@pytest.mark.parametrize("verb", [row.verb for row in TABLE])
def test_a_title_names_the_run_and_labels_leave_room_for_their_marks(verb: str) -> None:
    assert "run-a" in heading(verb, "run-a")
    labels = [each.label for each in fields_of(verb, made.report())]
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= FIELD_LABEL - len("▸ * ") for label in labels)


def test_a_form_is_titled_by_what_it_does() -> None:
    assert heading("lineage", "toy") == "new lineage of toy"
    assert heading("stop", "toy") == "stop toy"


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
