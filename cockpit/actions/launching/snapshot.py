"""What a launch really uses, put together at the moment of launching (SPEC C-18, SPEC L)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.actions.checks.config_file import ResolvedConfig, digest
from cockpit.actions.core.action import Execution
from cockpit.model import wording
from cockpit.model.observed import CodeValue, Pick
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import masked, recorded, words_of
from cockpit.records.logbook.markdown import code as code_span
from cockpit.store.memory import Snapshot
from cockpit.text.scrub import shown

MOST: Final = 200_000
"""Characters of a command in a record."""


def snapshot_of(
    execution: Execution,
    run: RunSpec,
    code: CodeValue | None,
    words: Sequence[str],
    template: Sequence[str],
    config: ResolvedConfig | None,
    pick: Pick | None,
) -> Snapshot:
    """Return the record of one launch; everything in it may be shown."""
    values = None if config is None else config.values
    wandb = run.wandb
    return Snapshot(
        launch_id=execution.launch_id,
        at=execution.entry.begun_at,
        action=execution.plan.action,
        command=masked(words),
        template=masked(template),
        resubmit=_to_go_on(run, template),
        sha=code.sha if code is not None else None,
        branch=code.branch if code is not None else None,
        patch_id=code.patch_id if code is not None else None,
        dirty=code.dirty if code is not None else (),
        config=values,
        config_source=config.source if config is not None else None,
        config_sha256=None if values is None else digest(values),
        checkpoint=pick,
        hardware=None if run.hardware is None else shown(run.hardware),
        output_root=None if run.output_root is None else shown(str(run.output_root), 2000),
        wandb_id=wandb.id if wandb is not None else None,
        wandb_project=wandb.project if wandb is not None else None,
    )


def _to_go_on(run: RunSpec, template: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a relaunch would use, where they are other ones."""
    try:
        words = () if run.resubmit is None else words_of(run.resubmit)
    except CommandError:
        return ()
    return () if words == tuple(template) else masked(words)


def recorded_code(words: Sequence[str]) -> str:
    """Return masked words as a record has them: a code span that reads back as them."""
    return code_span(recorded(words), MOST)


def instance_fields(
    run: RunSpec, used: Snapshot, approved: str, *, bundled: bool, bundle: str | None = None
) -> dict[str, str]:
    """Return SPEC L's labels of a launched instance; ``bundled``: its code travels with it.

    ``bundle`` is the identity of that code, by the platform's word.
    """
    source = run.checkpoints.initialize_from if run.checkpoints is not None else None
    pick, resumed = used.checkpoint, {}
    if pick is not None and pick.path != str(source):
        resumed = {"Resumed from": shown(pick.place, 2000)}
    final, config = "unknown", "unknown"
    if run.final_step is not None:
        final = f"{run.final_step} ({run.final_step_source or 'run file'})"
    if used.config is not None:
        config = f"{len(used.config)} settings, sha256 {used.config_sha256} ({used.config_source})"
    return {
        "Command": recorded_code(used.command),
        "Git SHA": used.sha or "unknown",
        "Dirty tree": _dirty(used, approved),
        "Source bundle/container": bundle or (_bundle(used) if bundled else "none"),
        "Hardware/topology": used.hardware or "unknown",
        "`initialize_from`": "none" if source is None else shown(str(source), 2000),
        **resumed,
        "Final step": final,
        "Checkpoint policy": _policy(run),
        "Babysitter/check cadence": wording.span(run.cadence),
        "Config": config,
    }


def _bundle(used: Snapshot) -> str:
    """Return what travels with the job: known by its platform only once the job is there."""
    found = used.bundle
    return "unknown at the submit" if found is None else found.id or "unknown"


def _dirty(used: Snapshot, approved: str) -> str:
    if not used.dirty:
        return "no" if used.sha is not None else "unknown"
    patch = used.patch_id or "none (untracked files only)"
    names = ", ".join(used.dirty[:10]) + (" …" if len(used.dirty) > 10 else "")
    return f"yes ({names}), {approved or 'not approved by name'}, patch identity {patch}"


def _policy(run: RunSpec) -> str:
    spec = run.checkpoints
    if spec is None:
        return "unknown"
    parts = []
    if spec.save_every is not None:
        parts.append(f"temporary every {wording.span(spec.save_every)}")
    if spec.permanent_every is not None:
        parts.append(f"permanent every {wording.steps(spec.permanent_every)} steps")
    if spec.keep is not None:
        parts.append(f"keep {spec.keep}")
    if spec.rollback_depth is not None:
        parts.append(f"rollback depth {spec.rollback_depth}")
    return ", ".join(parts) or "not chosen"
