"""What a launch really uses, and how that differs from what ran before (SPEC A-2, C-18)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cockpit.actions.checks.code import Material, logged_command
from cockpit.actions.checks.config_file import (
    START,
    ConfigReadError,
    Drift,
    ResolvedConfig,
    command_drift,
    config_drift,
    digest,
    flattened,
    settled,
)
from cockpit.actions.checks.setup import agrees
from cockpit.actions.core.action import ActionContext, Execution
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.lineage import named, worst_first
from cockpit.model.observed import CodeValue, Pick
from cockpit.model.plan import Check, Difference
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, CommandError
from cockpit.platforms.command import as_sent, fill, masked, recorded, values_of, words_of
from cockpit.platforms.command import shown as shown_command
from cockpit.records.issue.service import code as code_span
from cockpit.records.logbook.reading import value_of
from cockpit.rules.lineage.drift import same_code
from cockpit.rules.lineage.paths import (
    StatedOutput,
    all_outside,
    command_paths,
    config_paths,
    record_paths,
    shared_folders,
)
from cockpit.store.memory import Snapshot
from cockpit.text.checks import finding
from cockpit.text.scrub import shown

_NO_PAIR = (
    "started by the launch command; what resubmit was then is not recorded: "
    "the flags are not compared"
)


class WouldRun(NamedTuple):
    """What would be launched: the words as they would run, as they are recorded, and from where.

    ``words`` are empty where the command cannot be run.
    """

    words: tuple[str, ...]
    template: tuple[str, ...]
    pick: Pick | None

    @property
    def shown(self) -> str | None:
        """The command as one line; as it is recorded where it cannot be run."""
        return shown_command(self.words or self.template) or None


class Compared(NamedTuple):
    """C-18's checks, and everything side by side."""

    checks: tuple[Check, ...]
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """True when no setting and no flag differs, as far as they were compared."""
        return not any(check.overridable for check in self.checks)


def compared(context: ActionContext, material: Material, would: WouldRun) -> Compared:
    """Compare what ran with what would run."""
    prior = material.prior
    recorded = prior is not None and bool(prior.template)  # the form in which the record has them
    now = masked(would.template if recorded else _but_for_its_start(context, would))
    pair = () if prior is None else prior.resubmit
    flags = _flags(context, pair or command_was(material), now, recorded=recorded)
    if not pair and flags.differences and _began(context, material, recorded=recorded):
        flags = Drift((), (finding(rows.FLAGS_UNCOMPARED, _NO_PAIR),), 0)
    whole = prior is not None and prior.config is not None
    config = config_drift(material.config_was, material.read.config, whole=whole)
    source = material.recorded_by
    checks = settled([config, flags], f"{source} and its resubmit command" if pair else source)
    listed = tuple(_side_by_side(context, material, would))
    return Compared(tuple(checks), (*listed, *config.differences, *flags.differences))


def _but_for_its_start(context: ActionContext, would: WouldRun) -> tuple[str, ...]:
    """Return the words as they would be sent, without the checkpoint that this launch begins with.

    A logbook has the words of a launch as they were sent: each begins with another one.
    """
    values = values_of(context.spec, context.launch_id, None, None)
    try:
        return as_sent(context.platform, context.spec, would.template, {**values, **START})
    except (CommandError, CannotError):
        return would.words or would.template


def command_was(material: Material) -> tuple[str, ...] | None:
    """Return the recorded words that a command is compared with, masked."""
    prior = material.prior
    if prior is not None:
        return prior.template or prior.command
    return logged_command(material.instance)


def _began(context: ActionContext, material: Material, *, recorded: bool) -> bool:
    """Tell whether what ran is the run file's launch command, of which resubmit is no drift."""
    run, ran = context.spec, command_was(material)
    if ran is None or run.launch is None or run.launch == run.resubmit:
        return False
    try:
        words = words_of(run.launch)
        values = values_of(run, context.launch_id, None, None)
        words = words if recorded else fill(words, values)
    except CommandError:
        return False
    return not _flags(context, ran, masked(words), recorded=recorded).differences


