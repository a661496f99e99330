"""What the checks look at besides the report, read once; and C-15, what changed in the code."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cockpit.actions.checks.config_file import (
    ConfigReadError,
    ResolvedConfig,
    flattened,
    read_config,
)
from cockpit.actions.core.action import ActionContext, RefuseError
from cockpit.model import check_rows as rows
from cockpit.model.history import FormerFailure
from cockpit.model.lineage import Touches, is_own, worst_first
from cockpit.model.observed import CodeValue, JobValue
from cockpit.model.place import Place
from cockpit.model.plan import Basis, Check
from cockpit.model.report import Facets
from cockpit.model.run import CodeSpec
from cockpit.records.logbook.reading import Instance, Logbook, read_logbook, value_of
from cockpit.rules.lineage.drift import same_code
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.sources.git.code import Changes, changes_since
from cockpit.store.launches import Failures
from cockpit.store.memory import Snapshot, Snapshots
from cockpit.store.store import StoreError
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.safe import clean

BUNDLE = "the job's own bundle"
SHOWN = 8


class Code(NamedTuple):
    """The run's code as it is now, what changed, and what the last launch used."""

    spec: CodeSpec
    now: CodeValue
    changes: Changes
    prior: Snapshot | None

    @property
    def serious(self) -> tuple[tuple[Touches, str], ...]:
        """Return the changed files that are not ignored, the worst first."""
        return worst_first((*self.now.dirty, *(self.changes.committed or ())), self.spec)


def lineage(
    context: ActionContext, changes: Changes, prior: Snapshot | None, *, first: bool = False
) -> list[Check]:
    """Check that what would run is what ran, or that what differs cannot touch training.

    ``first`` is for a launch that nothing came before: then there is no recorded commit.
    """
    facet, spec = context.report.facets.code, context.spec.code
    if spec is None or spec.repo is None:
        text = "no code repository set ([run.code] repo): cannot tell what would run"
        return [warned(rows.CODE, text, Basis.INFERRED)]
    if facet.value is None or facet.error is not None or facet.value.sha is None:
        why = facet.why_unknown("it has no commits yet")
        return [blocked(rows.CODE, f"code state unknown: {why}")]
    code = Code(spec, facet.value, changes, prior)
    found = [_files(code, context.spec.dri, first=first), *_unpushed(code), *_branch(code)]
    found += _elsewhere(context, spec.repo)
    return [*found, *_bundle(context.report.facets.job.value, code)]


def _elsewhere(context: ActionContext, repo: Place) -> list[Check]:
    """Warn where the job runs a checkout of its host, and another machine's was looked at."""
    job, platform = context.spec.job, context.platform
    host = None if job is None else job.host
    if host is None or platform is None or not repo.here:
        return []
    text = f"code was read here ({repo}), but the job runs the code on {host}: set"
    return [finding(rows.CODE_ELSEWHERE, f'{text} (code.repo = "ssh://{host}/…")')]


def of_the_dri(context: ActionContext, changes: Changes) -> list[str]:
    """Return the id of this check where nobody but the DRI may approve it (SPEC C-15)."""
    return (
        [rows.CODE.id]
        if only_dri(context.spec.code, changes, context.report.facets.code.value)
        else []
    )


def only_dri(spec: CodeSpec | None, changes: Changes, code: CodeValue | None) -> bool:
    """Return whether a changed file can touch the trajectory: then only the DRI may approve."""
    if spec is None or code is None:
        return False
    found = worst_first((*code.dirty, *(changes.committed or ())), spec)
    return any(kind is Touches.TRAJECTORY for kind, _ in found)


def _files(code: Code, dri: str | None, *, first: bool) -> Check:
    at = f"commit {(code.now.sha or '')[:10]}"
    serious = code.serious
    if _dirty_as_before(code):
        patch = (code.now.patch_id or "")[:10]
        text = f"{at}, uncommitted changes as at the last launch (patch {patch})"
        return warned(rows.CODE, text, value=code.now.patch_id)
    if serious:
        return _serious(serious, at, code, dri)
    if code.changes.committed is None and not first:
        return blocked(rows.CODE, f"{code.changes.trouble}; now {at}")
    changed = {*code.now.dirty, *(code.changes.committed or ())}
    ignored = sum(not is_own(path, code.spec) for path in changed)
    text = f"{at}, clean" if first else f"{at}, as recorded by {code.changes.source}"
    if code.changes.committed:
        text = f"{at}, recorded {(code.changes.base or '')[:10]}"
    text += f"; {ignored} changed files cannot affect training" * bool(ignored)
    # A commit that is made meanwhile and changes no code leaves this check as it is.
    return passed(rows.CODE, text, value=code.now.sha, moves=True)


