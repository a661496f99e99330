"""The fleet's ``cockpit.toml`` (INTERFACE, "The run file")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import CADENCE, SAVE_EVERY, SITUATIONS, Situation

HEAD = "# Made by `cockpit demo`: seven small, real training runs. Remove: cockpit demo --clean\n"

NOTIFY = """# What needs a person is appended to messages.log here; yours would name a webhook.
[notify]
routes = [{ min = "alert", command = ["tee", "-a", "messages.log"] }]
"""


def run_file(layout: DemoLayout, operator: str, python: str) -> str:
    """Return the text of the run file; its paths start at its own folder."""
    parts = [HEAD, table("[cockpit]", {"cadence": f"{CADENCE}s", "operator": operator})]
    parts.append(NOTIFY)
    for situation in SITUATIONS:
        run, tables = _run(layout, situation, operator, python)
        parts.append(table("[[run]]", run))
        parts += [table(f"[run.{name}]", fields) for name, fields in tables.items()]
    return "\n".join(parts)


def command(layout: DemoLayout, situation: Situation, python: str) -> tuple[str, ...]:
    """Return the training command of a run; it starts in the code repository, whose code it is."""
    config = f"../{layout.run(situation.name).config.relative_to(layout.folder)}"
    return (python, "-E", "-m", "cockpit.demo.trainer", "--config", config, *situation.faults)


def _run(
    layout: DemoLayout, situation: Situation, operator: str, python: str
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    name, places = situation.name, layout.run(situation.name)
    folder = str(places.folder.relative_to(layout.folder))
    run = {
        "name": name,
        "tier": "ordinary",
        "dri": operator,
        "goal": situation.goal,
        "stop_criteria": "the loss is NaN",
        "final_step": situation.config.trainer.num_train_steps,
        "output_root": folder,
        "hardware": "cpu",
        "group": "demo",
        "config_file": f"{folder}/{places.config.name}",
        "resubmit": list(command(layout, situation, python)),
    }
    return run, _tables(layout, situation, folder)


def _tables(layout: DemoLayout, situation: Situation, folder: str) -> dict[str, dict[str, Any]]:
    name, places = situation.name, layout.run(situation.name)
    return {
        "job": {
            "kind": "local",
            "log": f"{folder}/{places.log.name}",
            "pid_file": f"{folder}/{places.pid_file.name}",
            "exit_file": f"{folder}/{places.exit_file.name}",
            "workdir": layout.code.name,
            "save_signal": "USR1",
            "grace": "10s",
        },
        "wandb": {"project": "cockpit-demo", "id": name, "name": name, "dir": f"{folder}/wandb"},
        "checkpoints": {
            "path": [f"{folder}/{root.name}" for root in places.roots],
            "layout": "levanter",
            "save_every": f"{SAVE_EVERY}s",
            "permanent_every": situation.config.trainer.checkpointer.permanent_every,
        },
        **own_tables(layout, situation, folder),
    }


def own_tables(layout: DemoLayout, situation: Situation, folder: str) -> dict[str, dict[str, Any]]:
    """Return what lies on this machine wherever a run trains; ``folder`` is its own here."""
    return {
        "monitor": {
            "state": f"{folder}/scratch/*_monitoring_state.json",
            "events": f"{layout.monitors.name}/{situation.monitor}.log",
        },
        "records": {"logbook": str(layout.logbook(situation.name).relative_to(layout.folder))},
        "code": {"repo": layout.code.name},
        "thresholds": {"warmup_steps": 50},
    }


def table(head: str, fields: Mapping[str, Any]) -> str:
    """Return a TOML table: JSON strings and lists are TOML too, as long as they keep letters."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "\n".join([head, *lines, ""])