def _flags(
    context: ActionContext, was: Sequence[str] | None, now: Sequence[str], *, recorded: bool
) -> Drift:
    """Compare two commands without what their platform itself adds.

    As they were sent (not ``recorded``) each has a launch id of its own; where the words of the
    run file are recorded, a launch id in them is a setting.
    """
    platform = context.platform
    if platform is not None:
        was, now = was and platform.unformed(was), platform.unformed(now)
    if not recorded:
        was, now = was and _unnumbered(context.spec, was), _unnumbered(context.spec, now)
    return command_drift(was, now)


def _unnumbered(run: RunSpec, words: Sequence[str]) -> tuple[str, ...]:
    """Return words in which no launch of the run stands: each has a number of its own."""
    own = re.compile(rf"(?<![\w.-]){re.escape(run.name)}-i\d{{3,}}(?!\w)")
    return tuple(own.sub("{launch_id}", word) for word in words)


def _side_by_side(
    context: ActionContext, material: Material, would: WouldRun
) -> Iterator[Difference]:
    prior, code = material.prior, context.report.facets.code.value
    was = command_was(material)
    ran = prior.command if prior is not None else was
    yield Difference(
        what="command", ran=None if ran is None else shown_command(ran), would_run=would.shown
    )
    if code is not None:  # else C-15 says that it is not known what would run
        base = material.changes.base
        same = base is not None and code.sha is not None and same_code(code, base, code.sha)
        yield Difference(what="commit", ran=base, would_run=base if same else code.sha)
    spec = context.spec.code
    if code is not None and spec is not None:
        before = prior.dirty if prior is not None else None
        yield Difference(
            what="dirty files that matter",
            ran=None if before is None else _files(before, context.spec),
            would_run=_files(code.dirty, context.spec),
        )
    origin = None if prior is None else _pick(prior.checkpoint)
    none = "none that is known to be complete"
    takes = none if would.pick is None else _pick(would.pick)
    yield Difference(what="checkpoint", ran=origin, would_run=takes)
    yield from _identity(context, material)


def _files(paths: Sequence[str], run: RunSpec) -> str:
    assert run.code is not None
    return shown(", ".join(path for _, path in worst_first(paths, run.code)) or "none")


def _pick(pick: Pick | None) -> str:
    return "from scratch" if pick is None else shown(f"{named(pick)}: {pick.path}")


def _identity(context: ActionContext, material: Material) -> Iterator[Difference]:
    run, prior = context.spec, material.prior
    tracker = context.report.facets.tracker.value
    wandb = prior.wandb_id if prior is not None else tracker.id if tracker is not None else None
    if run.wandb is not None:
        yield Difference(what="W&B id", ran=wandb, would_run=run.wandb.id)
    if run.hardware is not None:
        was = prior.hardware if prior is not None else None
        yield Difference(what="hardware", ran=was, would_run=shown(run.hardware))
    root = None if run.output_root is None else shown(str(run.output_root))
    yield Difference(
        what="output root", ran=prior.output_root if prior is not None else None, would_run=root
    )


def output_checks(context: ActionContext, material: Material, would: WouldRun) -> list[Check]:
    """Return C-16 over everybody who names the output root."""
    said = list(_stated(context, material, would))
    return agrees(context.spec, said, material.read.same)


def _stated(context: ActionContext, material: Material, would: WouldRun) -> Iterator[StatedOutput]:
    run, prior, book = context.spec, material.prior, material.read.book
    shared = shared_folders(would.words)
    yield from all_outside(_stated_by_job(context, material, would), shared)
    if prior is not None and prior.output_root is not None:
        yield StatedOutput(f"launch {prior.launch_id}", prior.output_root)
    if book is not None:
        root = value_of(book.contract, "Output root")
        own = None if run.output_root is None else run.output_root.seen_from(run.job)
        yield from record_paths(root, own)


def _stated_by_job(
    context: ActionContext, material: Material, would: WouldRun
) -> Iterator[StatedOutput]:
    """Yield what the command and its configs say, as the job spells it."""
    yield from command_paths(would.words)
    config = material.read.config
    if config is not None and config.values is not None:
        yield from config_paths("the config file", config.values)
    tracker = context.report.facets.tracker.value
    if tracker is not None and tracker.config:
        with suppress(ConfigReadError):
            yield from config_paths("the tracker's config", flattened(tracker.config))


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
