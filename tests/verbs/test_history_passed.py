"""``history``: what came and went between two looks stands there with its own time and steps."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.model.alert import RowSpan, Severity
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.store import Store, run_key
from tests.widgets.reports import alert

T0 = 1_800_000_000.0


def test_what_came_and_went_is_one_line_and_one_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "r"\n')
    timed = RowSpan(
        opened_step=459, opened_at=T0, closed_step=474, closed_at=T0 + 90, passed=True
    )  # fmt: skip
    untimed = RowSpan(opened_step=900, closed_step=950, passed=True)
    spike = alert("C-11", Severity.ALERT, "Loss more than 50 % above its trend")
    store_path().parent.mkdir(parents=True, exist_ok=True)
    with closing(Store(store_path())) as store:
        found = [
            Kept(
                alert=spike.model_copy(update={"span": span, "since": at}),
                opened_at=at, closed_at=at + 90,
            )
            for span, at in ((timed, T0), (untimed, T0 + 9000))
        ]  # fmt: skip
        for _ in range(2):
            Alerts(store).add_passed(run_key(str(config), "r"), found, 900.0)
    assert main(["history", "r", "--config", str(config)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "closed unseen  C-11 alert: Loss more than" in first
    assert first.endswith("step 459 to 474, since 2027-01-15 08:00:00Z")
    assert second.endswith("step 900 to 950, time unknown: its rows have no time")
    assert main(["history", "r", "--config", str(config), "--json"]) == 0
    one, other = json.loads(capsys.readouterr().out)["alerts"]
    assert (one["seen"], one["span"]["passed"], one["span"]["opened_step"]) == (False, True, 459)
    assert one["closed_at"] == one["span"]["closed_at"] == "2027-01-15T08:01:30.000Z"
    assert other["span"]["opened_at"] is None
