from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.facet import known
from cockpit.model.observed import Phase
from cockpit.model.report import Verdict
from cockpit.rules.verdict import doubt, next_action, verdict
from tests.rules.making import CADENCE, T0, blind, history, job, log, run_spec, tracker

LATE = T0 + 4 * CADENCE


@pytest.mark.parametrize(
    ("facets", "now", "says"),
    [
        ({"job": job()}, T0, None),
        ({"job": job(Phase.WAITING)}, T0, None),
        ({"job": known(job(), "somebody", T0)}, T0 + 170, None),
        ({"job": known(job(), "somebody", T0)}, T0 + 1020, "the job was last queried 17m ago"),
        ({"job": blind(), "log": log()}, T0, None),
        ({"job": blind(), "log": log()}, LATE, "somewhere: no answer within 5 s, and nothing"),
        ({"job": blind(), "log": log(), "tracker": tracker(last_step_at=LATE)}, LATE, None),
        ({"job": job(Phase.UNKNOWN, state="REVOKED")}, T0, 'the job\'s state is "REVOKED", and'),
    ],
)  # fmt: skip
def test_healthy_is_what_was_asked_lately_or_moves(
    facets: dict[str, Any], now: float, says: str | None
) -> None:
    past = history(now, **facets)
    found = doubt(run_spec(), past)
    assert found is None if says is None else found is not None and found.startswith(says)
    word = verdict(run_spec(), past, ())
    assert word is (Verdict.HEALTHY if says is None else Verdict.UNKNOWN)
    assert says is None or says in next_action(run_spec(), past, ())


def test_only_a_log_and_no_job_named_is_no_sign_of_health() -> None:
    past = history(T0, log=log("step 1"), job_named=False)
    assert verdict(run_spec(job=None), past, ()) is Verdict.UNKNOWN
    assert "no step seen; no job is configured" in next_action(run_spec(job=None), past, ())
