"""A tracker that is not W&B is not called so, and the trainer's own alerts are shown."""

from __future__ import annotations

from cockpit.model.place import place_of
from cockpit.model.report import RunReport
from cockpit.model.run import TensorboardSpec, TrackioSpec
from cockpit.model.tracking import TrackerAlert
from tests.widgets import reports as made
from widgets.facet_table import paint_facets
from widgets.painting.rows import ages
from widgets.painting.series import why_no_curve


def report_of(**changes: object) -> RunReport:
    report = made.report(seen=made.facets(tracker=made.tracker(**changes)))
    spec = TrackioSpec(db=place_of("/t/p.db"))
    return report.model_copy(
        update={"spec": report.spec.model_copy(update={"wandb": None, "trackio": spec})}
    )


def test_its_age_and_its_table_have_its_own_name() -> None:
    report = report_of(columns=(), history=(), loss=None)
    assert ages(report, made.NOW, 80).plain.startswith("steps 30s")
    assert why_no_curve(report).endswith("name it in [run.trackio] metrics")
    events = TensorboardSpec(dir=place_of("/t"))
    spec = report.spec.model_copy(update={"trackio": None, "tensorboard": events})
    other = report.model_copy(update={"spec": spec})
    assert why_no_curve(other).endswith("name it in [run.tensorboard] metrics")


def test_what_the_trainer_raised_is_a_fact_of_the_tracker() -> None:
    alert = TrackerAlert(at=made.NOW - 60, level="error", title="Loss is NaN", text="at 7")
    lines = paint_facets(report_of(alerts=(alert,)), made.NOW, 100)
    text = " ".join(line.plain for line in lines)
    assert "trainer's error Loss is NaN · at 7 · 1m" in text
