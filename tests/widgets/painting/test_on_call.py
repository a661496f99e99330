"""What follows from a cause stands below it; what was taken says why."""

from __future__ import annotations

from cockpit.model.alert import Acknowledgement, Severity
from tests.widgets import reports as made
from widgets.alert_list import paint_open

NOW = made.NOW


def test_what_follows_is_one_line_below_its_cause() -> None:
    cause = made.alert("C-06", title="no training step any more")
    cause = cause.model_copy(update={"consequences": ("C-05", "C-23")})
    rest = [
        made.alert(rule, Severity.ALERT).model_copy(update={"caused_by": "C-06"})
        for rule in ("C-05", "C-23")
    ]
    alone = made.alert("C-08", title="two checkpoints")
    report = made.report(alerts=(cause, alone, *rest))
    lines = [line.plain.strip() for line in paint_open(report, NOW, 100) if line.plain.strip()]
    at = {
        each: n for n, line in enumerate(lines) for each in ("C-06", "C-05", "C-08") if each in line
    }
    assert lines[at["C-05"]].startswith("follows ▲ C-05")
    assert at["C-06"] < at["C-05"] < at["C-08"]
    assert sum("look at the input pipeline" in line for line in lines) == 2


def test_a_taken_alert_says_by_whom_until_when_and_why() -> None:
    taken = Acknowledgement(by="ada", at=NOW - 60, until=NOW + 3600, reason="node is being swapped")
    report = made.report(alerts=(made.alert().model_copy(update={"acknowledged": taken}),))
    shown = "\n".join(line.plain for line in paint_open(report, NOW, 100))
    assert "acknowledged by ada" in shown
    assert "quiet until" in shown
    assert "node is being swapped" in shown
