"""The ``cockpit.toml`` of a demo on another system (INTERFACE, "The run file")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cockpit.demo.away.journal import Journal
from cockpit.demo.away.site import Ground
from cockpit.demo.run_file import NOTIFY, own_tables, table
from cockpit.demo.situations import CADENCE, SAVE_EVERY, Situation

HEAD = """\
# Made by `cockpit demo --on {kind}`: small, real training runs on {where}.
# Remove them and all that was made for them: cockpit demo --on {kind} --clean
"""


def run_file(journal: Journal, ground: Ground, operator: str, every: Sequence[Situation]) -> str:
    """Return the text of the run file."""
    head = HEAD.format(kind=journal.site.kind, where=journal.site.where)
    parts = [head, table("[cockpit]", {"cadence": f"{CADENCE}s", "operator": operator}), NOTIFY]
    for situation in every:
        run, tables = _run(journal, ground, situation, operator)
        parts.append(table("[[run]]", run))
        parts += [table(f"[run.{name}]", fields) for name, fields in tables.items()]
    return "\n".join(parts)


def _run(
    journal: Journal, ground: Ground, situation: Situation, operator: str
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    name, places = situation.name, journal.layout.run(situation.name)
    folder = str(places.folder.relative_to(journal.layout.folder))
    run = {
        "name": name,
        "tier": "ordinary",
        "dri": operator,
        "goal": situation.goal,
        "stop_criteria": "the loss is NaN",
        "final_step": situation.config.trainer.num_train_steps,
        "hardware": "cpu",
        "group": "demo",
        "config_file": f"file://{places.config}",
        "resubmit": journal.site.resubmit(situation, ground),
    }
    if ground.seen:
        run["output_root"] = ground.place("runs", name)
    job = {"kind": journal.site.kind, **journal.site.job(situation, ground)}
    tables: dict[str, dict[str, Any]] = {"job": job}
    if ground.tracker:
        wandb = ground.place("runs", name, "wandb")
        tables["wandb"] = {"project": "cockpit-demo", "id": name, "name": name, "dir": wandb}
    if ground.seen:
        tables["checkpoints"] = {
            "path": [ground.place("runs", name, root.name) for root in places.roots],
            "layout": "levanter",
            "save_every": f"{SAVE_EVERY}s",
            "permanent_every": situation.config.trainer.checkpointer.permanent_every,
        }
    tables |= own_tables(journal.layout, situation, folder)
    tables["code"] = {"repo": f"file://{journal.layout.code}"}
    return run, tables