def _serious(
    serious: tuple[tuple[Touches, str], ...], at: str, code: Code, dri: str | None
) -> Check:
    trajectory = [path for kind, path in serious if kind is Touches.TRAJECTORY]
    files = ", ".join(path for _, path in serious[:SHOWN])
    files += f" and {len(serious) - SHOWN} more" if len(serious) > SHOWN else ""
    dirty = (
        "uncommitted changes" if code.now.dirty else f"recorded {(code.changes.base or '')[:10]}"
    )
    if trajectory:
        text = f"{at}, {dirty}: {files} can affect training: only {dri or 'the DRI'} may approve"
        text += "; a different trajectory is a new lineage (cockpit lineage)"
    else:
        text = f"{at}, {dirty}: {files} differ, declared safe: approve by name"
    value = " ".join(filter(None, (code.now.sha, code.now.patch_id)))
    return blocked(rows.CODE, text, value=value)


def _dirty_as_before(code: Code) -> bool:
    """Tell whether commit and uncommitted changes are those of the last launch, exactly.

    Only tracked files have a patch identity, so an untracked one that counts is never known.
    """
    prior, now, untracked = code.prior, code.now, code.changes.untracked
    if prior is None or untracked is None or now.patch_id is None:
        return False
    same = (prior.sha, prior.patch_id, prior.dirty) == (now.sha, now.patch_id, now.dirty)
    return same and not worst_first(untracked, code.spec)


def bundled_commit(job: JobValue | None, prior: Snapshot | None) -> str | None:
    """Return the commit that the last launched job runs, by the provenance of its own bundle.

    ``None`` where its platform does not tell, or where the job is of another launch than ``prior``.
    """
    bundle = None if job is None else job.bundle
    if job is None or bundle is None or bundle.commit is None:
        return None
    same = prior is None or job.launch_id in (None, prior.launch_id)
    return bundle.commit if same else None


def _bundle(job: JobValue | None, code: Code) -> list[Check]:
    """Check that the code in the job's bundle is what its launch has recorded."""
    ran, recorded = bundled_commit(job, code.prior), code.changes.recorded
    if job is None or job.bundle is None or ran is None or recorded is None:
        return []
    by = code.changes.recorded_by
    if not same_code(code.now, ran, recorded):
        text = f"bundle differs: {job.id} runs commit {ran[:10]}, {by} has recorded {recorded[:10]}"
        return [blocked(rows.BUNDLE, text, value=job.bundle.id or ran)]
    if job.bundle.dirty and not (code.prior is not None and code.prior.dirty):
        text = f"bundle differs: {job.id} runs commit {ran[:10]} with unrecorded changes"
        return [blocked(rows.BUNDLE, text, value=job.bundle.id or ran)]
    return [passed(rows.BUNDLE, f"bundle of {job.id} matches the recorded commit", value=ran)]


def _unpushed(code: Code) -> list[Check]:
    count, files = code.now.unpushed, code.changes.unpushed
    if count == 0 or (count is None and files == ()):
        return []
    if count is None:
        text = "the branch has no upstream" if code.now.branch else "HEAD is detached"
        text = f"{text}: no remote that is known here has this commit"
        return [warned(rows.UNPUSHED, text, value=code.now.branch or "detached")]
    text = f"{count} commits not pushed"
    if files is not None and not worst_first(files, code.spec):
        return [passed(rows.UNPUSHED, f"{text}; they cannot affect training")]
    return [blocked(rows.UNPUSHED, f"{text}: push them, or approve")]


def _branch(code: Code) -> list[Check]:
    was = code.prior.branch if code.prior is not None else None
    if was is None or was == code.now.branch or not code.serious:
        return []
    text = f"on branch {code.now.branch or '(detached)'}, launched from {was}"
    return [finding(rows.BRANCH, text)]


DEADLINE = 10.0
_SAME_TIME = 120.0
"""Seconds by which a snapshot's and a logbook entry's time of one launch may differ."""


class Read(NamedTuple):
    """What was read of files and store; each part may be missing, with its reason."""

    prior: Snapshot | None
    failures: tuple[FormerFailure, ...]
    book: Logbook | None
    book_trouble: str | None
    config: ResolvedConfig | None
    same: dict[str, str]
    store_trouble: str | None


class Material(NamedTuple):
    """What was read, and what follows from it: the last launch's code, command and config."""

    read: Read
    changes: Changes
    instance: Instance | None
    config_was: ResolvedConfig | None
    recorded_by: str

    @property
    def prior(self) -> Snapshot | None:
        """Return what the last launch used, if this store has seen it."""
        return self.read.prior


