"""One cause, one alert (SPEC C): what only follows is carried by its cause, under its own key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.observed import Phase
from cockpit.rules.judge import ROWS, judge, with_causes, worst_first
from tests.rules.making import CADENCE, T0, folded, history, job, log, run_spec, tracker, windows

RUN = run_spec()
CRITICAL, ALERT, WARNING, INFO = Severity.CRITICAL, Severity.ALERT, Severity.WARNING, Severity.INFO


def opened(id_: str, severity: Severity = ALERT, since: float = T0, part: str = "") -> Alert:
    return Alert(
        id=id_, key=f"{id_}:toy{part}", severity=severity, title=id_, since=since, evidence=(),
        confidence="sure", next_action="look",
    )  # fmt: skip


def causes(*alerts: Alert) -> dict[str, str | None]:
    return {each.key: each.caused_by for each in with_causes(RUN, alerts)}


def test_a_jobs_end_carries_the_stall_the_rate_and_the_still_log() -> None:
    end = opened("C-01", CRITICAL, part=":job-1")
    found = with_causes(RUN, (end, opened("C-05"), opened("C-06"), opened("C-23", INFO)))
    assert found[0].consequences == ("C-05:toy", "C-06:toy", "C-23:toy")
    assert {each.caused_by for each in found[1:]} == {"C-01:toy:job-1"}
    assert [each.key for each in found] == ["C-01:toy:job-1", "C-05:toy", "C-06:toy", "C-23:toy"]


def test_what_was_open_long_before_has_a_cause_of_its_own() -> None:
    assert causes(opened("C-06"), opened("C-05", since=T0 - 2 * CADENCE - 1))["C-05:toy"] is None
    assert causes(opened("C-06"), opened("C-05", since=T0 - 2 * CADENCE))["C-05:toy"] == "C-06:toy"


def test_what_is_worse_than_its_cause_is_told_for_itself() -> None:
    assert causes(opened("C-06", WARNING), opened("C-05", ALERT))["C-05:toy"] is None


def test_a_run_that_is_named_as_a_part_is_none() -> None:
    run = run_spec(name="gpu-idle")
    disk = opened("C-22").model_copy(update={"key": "C-22:gpu-idle:disk:/data"})
    assert [each.caused_by for each in with_causes(run, (opened("C-06"), disk))] == [None, None]


def test_only_the_part_of_a_condition_that_follows_does() -> None:
    found = causes(
        opened("C-06"), opened("C-22", part=":gpu-idle"), opened("C-22", part=":disk:/data")
    )
    assert found == {
        "C-06:toy": None, "C-22:toy:gpu-idle": "C-06:toy", "C-22:toy:disk:/data": None,
    }  # fmt: skip


def test_idle_accelerators_follow_from_the_stall_however_long_they_idle() -> None:
    idle = opened("C-22", since=T0 - 9 * CADENCE, part=":gpu-idle")
    assert causes(opened("C-06"), idle)["C-22:toy:gpu-idle"] == "C-06:toy"


def test_a_loss_that_does_not_go_on_follows_from_the_wrong_checkpoint() -> None:
    early = opened("C-12", since=T0 - 9 * CADENCE, part=":former")
    found = causes(opened("C-17", part=":i2"), opened("C-12"), early)
    assert found == {"C-17:toy:i2": None, "C-12:toy": "C-17:toy:i2", "C-12:toy:former": None}


def test_without_its_cause_it_speaks_for_itself() -> None:
    alone = (opened("C-05"), opened("C-03", WARNING))
    assert with_causes(RUN, alone) == alone


def test_a_stall_that_the_rules_find_carries_the_rate_that_fell_with_it() -> None:
    """Through ``judge``: rows at a level, then three cadences at a fifth of it, then none."""
    level = [*([100.0] * 30), *([20.0] * 4)]
    rows = windows(level)
    end = rows[-1].at or 0.0
    past = history(
        end + 4 * CADENCE, folded(rows), job=job(), log=log("x", mtime=end),
        tracker=tracker(step=len(rows), last_step_at=end),
    )  # fmt: skip
    by_id = {each.id: each for each in judge(RUN, past)}
    assert {"C-05", "C-06"} <= by_id.keys()
    # the rate had been low for cadences before training stopped: no consequence of that
    assert by_id["C-05"].caused_by is None


def test_an_end_takes_the_stall_of_its_last_minutes_along() -> None:
    rows = windows([100.0] * 30)
    end = rows[-1].at or 0.0
    dead = job(Phase.FAILED, exit_code=1, ended_at=end + 30.0)
    past = history(end + 4 * CADENCE, folded(rows), job=dead, tracker=tracker(last_step_at=end))
    found = [each for each in judge(RUN, past) if each.caused_by is None and each.id != "C-03"]
    assert [each.id for each in found] == ["C-01"]


ALERTS = st.builds(
    opened,
    st.sampled_from(
        sorted(
            {
                each
                for row in ROWS.values()
                if row.consequence_of
                for each in (row.id, *row.consequence_of)
            }
        )
    ),
    st.sampled_from(list(Severity)),
    st.floats(T0 - 500.0, T0 + 500.0),
)


@given(st.lists(ALERTS, unique_by=lambda each: each.key))
def test_each_alert_has_one_root_that_carries_it_and_is_no_consequence(given_: list[Alert]) -> None:
    found = {each.key: each for each in with_causes(RUN, given_)}
    assert list(found) == [each.key for each in given_]
    for alert in found.values():
        if alert.caused_by is not None:
            root = found[alert.caused_by]
            assert root.caused_by is None
            assert alert.key in root.consequences
            assert root.severity.rank >= alert.severity.rank
        assert all(found[key].caused_by == alert.key for key in alert.consequences)


@given(st.lists(ALERTS, min_size=1, unique_by=lambda each: each.key))
def test_the_first_one_to_read_is_the_worst_and_no_consequence(given_: list[Alert]) -> None:
    found = worst_first(with_causes(RUN, given_))
    ranks = [each.severity.rank for each in found]
    assert ranks == sorted(ranks, reverse=True)
    assert found[0].caused_by is None
    assert worst_first(reversed(found)) == found
