from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Severity
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import OtherMonitor, Phase
from cockpit.model.report import Verdict
from cockpit.rules.jobs.jobstate import monitor_stale
from cockpit.rules.judge import judge
from cockpit.rules.verdict import verdict
from tests.rules.making import CADENCE, T0, blind, history, job, monitor, run_spec

NOW = T0 + 1000


def test_no_sign_for_more_than_two_cadences_is_stale() -> None:
    past = history(NOW, job=job(), monitor=monitor(NOW - 2 * CADENCE - 1))
    (alert,) = monitor_stale(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-03", Severity.WARNING)
    assert alert.since == NOW - 2 * CADENCE - 1


def test_two_cadences_are_still_fine() -> None:
    past = history(NOW, job=job(), monitor=monitor(NOW - 2 * CADENCE))
    assert list(monitor_stale(run_spec(), past)) == []


def test_it_never_changes_the_verdict() -> None:
    past = history(NOW, job=job(), monitor=monitor(NOW - 900, fresh=False))
    found = judge(run_spec(), past)
    assert [alert.id for alert in found] == ["C-03"]
    assert verdict(run_spec(), past, found) is Verdict.HEALTHY


def test_a_run_without_a_monitor_has_no_stale_one() -> None:
    past = history(NOW, job=job(), monitor=monitor(T0, fresh=False))
    assert list(monitor_stale(run_spec(monitor=None), past)) == []


@pytest.mark.parametrize(
    ("phase", "ordered", "stale"),
    [
        (Phase.SUCCEEDED, None, False),
        (Phase.FAILED, None, True),
        (Phase.CANCELLED, None, True),
        (Phase.CANCELLED, "ada", False),
        (Phase.WAITING, None, True),
    ],
)
def test_a_run_is_watched_until_its_end_is_known_to_be_meant(
    phase: Phase, ordered: str | None, stale: bool
) -> None:
    past = history(NOW, job=job(phase), monitor=monitor(T0, fresh=False), stop_ordered_by=ordered)
    assert bool(list(monitor_stale(run_spec(), past))) is stale


def test_two_monitors_on_one_job_are_said_by_name() -> None:
    rival = OtherMonitor(path="other.json", owner="bob", last_update=NOW - 5, fresh=True)
    past = history(NOW, job=job(), monitor=monitor(NOW, owner="ada", others=(rival,)))
    (alert,) = monitor_stale(run_spec(), past)
    assert alert.key == "C-03:toy:two"
    assert [line.text.split(":")[0] for line in alert.evidence] == ["ada", "bob"]


def test_blindness_does_not_make_it_stale() -> None:
    seen: Facet[Any] = Facet(
        value=monitor(T0), source="m.json", observed_at=T0 + 5, error=blind().error
    )
    assert list(monitor_stale(run_spec(), history(NOW, job=job(), monitor=seen))) == []
    assert list(monitor_stale(run_spec(), history(NOW, job=job(), monitor=blind()))) == []


def test_a_clock_that_leaves_it_open_neither_opens_nor_closes_in_a_watch() -> None:
    doubt = monitor(NOW - 3600, fresh=False, doubt="its clock may be behind")
    watched = {"attended": True}
    once = history(NOW, job=job(), monitor=doubt)
    assert list(monitor_stale(run_spec(), once.model_copy(update=watched))) == []
    stale = history(NOW, job=job(), monitor=monitor(NOW - 3600, fresh=False))
    former = tuple(monitor_stale(run_spec(), stale))
    past = once.model_copy(update={**watched, "open": former})
    assert tuple(monitor_stale(run_spec(), past)) == former
    lost = doubt.model_copy(update={"gone": ("its tunnel session t is gone",)})
    past = history(NOW, job=job(), monitor=lost).model_copy(update=watched)
    (alert,) = monitor_stale(run_spec(), past)
    assert alert.key == "C-03:toy:gone"
    (alert,) = monitor_stale(run_spec(), once)
    assert alert.confidence == "likely" and "may be behind" in alert.evidence[1].text
    assert alert.next_action.startswith("look again")


def test_a_monitor_that_never_wrote_is_stale_after_two_cadences() -> None:
    missing = blind(T0, ErrorKind.NOT_FOUND)
    early = history(T0 + 2 * CADENCE, job=job(), monitor=missing)
    late = history(T0 + 2 * CADENCE + 1, job=job(), monitor=missing)
    assert list(monitor_stale(run_spec(), early)) == []
    assert len(list(monitor_stale(run_spec(), late))) == 1


def test_a_session_that_is_gone_is_said_while_the_file_still_moves() -> None:
    text = "its tunnel session t is gone: no tmux or screen session of that name on this machine"
    cut_off = monitor(NOW).model_copy(update={"gone": (text,)})
    past = history(NOW, job=job(), monitor=cut_off)
    (alert,) = monitor_stale(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-03", Severity.WARNING)
    assert [each.text for each in alert.evidence] == [text]
    assert verdict(run_spec(), past, [alert]) is Verdict.HEALTHY


def test_a_stale_monitor_names_what_is_gone_in_one_alert() -> None:
    gone = monitor(T0, fresh=False).model_copy(update={"gone": ("why",)})
    (alert,) = monitor_stale(run_spec(), history(NOW, job=job(), monitor=gone))
    assert [each.text for each in alert.evidence][1:] == ["why"]