async def gather(context: ActionContext) -> Material:
    """Read everything once; raises ``RefuseError`` where a file system does not answer."""
    try:
        read = await offload(_read, context, deadline=DEADLINE)
    except TimeoutError as error:
        raise RefuseError(f"the run's files did not answer within {DEADLINE:g} s") from error
    instance = newest_instance(read.book)
    prior = read.prior
    if (
        prior is not None
        and instance is not None
        and prior.launch_id not in instance.entry.title
        and (instance.entry.at or 0.0) > prior.at + _SAME_TIME
    ):
        prior = None  # another machine has launched since, and only the logbook knows
        read = read._replace(prior=None)
    return Material(
        read=read,
        changes=await _changes(context, prior),
        instance=instance,
        config_was=_config_was(prior, context.report.facets),
        recorded_by=f"launch {prior.launch_id}" if prior is not None else "the last launch",
    )


async def _changes(context: ActionContext, prior: Snapshot | None) -> Changes:
    """Return what changed since the code that ran: the job's own bundle tells it, or the record."""
    facets, spec = context.report.facets, context.spec.code
    code, by = facets.code.value, "the logbook"
    base = code.record_sha if code is not None else None
    if prior is not None and prior.sha:
        base, by = prior.sha, prior.launch_id
    recorded = {"recorded": base, "recorded_by": by}
    ran = bundled_commit(facets.job.value, prior)
    base, source = (base, by) if ran is None else (ran, BUNDLE)
    changes = Changes(base=base, source=source)
    if spec is not None and spec.repo is not None:
        changes = await changes_since(spec.repo, code, base, source)
    return changes.model_copy(update=recorded)


def _read(context: ActionContext) -> Read:
    run, store = context.spec, context.parts.store
    prior: Snapshot | None = None
    failures: tuple[FormerFailure, ...] = ()
    trouble = None
    if store is not None:
        try:
            prior, failures = Snapshots(store).last(context.key), Failures(store).of(context.key)
        except StoreError as error:
            trouble = str(error)
    book, book_trouble = _book(run.records.logbook)
    config = None if run.config_file is None else read_config(run.config_file)
    return Read(prior, failures, book, book_trouble, config, _really(context), trouble)


def _book(path: str | None) -> tuple[Logbook | None, str | None]:
    if path is None:
        return None, None
    try:
        return read_logbook(read_text(Path(path))), None
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "cannot be read").lower()
        return None, f"{clean(path, 500)}: {why}"


def _really(context: ActionContext) -> dict[str, str]:
    """Return where the local paths that may be compared really lie (links resolved).

    Nothing for a job of another host: what its paths lead to is not ours to tell.
    """
    run, tracker = context.spec, context.report.facets.tracker.value
    if run.job is not None and run.job.host is not None:
        return {}
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    named = [place.path for place in (run.output_root, *roots) if place is not None and place.here]
    texts = [value for value in _strings(tracker.config if tracker is not None else {}, 0)]
    paths = {path for path in (*named, *texts) if path.startswith("/") and "\0" not in path}
    return {path: os.path.realpath(path) for path in sorted(paths)[:500]}


def _strings(value: object, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict) and depth < 12:
        return [text for each in value.values() for text in _strings(each, depth + 1)]
    return []


def newest_instance(book: Logbook | None) -> Instance | None:
    """Return the newest launched instance that a logbook records."""
    dated = [each for each in (book.instances if book is not None else ()) if each.entry.at]
    return max(dated, key=lambda each: (each.entry.at or 0.0, each.entry.line), default=None)


def logged_command(instance: Instance | None) -> tuple[str, ...] | None:
    """Return the words of the command that a logbook's instance records."""
    recorded = None if instance is None else value_of(instance.fields, "Command")
    if not recorded:
        return None
    try:
        return tuple(shlex.split(recorded.strip().strip("`"))) or None
    except ValueError:
        return None


def _config_was(prior: Snapshot | None, facets: Facets) -> ResolvedConfig | None:
    """Return the config of the last launch: as snapshotted, else as the job or tracker tells it."""
    if prior is not None and prior.config is not None:
        return ResolvedConfig(values=prior.config, source=f"launch {prior.launch_id}")
    job, tracker = facets.job.value, facets.tracker.value
    told = {
        "the config shown by the job": job.config if job is not None else {},
        "the tracker's config": tracker.config if tracker is not None else {},
    }
    for source, config in told.items():
        with suppress(ConfigReadError):
            if config:
                return ResolvedConfig(values=flattened(config), source=source)
    return None
