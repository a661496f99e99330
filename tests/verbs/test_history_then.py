"""``history --at`` tells what was known by then: no end that came later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.model.acts import Outcome
from cockpit.model.alert import Acknowledgement
from cockpit.model.base import rfc3339
from cockpit.model.plan import Draft, Request, StepResult, StepState, plan_of
from cockpit.records.lease.state import this_holder
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.journal import Journal
from cockpit.store.store import Store, run_key
from tests.widgets import reports as made

BEGAN = 1_700_000_000.0


def test_an_action_and_an_alert_that_ended_later_were_open_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "toy"\n')
    store_path().parent.mkdir(parents=True, exist_ok=True)
    store, key = Store(store_path()), run_key(str(config), "toy")
    journal, alerts = Journal(store), Alerts(store)
    draft = Draft(words="relaunch toy")
    plan = plan_of(Request(action="relaunch", run="toy", operator="ada"), draft, BEGAN)
    entry = journal.begin(key, plan, "ada", this_holder(), BEGAN, exclusive=False)
    for place, at in enumerate((BEGAN + 1, BEGAN + 99)):
        journal.step(entry.number, place, StepResult(name=str(place), state=StepState.DONE, at=at))
    journal.end(entry.number, Outcome.FAILED, BEGAN + 100, "it failed later")
    alert = made.alert(title="lost numbers")
    taken = Acknowledgement(by="bob", at=BEGAN + 90)
    alert = alert.model_copy(update={"acknowledged": taken})
    alerts.save(key, [Kept(alert=alert, opened_at=BEGAN, closed_at=BEGAN + 95)])
    store.close()
    ask = ["history", "toy", "--json", "--config", str(config), "--at"]
    main([*ask, rfc3339(BEGAN + 50)])
    then = json.loads(capsys.readouterr().out)
    main([*ask, rfc3339(BEGAN + 200)])
    later = json.loads(capsys.readouterr().out)
    assert [(each["outcome"], each["message"]) for each in then["actions"]] == [(None, "")]
    assert [step["name"] for step in then["actions"][0]["steps"]] == ["0"]
    assert later["actions"][0]["outcome"] == "failed"
    assert (then["alerts"][0]["closed_at"], then["alerts"][0]["acknowledged"]) == (None, None)
    assert later["alerts"][0]["closed_at"] == rfc3339(BEGAN + 95)
