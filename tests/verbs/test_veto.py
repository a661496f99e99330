"""``cockpit veto``: stops what an agent waits to do, and what then stands in the history."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from cockpit.actions.core import action
from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.model.acts import Stage
from cockpit.model.base import rfc3339
from cockpit.store.launches import AgentRecords, Call
from cockpit.store.store import Store, run_key

AGENT = "agent:sonnet"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "cockpit.toml"
    path.write_text('[cockpit]\noperator = "ada"\n[[run]]\nname = "toy"\n')
    store_path().parent.mkdir(parents=True, exist_ok=True)
    return path


def test_it_stops_what_waits_and_the_history_says_who_and_why(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, now = run_key(str(config), "toy"), time.time()
    store = Store(store_path())
    kept = AgentRecords(store)
    kept.planned(key, AGENT, "relaunch", "0" * 12, now)
    act = kept.wait(key, AGENT, "relaunch", "0" * 12, now, now + 600)
    kept.called([Call(key, AGENT, "log", "ok", now), Call(f"{config}#", AGENT, "fleet", "ok", now)])
    assert main(["veto", "toy", "--reason", "not tonight", "--config", str(config)]) == 0
    assert "relaunch by agent:sonnet: vetoed by ada" in capsys.readouterr().out
    assert kept.begin(act.number, now) == kept.act(act.number)
    assert kept.act(act.number).stage is Stage.VETOED
    assert main(["veto", "toy", "--config", str(config)]) == 4
    assert "no agent is waiting to act on toy" in capsys.readouterr().out
    main(["history", "toy", "--config", str(config)])
    told = capsys.readouterr().out
    assert "relaunch by agent:sonnet: vetoed by ada" in told
    assert "(not tonight)" in told
    assert "agent:sonnet used log once" in told
    assert "agent:sonnet used fleet once" in told
    main(["history", "toy", "--json", "--config", str(config)])
    (found,) = json.loads(capsys.readouterr().out)["agents"]["acts"]
    assert (found["stage"], found["said"], found["plan_id"]) == ("vetoed", "not tonight", "0" * 12)
    store.close()


def test_an_agent_gives_no_veto(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace('"ada"', '"agent:x"'))
    assert main(["veto", "toy", "--config", str(config)]) == 2
    assert "a veto is for a person to give" in capsys.readouterr().err


def test_what_an_agent_did_later_is_not_known_at_a_moment(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, now = run_key(str(config), "toy"), time.time()
    store = Store(store_path())
    kept = AgentRecords(store)
    kept.planned(key, AGENT, "relaunch", "0" * 12, now - 300)
    kept.wait(key, AGENT, "relaunch", "0" * 12, now - 100, now + 600)
    kept.stop(key, "ada", "not tonight", now - 90, Stage.VETOED)
    kept.called([Call(key, AGENT, "log", "ok", now)])
    main(["history", "toy", "--at", rfc3339(now - 200), "--config", str(config)])
    told = capsys.readouterr().out
    assert "relaunch by agent:sonnet: planned" in told
    assert "vetoed" not in told
    assert "used log" not in told
    store.close()


def test_a_veto_whose_answer_was_lost_is_not_told_as_none(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(AgentRecords, "stop", lambda *asked: answers.wait())
    monkeypatch.setattr(action, "ANSWER_WITHIN", 0.05)
    try:
        assert main(["veto", "toy", "--config", str(config)]) == 2
    finally:
        answers.set()
    assert "cannot tell whether it was vetoed, veto again" in capsys.readouterr().err
