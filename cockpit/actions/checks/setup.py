"""What a launch rests on besides code and checkpoint: owner, records, command, tracker, root."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from cockpit.actions.core.action import ActionContext
from cockpit.actions.core.recording import linked_issue
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.base import Command
from cockpit.model.place import Place
from cockpit.model.plan import Basis, Check, Outcome, StepState
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import NOTIFIED, same_person
from cockpit.platforms.base import CannotError, CommandError, Platform
from cockpit.platforms.command import as_sent, words_of
from cockpit.platforms.command import shown as shown_command
from cockpit.records.logbook.reading import Logbook, value_of
from cockpit.rules.lineage.identity import drift, since_launch
from cockpit.rules.lineage.paths import StatedOutput, below, elsewhere, path_in_job
from cockpit.store.journal import JournalEntry
from cockpit.store.memory import Snapshot
from cockpit.text.checks import blocked, finding, lacking, passed, warned
from cockpit.text.scrub import shown


def kept_records(context: ActionContext, book: Logbook | None, trouble: str | None) -> list[Check]:
    """Check that logbook and issue exist and name each other; an ordinary run is only warned."""
    run = context.spec
    if run.final_step is not None:
        text = f"final step {run.final_step} ({run.final_step_source or 'run file'})"
        final = passed(rows.FINAL_STEP, text)
    else:
        why = run.final_step_source or "set final_step or final_step_from"
        final = lacking(run, rows.FINAL_STEP, f"final step not known: {why}")
    return [_logbook(context, book, trouble), _issue(run, book), *retention(run), final]


def _logbook(context: ActionContext, book: Logbook | None, trouble: str | None) -> Check:
    run = context.spec
    if run.records.logbook is None:
        return lacking(run, rows.LOGBOOK, "no logbook set (records.logbook)")
    if book is None:
        text = f"the logbook cannot be read: {trouble or 'it is not there'}"
        return lacking(run, rows.LOGBOOK, f"{text} (cockpit log {run.name} creates one)")
    others = [each.name for each in context.file.runs
              if each.name != run.name and each.records.logbook == run.records.logbook]  # fmt: skip
    if others:
        text = f"{run.records.logbook} is also the logbook of {', '.join(others)}: an owner or an"
        text += " acknowledgement told there counts for each of them"
        return warned(rows.LOGBOOK, text)
    return passed(rows.LOGBOOK, f"logbook {run.records.logbook}")


def _issue(run: RunSpec, book: Logbook | None) -> Check:
    issue = run.records.issue
    if issue is None:
        return _no_issue(run, book)
    if book is None:
        return passed(rows.ISSUE, f"issue {issue}")
    if not _same_issue(issue, value_of(book.contract, "Issue") or ""):
        text = "the logbook does not link the issue: add it to its Run Contract"
        return lacking(run, rows.ISSUE, f"{text} (Issue: {issue})")
    return passed(rows.ISSUE, f"issue {issue}, linked from the logbook")


def _no_issue(run: RunSpec, book: Logbook | None) -> Check:
    linked, repo = linked_issue(book), run.records.issue_repo
    if linked is not None:
        text = f"the Run Contract links {linked}; add it to cockpit.toml (records.issue)"
        return warned(rows.ISSUE, text)
    if repo is None:
        text = "no issue set (records.issue), and no issue_repo to create one in"
        return lacking(run, rows.ISSUE, text)
    text = f"no issue yet: one is created in {shown(repo)} and linked before anything starts"
    return warned(rows.ISSUE, text)


def _same_issue(issue: str, named: str) -> bool:
    """Tell whether a contract's Issue is this one: the whole address, or ``#1234``."""
    number = issue.rstrip("/").rpartition("/")[2]
    words = named.replace("(", " ").replace(")", " ").replace("<", " ").replace(">", " ").split()
    return any(word.rstrip("/.,") == issue.rstrip("/") or word == f"#{number}" for word in words)


def retention(run: RunSpec) -> list[Check]:
    """Check that retention and rollback depth were chosen, and that one can hold the other."""
    spec = run.checkpoints
    if spec is None or not spec.path:
        return [lacking(run, rows.RETENTION, "no checkpoints configured ([run.checkpoints])")]
    chosen = {
        "permanent_every": spec.permanent_every,
        "save_every": spec.save_every,
        "keep": spec.keep,
        "rollback_depth": spec.rollback_depth,
    }
    missing = [name for name, value in chosen.items() if value is None]
    if missing:
        return [lacking(run, rows.RETENTION, f"not set in checkpoints: {', '.join(missing)}")]
    if (spec.keep or 0) < (spec.rollback_depth or 0):
        text = f"keep {spec.keep} is less than rollback depth {spec.rollback_depth}"
        return [lacking(run, rows.RETENTION, text)]
    text = f"permanent every {wording.steps(spec.permanent_every)} steps, keep {spec.keep}"
    return [passed(rows.RETENTION, f"{text}, rollback depth {spec.rollback_depth}")]


NOTIFIED_WITHIN = 24 * 3600.0
"""Seconds for which a notification of the DRI holds."""


