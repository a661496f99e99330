"""C-18 while a job runs: which settings differ from the prior instance's."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Alert, Severity
from cockpit.model.jobs import Snapshot
from cockpit.model.observed import Phase
from cockpit.rules.lineage.drift import alike, config_drifts
from tests.rules.making import T0, history, job, run_spec, settings_of


def found(was: dict[str, Any], now: dict[str, Any], **more: Any) -> list[Alert]:
    given = {"job": job(), "settings": settings_of(now), "former_settings": settings_of(was)}
    return list(config_drifts(run_spec(), history(T0 + 60, **{**given, **more})))


@pytest.mark.parametrize(
    ("was", "now", "severity"),
    [
        ({"optim": {"lr": 1e-4}}, {"optim": {"lr": 3e-4}}, Severity.ALERT),
        ({"seed": 0}, {"seed": 1}, Severity.ALERT),
        ({"comment": "a"}, {"comment": "b"}, Severity.WARNING),
        ({"lr": "1e-4", "bf16": "true"}, {"lr": 0.0001, "bf16": True}, None),
        ({"batch": 8}, {"batch": 8.0, "world_batch": 64}, None),
        ({"batch": 8, "gone": 1}, {"batch": 8}, None),
        ({"resume_from_checkpoint": None}, {"resume_from_checkpoint": "/c/step-5"}, None),
        ({"timestamp": 1, "_wandb": {"t": 1}}, {"timestamp": 2, "_wandb": {"t": 2}}, None),
        ({"output_dir": "/a"}, {"output_dir": "/b"}, None),
    ],
)
def test_what_counts_as_a_difference(
    was: dict[str, Any], now: dict[str, Any], severity: Severity | None
) -> None:
    alerts = found(was, now)
    assert [each.severity for each in alerts] == ([] if severity is None else [severity])
    assert found(was, now, job=job(Phase.FAILED)) == []


def test_both_values_are_told_those_that_matter_first() -> None:
    was = {"zzz": 1, "lr": 1, "note": "a", "data": {"path": "x"}}
    now = {"zzz": 2, "lr": 2, "note": "b", "data": {"path": "y"}}
    (alert,) = found(was, now)
    assert [line.text for line in alert.evidence] == [
        'data.path: "x" → "y"', "lr: 1 → 2", 'note: "a" → "b"', "zzz: 1 → 2",
    ]  # fmt: skip
    many = {f"k{number}": number for number in range(40)}
    (alert,) = found(many, {key: -1 for key in many})
    assert alert.evidence[-1].text == "and 28 more settings"


def test_what_the_last_launch_has_recorded_goes_before_the_former_job() -> None:
    used = Snapshot(launch_id="i2", at=T0, action="relaunch", command=("t",), config={"lr": "2"})
    assert found({"lr": 1}, {"lr": 2}, used=used) == []
    assert "launch i2" in found({"lr": 3}, {"lr": 3}, used=used)[0].title


def test_values_that_differ_only_in_type_are_one() -> None:
    assert alike('"None"', "null") and alike('"0.5"', "0.5") and alike('"False"', "false")
    assert not alike('"1e-4"', "0.001") and not alike("0.1", "0.2") and not alike('"a"', '"b"')
