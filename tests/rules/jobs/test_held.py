from __future__ import annotations

from cockpit.model.alert import Severity
from cockpit.model.facet import known
from cockpit.model.history import History
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.model.report import Facets
from cockpit.rules.jobs.duplicates import IN_HAND, duplicate_job
from tests.rules.making import T0, job, run_spec

LEFT = LiveJob(
    id="12", name="train", why="held leftover of toy-i002: never let go", launch_id="toy-i002",
    started_at=T0,
)  # fmt: skip


def told(phase: Phase, age: float) -> list[str]:
    value = job(phase, id="13", launch_id="toy-i003", held=(LEFT,), rivals_source="slurm here")
    facets = Facets(job=known(value, "slurm here", T0 + age))
    alerts = list(duplicate_job(run_spec(), History(now=T0 + age, facets=facets)))
    for alert in alerts:
        assert (alert.id, alert.key, alert.severity) == ("C-25", "C-25:held:toy", Severity.WARNING)
        assert alert.since == T0 and "cockpit stop toy --only held" in alert.next_action
    return [alert.title for alert in alerts]


def test_what_a_launch_has_left_held_is_told_and_is_no_second_writer() -> None:
    for phase in (Phase.RUNNING, Phase.FAILED):
        assert told(phase, IN_HAND + 1) == ["Held job left over from toy-i002: 12"]


def test_a_launch_that_is_still_under_way_has_left_nothing() -> None:
    assert told(Phase.RUNNING, IN_HAND) == []