def has_dri(context: ActionContext) -> list[Check]:
    """Check that somebody answers for the run: never overridable."""
    if context.spec.dri is None:
        return [blocked(rows.DRI, "no DRI: set dri in cockpit.toml")]
    owner = context.report.owner
    text = f"DRI {context.spec.dri}"
    if owner is not None and owner.why:
        text += f", {owner.why} ({owner.source})"
    if owner is not None and owner.differs is not None:
        text = f"{text}; {owner.differs} ({owner.remedy})"
        return [warned(rows.DRI, text, value=context.spec.dri)]
    return [passed(rows.DRI, text, value=context.spec.dri)]


def dri_knows(context: ActionContext) -> list[Check]:
    """Check, where the operator is not the DRI, that the DRI was notified and that is recorded."""
    dri, run = context.spec.dri, context.spec.name
    if dri is None or context.is_word_of(dri):
        return []
    told = max(_notifications(context, dri), default=None)
    if told is not None and told[0] >= context.now - NOTIFIED_WITHIN:
        text = f"{dri} was notified at {wording.moment(told[0])} by {told[1]}"
        return [passed(rows.DRI_NOTIFIED, text)]
    who = "" if not same_person(dri, context.operator) else f": typed by {context.typed_by}"
    text = f"you are not the DRI{who}; notify {dri} first: "
    text += f'cockpit escalate {run} --confirm "escalate {run}"'
    return [blocked(rows.DRI_NOTIFIED, text)]


def _notifications(context: ActionContext, dri: str) -> Iterator[tuple[float, str]]:
    """Yield when this DRI, not a former one, was notified, and by whom; also by other accounts."""
    for entry in context.entries:
        step = entry.step("notify")
        notified = step is not None and step.state is StepState.DONE
        done = entry.action == "escalate" and entry.outcome is Outcome.DONE
        if (notified or done) and same_person(_notified_dri(entry) or dri, dri):
            yield entry.begun_at, entry.operator
    records = context.report.facets.records.value
    for told in () if records is None else records.told:
        if told.what == NOTIFIED and same_person(told.value, dri):
            yield told.at, f"{told.typed_by} ({told.source})"


def _notified_dri(entry: JournalEntry) -> str | None:
    """Return the DRI of the plan that notified; ``None`` for a plan that names none."""
    return next((check.value for check in entry.plan.checks if check.id == rows.DRI.id), None)


def for_dri(checks: Iterable[Check], only: Collection[str], dri: str | None) -> tuple[Check, ...]:
    """Return the checks, those named marked that nobody but the DRI may approve (SPEC C-15, A)."""
    return tuple(
        check.model_copy(update={"approver": dri}) if check.id in only else check
        for check in checks
    )


def may_resume(context: ActionContext) -> list[Check]:
    """Check that the same W&B run may be written again (SPEC A-2)."""
    spec, tracker = context.spec.wandb, context.report.facets.tracker
    if spec is None:
        return [passed(rows.RESUME_POLICY, "the run has no W&B run")]
    if spec.resume == "allow":
        return [passed(rows.RESUME_POLICY, "resume policy allow", value="allow")]
    if spec.resume == "never":
        text = "resume policy never: it cannot resume, only start a new lineage (cockpit lineage)"
        return [blocked(rows.RESUME_POLICY, text, value="never")]
    if tracker.value is None or tracker.error is not None:
        why = tracker.why_unknown("not seen yet")
        text = f"resume policy must, but it is unknown whether its W&B run exists: {why}"
        return [blocked(rows.RESUME_POLICY, text, value="must")]
    if tracker.value.id is None:
        text = "resume policy must, but W&B has no run with this id"
        return [blocked(rows.RESUME_POLICY, text, value="must")]
    text = f"resume policy must, and W&B run {tracker.value.id} exists"
    return [passed(rows.RESUME_POLICY, text, Basis.OBSERVED, "must")]


def same_tracker(context: ActionContext, prior: Snapshot | None) -> list[Check]:
    """Check that the recorded identity, the active one and that of the last launch agree."""
    spec, tracker = context.spec.wandb, context.report.facets.tracker.value
    if spec is None:
        return []
    found = [*drift(spec, tracker), *since_launch(spec, prior)]
    if found:
        return [blocked(rows.SAME_TRACKER, f"W&B id does not match: {'; '.join(found)}")]
    if tracker is None:
        text = f"W&B id {spec.id or 'not set'}; W&B not read, so not compared"
        return [warned(rows.SAME_TRACKER, text, Basis.RECORDED)]
    if spec.id is None:
        text = f"no W&B id recorded (wandb.id); the active one is {tracker.id}"
        return [warned(rows.SAME_TRACKER, text, Basis.INFERRED)]
    return [passed(rows.SAME_TRACKER, f"W&B id {spec.id} matches", value=spec.id)]


