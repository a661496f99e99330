"""What a seal does: commit, tag, push; end the watch; write it down once (SPEC A-7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.action import Doing, SkipStep, Step, StepError
from cockpit.actions.recording import approvals_text, comment_step, log_step
from cockpit.actions.run_log_steps import results_step
from cockpit.model.plan import Plan
from cockpit.model.records import EventEntry
from cockpit.model.words import steps
from cockpit.records.issue_text import sealed
from cockpit.records.sealing import seal
from cockpit.sources.offload import offload
from cockpit.store.endings import Endings
from cockpit.store.store import StoreError

DEADLINE: Final = 15.0
COMMIT: Final = "commit"
FIGURES: Final = {"last_step": "Last step", "loss": "Loss", "throughput": "Throughput"}


def steps_of(plan: Plan) -> Sequence[Step]:
    """Return the steps; each finds what an interrupted seal has done already."""
    return (
        Step("seal", _seal),
        Step("end", _end),
        _once(log_step(_entry, f"{plan.run}: log final seal")),
        results_step(_results, _status, f"{plan.run}: log final seal"),
        comment_step(lambda doing: f"seal:{doing.facts['step']}", _comment),
    )


def _once(log: Step) -> Step:
    """Return the step that logs, but never a second entry of one seal."""

    async def run(doing: Doing) -> str | None:
        if doing.facts.get("logged") == "yes":
            raise SkipStep("the logbook holds it already")
        return await log.run(doing)

    return Step(log.name, run, records=True)


async def _seal(doing: Doing) -> str:
    code, facts = doing.ground.spec.code, doing.facts
    if code is None or code.repo is None:
        raise SkipStep("no code repository is named")
    if facts.get("tag_at") and facts.get("on_remote") == "yes":
        await doing.note(**{COMMIT: facts["tag_at"]})
        raise SkipStep(f"{facts['tag']} stands at {facts['tag_at'][:10]} already")
    done = await seal(
        Path(code.repo.path),
        doing.ground.spec.name,
        int(facts["step"]),
        _message(doing),
        json.loads(facts["dirty"]),
    )
    if done.commit is not None:
        await doing.note(**{COMMIT: done.commit})
    if done.trouble is not None:
        raise StepError(done.trouble)
    return f"{done.tag} at {(done.commit or '')[:10]}, pushed"


async def _end(doing: Doing) -> str:
    """Tell the watch, here or in another process, that a person knows of the end (SPEC W)."""
    store, key = doing.ground.parts.store, doing.ground.key
    if store is None:
        raise SkipStep("there is no store")
    who, at = doing.entry.operator, doing.entry.begun_at
    try:
        await offload(
            lambda: Endings(store).acknowledge(key, doing.facts["job"], who, at), deadline=DEADLINE
        )
    except (StoreError, TimeoutError) as error:
        raise StepError(f"the end could not be acknowledged: {error}") from error
    watched = doing.ground.report.watched_by
    return f"the watch of {watched} ends" if watched else "the end is acknowledged"


def _message(doing: Doing) -> str:
    facts = doing.facts
    lines = [f"{doing.plan.run}: final seal at step {facts['step']}", ""]
    named = ("loss", "wandb_id", "wandb_url", "checkpoint", "output_root")
    lines += [f"{name}: {facts[name]}" for name in named if facts.get(name)]
    return "\n".join([*lines, f"sealed by: {doing.entry.operator}"])


def _entry(doing: Doing) -> EventEntry:
    facts = doing.facts
    return EventEntry(
        title="final seal",
        at=doing.entry.begun_at,
        status=f"sealed at step {steps(int(facts['step']))} by {doing.entry.operator}",
        evidence="\n".join(_evidence(doing)),
        decision=approvals_text(doing.plan) or "everything that a seal needs is there",
        next="nothing; the run is over",
    )


def _evidence(doing: Doing) -> list[str]:
    facts = doing.facts
    figures = [f"{name} {facts[name]}" for name in ("loss", "throughput") if facts.get(name)]
    wandb = [facts[name] for name in ("wandb_id", "wandb_name", "wandb_url") if facts.get(name)]
    lines = [
        f"final metrics: step {facts.get('last_step', '?')}, {', '.join(figures) or 'none'}",
        f"W&B: {' · '.join(dict.fromkeys(wandb)) or 'none'}",
        f"final checkpoint: {facts.get('checkpoint', 'none')}",
        f"output root: {facts.get('output_root', 'none')}",
    ]
    if facts.get(COMMIT):
        lines.append(f"tag: {facts['tag']} at {facts[COMMIT]}")
    if facts.get("command"):
        lines.append(f"launch command: `{facts['command']}`")
    return lines


def _comment(doing: Doing) -> str:
    facts, approvals = doing.facts, approvals_text(doing.plan)
    return sealed(
        doing.ground.spec,
        int(facts["step"]),
        tag=facts.get("tag") or "none: no code repository is named",
        commit=facts.get(COMMIT),
        checkpoint=facts.get("checkpoint"),
        metrics={label: facts[name] for name, label in FIGURES.items() if facts.get(name)},
        command=facts.get("command"),
        caveats=approvals.replace("\n", "; ") or None,
    )


def _results(doing: Doing) -> dict[str, str]:
    """Return what the run log's results are filled with (HPC, "Updating a run log")."""
    facts = doing.facts
    told = {
        "final step": facts["step"],
        "end_train_loss": facts.get("loss", ""),
        "checkpoint": f"`{facts['checkpoint']}`" if facts.get("checkpoint") else "",
    }
    return {label: value for label, value in told.items() if value}


def _status(doing: Doing) -> str:
    tag = f", tag {doing.facts['tag']}" if doing.facts.get(COMMIT) else ""
    return f"sealed at step {steps(int(doing.facts['step']))} by {doing.entry.operator}{tag}"
