"""A night of an agent over real pipes: the loops of the babysitting skills, whole, through it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.lab import HASTY, Lab, Machine
from tests.mcp.client import Client

AGENT = "agent:night-watch"
MORE = """
[[run]]
name = "spoilt"
tier = "ordinary"
dri = "ada"
final_step = 100
output_root = "{root}/spoilt"
resubmit = "false"
job = {{ kind = "local", log = "{root}/spoilt/run.log", pid_file = "{root}/spoilt/run.pid", \
exit_file = "{root}/spoilt/run.exit" }}
checkpoints = {{ path = ["{root}/spoilt/checkpoints"], layout = "levanter" }}

[agents]
may = ["log", "escalate", "relaunch"]
grace = "500ms"

[notify]
routes = [{{ min = "info", command = [{python}, "-c", {script}] }}]
"""
TOLD = "import sys; open('told', 'a').write(sys.stdin.read())"


@pytest.fixture
def machine(lab: Lab) -> Machine:
    """Two runs: one that was killed in the night, and one that lost its numbers."""
    machine = lab.machine("one")
    machine.write(tracked=False)
    lab.prepare(machine)
    spoilt = machine.root / "spoilt"
    save = spoilt / "checkpoints" / "step-2"
    save.mkdir(parents=True)
    (save / "metadata.json").write_text('{"step": 2, "is_temporary": false}')
    lines = [f"step {step}/100 loss={'2.5' if step < 4 else 'nan'}\n" for step in range(1, 9)]
    (spoilt / "run.log").write_text("".join(lines))
    (spoilt / "run.exit").write_text("1\n")
    with machine.config.open("a") as file:
        words = {"python": json.dumps(sys.executable), "script": json.dumps(TOLD)}
        file.write(MORE.format(root=machine.root, **words))
    return machine


@pytest.fixture
def agent(machine: Machine) -> Iterator[Client]:
    client = Client(machine.config, machine.folder, program=(sys.executable, "-m", HASTY))
    try:
        client.greet()
        yield client
    finally:
        client.end()


def act(agent: Client, run: str, action: str, **params: str) -> dict[str, object]:
    """Plan, and do what was planned."""
    plan = agent.use("plan", run=run, action=action, params=params)
    assert not plan["blocked"], plan
    return agent.use("act", plan_id=plan["plan_id"], words=plan["words"], wait_s=60)


def test_it_detects_triages_relaunches_is_refused_on_lost_numbers_escalates_and_hands_off(
    lab: Lab, machine: Machine, agent: Client
) -> None:
    fleet = {row["run"]: row for row in agent.use("fleet")["runs"]}
    assert fleet["tiny"]["job"] == fleet["spoilt"]["job"] == "failed"
    assert "C-01 critical" in fleet["tiny"]["alerts"]
    assert "C-09 critical" in fleet["spoilt"]["alerts"]

    found = agent.use("triage", run="tiny")
    assert (found["class"], found["action"]) == ("killed", "relaunch")
    words = agent.use("plan", run="tiny", action="stop")
    assert words["blocked_by"][0] == "agents", "a stop is for a person to do"
    assert act(agent, "tiny", "escalate", note="killed; I relaunch it")["state"] == "done"
    assert "killed; I relaunch it" in (machine.folder / "told").read_text()
    done = act(agent, "tiny", "relaunch")
    assert (done["state"], done["launch_id"]) == ("done", "tiny-i001"), done
    assert len(lab.trainers) == 1
    said = [each["params"]["message"] for each in agent.heard]
    assert any("a person may veto until" in each for each in said)

    spoilt = agent.use("triage", run="spoilt")
    assert (spoilt["class"], spoilt["action"]) == ("numeric_instability", "escalate")
    assert act(agent, "spoilt", "escalate", note="NaN since step 4")["state"] == "done"
    plan = agent.use("plan", run="spoilt", action="relaunch")
    assert "C-09" in plan["blocked_by"]
    refused = agent.use("act", plan_id=plan["plan_id"], words=plan["words"])
    assert refused["state"] == "refused"
    assert "NaN" in str(refused["foreign_message"]) or "finite" in str(refused["foreign_message"])

    assert act(agent, "tiny", "log", event="night", status="relaunched")["state"] == "done"
    page = agent.use("handoff_page", run="tiny")["foreign_page"]
    assert "tiny-i001" in page
    events = agent.use("history", run="tiny")["events"]
    did = [each["what"] for each in events if each.get("foreign_by", "").startswith(AGENT)]
    assert {"relaunch: done", "relaunch: ended"} < set(did)
    assert agent.leave() == 0
    told = machine.history()
    assert [each["action"] for each in told["actions"]] == ["escalate", "relaunch", "log"]
    assert all(each["by"] == AGENT for each in told["actions"])
    calls = {each["tool"]: each["count"] for each in told["agents"]["calls"]}
    assert calls["triage"] == 1
    assert calls["plan"] == 4
    assert "tiny-i001" in lab.logbook()