def unused_tracker(context: ActionContext) -> list[Check]:
    """Check, before a first launch, that the W&B id is nobody's yet."""
    spec, tracker = context.spec.wandb, context.report.facets.tracker.value
    if spec is None:
        return [warned(rows.UNUSED_TRACKER, "no W&B run set ([run.wandb])")]
    if spec.id is None:
        text = "no W&B id set (wandb.id): it would be generated at launch"
        return [blocked(rows.UNUSED_TRACKER, text) if context.spec.tier == "hero"
                else warned(rows.UNUSED_TRACKER, text)]  # fmt: skip
    if tracker is not None and tracker.step is not None:
        text = f"W&B id {spec.id} has logged steps before"
        return [warned(rows.UNUSED_TRACKER, text, Basis.OBSERVED, spec.id)]
    text = f"W&B id {spec.id}, name {spec.name or spec.id}, resume policy {spec.resume}"
    return [passed(rows.UNUSED_TRACKER, text, value=spec.id)]


def ready(
    platform: Platform | None, run: RunSpec, command: Command | None, values: dict[str, str | None]
) -> tuple[list[Check], tuple[str, ...]]:
    """Return the checks on the recorded command, and its words as they would be run.

    The words are empty when it cannot be run, or when the platform cannot spell the launch id.
    Neither is ever overridable.
    """
    if command is None:
        text = "no resubmit command in cockpit.toml: add one that makes the trainer resume,"
        text += ' such as resubmit = "python train.py --resume"'
        return [blocked(rows.COMMAND, text)], ()
    try:
        plain = words_of(command)
        words = as_sent(platform, run, plain, values)
    except CommandError as error:
        return [blocked(rows.COMMAND, str(error))], ()
    except CannotError as error:
        return [finding(rows.LAUNCH_ID, str(error))], ()
    checks = [passed(rows.COMMAND, f"will run {shown_command(words)}")]
    if platform is not None:
        checks += platform.command_checks(run, plain)
    return checks, words


_OPEN: Final = re.compile(r"[{}*?]|\$\w|\$\(|%[A-Za-z]|<[^>]*>|\bX{3,}\b")
_DERIVED: Final = re.compile(
    r"(?:19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d|(?<![0-9a-z])[0-9a-f]{12,}(?![0-9a-z])|\d{10,13}"
)
_EPHEMERAL: Final = ("/tmp/", "/var/tmp/", "/dev/shm/", "/scratch/tmp/")


def pinned(run: RunSpec) -> list[Check]:
    """Check that the output root is one fixed place."""
    if run.output_root is None:
        text = "no output root: set output_root in cockpit.toml"
        return [blocked(rows.OUTPUT_ROOT, text, Basis.RECORDED)]
    root = str(run.output_root)
    if _OPEN.search(root):
        text = f"output root is not fixed: {root} has a placeholder"
        return [blocked(rows.OUTPUT_ROOT, text, Basis.RECORDED, root)]
    if run.output_root.here and not root.startswith("/"):
        text = f"output root must be an absolute path: {root}"
        return [blocked(rows.OUTPUT_ROOT, text, Basis.RECORDED, root)]
    return []


def agrees(run: RunSpec, stated: Sequence[StatedOutput], same: Mapping[str, str]) -> list[Check]:
    """Check that everybody who names the output root names this one.

    ``same`` maps local paths to where they really lie. A path below the root, or in a
    checkpoint root that the run file names, is fine. All are compared as the job sees them.
    """
    missing = pinned(run)
    if missing or run.output_root is None:
        return missing
    for found in elsewhere(run, stated, same):
        each = found.stated
        text = f"{each.who} writes to {each.path}, cockpit.toml says {run.output_root}"
        if found.other_bucket:
            text += " (another bucket or region)"
        return [blocked(rows.OUTPUT_ROOT, text, value=each.path)]
    root = str(run.output_root)
    return [_fine(root, stated), *_looks_made_up(root, stated), *_apart(run, run.output_root, same)]


def _fine(root: str, stated: Sequence[StatedOutput]) -> Check:
    who = sorted({each.who for each in stated})
    if not who:
        text = f"output root {root}; nothing else to compare it with"
        return passed(rows.OUTPUT_ROOT, text, Basis.RECORDED, root)
    return passed(rows.OUTPUT_ROOT, f"output root {root}, same in {', '.join(who)}", value=root)


def _looks_made_up(root: str, stated: Sequence[StatedOutput]) -> list[Check]:
    scratch = next((place for place in _EPHEMERAL if root.startswith(place)), None)
    if scratch is not None:
        text = f"{root} is in {scratch.rstrip('/')}; the system may delete it"
        return [finding(rows.DERIVED_ROOT, text)]
    if _DERIVED.search(root) and not stated:
        text = f"{root} looks generated; check that it does not change between launches"
        return [finding(rows.DERIVED_ROOT, text)]
    return []


def _apart(run: RunSpec, root: Place, same: Mapping[str, str]) -> list[Check]:
    """Say which checkpoint roots do not lie under the output root."""
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    own = path_in_job(root, run, same)
    outside = [str(path) for path in roots if not below(path_in_job(path, run, same), own)]
    if not outside:
        return []
    text = f"checkpoints go elsewhere, as set in cockpit.toml: {', '.join(outside)}"
    return [finding(rows.CHECKPOINTS_OUTSIDE, text)]
