"""C-15, code lineage: what changed since the recorded commit, and whether it can touch training."""

from __future__ import annotations

from typing import NamedTuple

from cockpit.actions.core.context import ActionContext
from cockpit.model.lineage import Touches, is_own, worst_first
from cockpit.model.observed import CodeValue, JobValue
from cockpit.model.place import Place
from cockpit.model.plan import Basis, Check
from cockpit.model.run import CodeSpec
from cockpit.rules.lineage.drift import same_code
from cockpit.sources.git.code import Changes
from cockpit.store.memory import Snapshot
from cockpit.text.checks import blocked, passed, warned

ID = "C-15"
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
        return [warned(ID, text, Basis.INFERRED)]
    if facet.value is None or facet.error is not None or facet.value.sha is None:
        why = facet.error.message if facet.error is not None else "it has no commits yet"
        return [blocked(ID, f"code state unknown: {why}", overridable=True)]
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
    return [warned(f"{ID}:where", f'{text} (code.repo = "ssh://{host}/…")', Basis.INFERRED)]


def of_the_dri(context: ActionContext, changes: Changes) -> list[str]:
    """Return the id of this check where nobody but the DRI may approve it (SPEC C-15)."""
    return [ID] if only_dri(context.spec.code, changes, context.report.facets.code.value) else []


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
        return warned(ID, f"{at}, uncommitted changes as at the last launch (patch {patch})",
                      value=code.now.patch_id)  # fmt: skip
    if serious:
        return _serious(serious, at, code, dri)
    if code.changes.committed is None and not first:
        return blocked(ID, f"{code.changes.trouble}; now {at}", overridable=True)
    changed = {*code.now.dirty, *(code.changes.committed or ())}
    ignored = sum(not is_own(path, code.spec) for path in changed)
    text = f"{at}, clean" if first else f"{at}, as recorded by {code.changes.source}"
    if code.changes.committed:
        text = f"{at}, recorded {(code.changes.base or '')[:10]}"
    text += f"; {ignored} changed files cannot affect training" * bool(ignored)
    # A commit that is made meanwhile and changes no code leaves this check as it is.
    return passed(ID, text, value=code.now.sha).model_copy(update={"moves": True})


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
    return blocked(ID, text, value=value, overridable=True)


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
    name, by = f"{ID}:bundle", code.changes.recorded_by
    if not same_code(code.now, ran, recorded):
        text = f"bundle differs: {job.id} runs commit {ran[:10]}, {by} has recorded {recorded[:10]}"
        return [blocked(name, text, value=job.bundle.id or ran, overridable=True)]
    if job.bundle.dirty and not (code.prior is not None and code.prior.dirty):
        text = f"bundle differs: {job.id} runs commit {ran[:10]} with unrecorded changes"
        return [blocked(name, text, value=job.bundle.id or ran, overridable=True)]
    return [passed(name, f"bundle of {job.id} matches the recorded commit", value=ran)]


def _unpushed(code: Code) -> list[Check]:
    name, count = f"{ID}:unpushed", code.now.unpushed
    if count is None:
        text = "the branch has no upstream: nobody else can get this commit"
        return [warned(name, text, value=code.now.branch or "detached")]
    if count == 0:
        return []
    files = code.changes.unpushed
    text = f"{count} commits not pushed"
    if files is not None and not worst_first(files, code.spec):
        return [passed(name, f"{text}; they cannot affect training")]
    return [blocked(name, f"{text}: push them, or approve", overridable=True)]


def _branch(code: Code) -> list[Check]:
    was = code.prior.branch if code.prior is not None else None
    if was is None or was == code.now.branch or not code.serious:
        return []
    text = f"on branch {code.now.branch or '(detached)'}, launched from {was}"
    return [blocked(f"{ID}:branch", text, overridable=True)]
