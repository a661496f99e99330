"""What forms are titled by, what their fields are called, and what stands in them already."""

from __future__ import annotations

import pytest

from cockpit.actions.core.table import TABLE
from cockpit.model.run import WandbSpec
from screens.acting.offers import fields_of, heading
from tests.widgets import reports as made
from widgets.painting.form import LABEL


@pytest.mark.parametrize("verb", [row.verb for row in TABLE])
def test_a_title_names_the_run_and_labels_leave_room_for_their_marks(verb: str) -> None:
    assert "run-a" in heading(verb, "run-a")
    labels = [each.label for each in fields_of(verb, made.report())]
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= LABEL - len("▸ * ") for label in labels)


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
