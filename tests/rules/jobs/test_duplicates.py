from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Severity
from cockpit.model.facet import known
from cockpit.model.history import History
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.model.report import Facets
from cockpit.rules.jobs.duplicates import duplicate_job
from cockpit.rules.judge import judge
from tests.rules.making import T0, job, run_spec


def rival(number: int, **changes: Any) -> LiveJob:
    plain = {"id": f"pid:{number}", "name": "python train.py", "why": "the W&B id in its arguments"}
    return LiveJob(**{**plain, "started_at": T0 + number, **changes})


def history(phase: Phase, *rivals: LiveJob) -> History:
    value = job(phase, id="pid:7", launch_id="toy-i002", rivals=rivals)
    return History(now=T0 + 100, facets=Facets(job=known(value, "process table", T0 + 99)))


def test_two_live_jobs_are_critical_and_both_are_named() -> None:
    run = run_spec(output_root="/runs/toy")
    (alert,) = duplicate_job(run, history(Phase.RUNNING, rival(9)))
    assert (alert.id, alert.key, alert.severity) == ("C-25", "C-25:toy", Severity.CRITICAL)
    assert alert.title == "2 live jobs write to output root /runs/toy"
    assert alert.since == T0 + 9
    text = [each.text for each in alert.evidence]
    assert text[0].startswith("pid:7, launch toy-i002, since ") and "recorded" in text[0]
    assert text[1].startswith("pid:9, since ") and "the W&B id in its arguments" in text[1]
    assert "pid:7 is the recorded one, pid:9 is not" in alert.next_action


@pytest.mark.parametrize(
    ("phase", "rivals", "fires"),
    [
        (Phase.RUNNING, 0, False), (Phase.WAITING, 1, True), (Phase.FAILED, 1, False),
        (Phase.FAILED, 2, True), (Phase.SUCCEEDED, 0, False),
    ],
)  # fmt: skip
def test_it_takes_two_that_live(phase: Phase, rivals: int, fires: bool) -> None:
    told = history(phase, *(rival(number) for number in range(10, 10 + rivals)))
    assert bool(list(duplicate_job(run_spec(), told))) is fires


def test_it_is_one_of_the_rules() -> None:
    found = judge(run_spec(), history(Phase.RUNNING, rival(9)))
    assert "C-25" in {alert.id for alert in found}


def test_the_document_of_a_job_does_not_hold_its_rivals() -> None:
    assert "rivals" not in job(rivals=(rival(9),)).to_json()
