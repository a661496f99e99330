"""What makes two jobs one lineage: an output root, or a W&B run, that both would write to.

A tag carries both as hashes (``root:1f…,wandb:a9…``); two tags are of one lineage if they have
a part in common (SPEC J, "Which jobs belong to a run"; SPEC C-25).
"""

from __future__ import annotations

import hashlib
import posixpath

from cockpit.model.run import RunSpec


def root_key(run: RunSpec) -> str | None:
    """Return what tells the run's output root from every other, as its job sees it.

    Looked at over ssh or from the host itself, it is one root.
    """
    root = run.output_root
    return None if root is None else f"root {root.normal().seen_from(run.job)}"


def wandb_key(run: RunSpec) -> str | None:
    """Return what tells the run's W&B run from every other.

    One that is written offline and names no entity is known by its folder: it is nobody's yet.
    """
    wandb = run.wandb
    if wandb is None:
        return None
    _, entity, project, name = wandb.recorded
    if not name:
        return None
    if wandb.dir and not entity:
        return f"wandb {posixpath.normpath(wandb.dir.path)} {name}"
    return f"wandb {wandb.base_url or ''} {entity or ''}/{project or ''}/{name}"


def local_root(run: RunSpec) -> str | None:
    """Return the output root as a path of this machine, ``None`` if it is not one."""
    root = run.output_root
    return None if root is None else root.normal().local


def keys_of(run: RunSpec) -> tuple[str, ...]:
    """Return the run's output root and its W&B run, as far as it names them."""
    return tuple(key for key in (root_key(run), wandb_key(run)) if key is not None)


def tag_of(run: RunSpec) -> str:
    """Return the lineage as it is written into a job's environment; empty if there is none."""
    digests = (
        (key, hashlib.sha256(key.encode("utf-8", "surrogateescape"))) for key in keys_of(run)
    )
    return ",".join(f"{key.split()[0]}:{digest.hexdigest()[:16]}" for key, digest in digests)


def related(tag: str, other: str) -> bool:
    """Tell whether two tags name one lineage."""
    return not set(filter(None, tag.split(","))).isdisjoint(other.split(","))


def shared_place(one: RunSpec, other: RunSpec) -> tuple[str, bool] | None:
    """Return what two runs would both write to, and whether it is certainly one place.

    W&B runs of one id that are written offline into different folders meet once they are synced:
    certainly so where both name one project.
    """
    if root_key(one) is not None and root_key(one) == root_key(other):
        return f"output root {one.output_root}", True
    mine, theirs = one.wandb, other.wandb
    if mine is None or theirs is None:
        return None
    if wandb_key(one) is not None and wandb_key(one) == wandb_key(other):
        return f"W&B id {mine.id or theirs.id or mine.url}", True
    if not mine.id or mine.id != theirs.id:
        return None
    named = ((mine.entity, theirs.entity), (mine.project, theirs.project))
    if any(a is not None and b is not None and a != b for a, b in named):
        return None
    if (mine.base_url or "") != (theirs.base_url or ""):
        return None
    return f"W&B id {mine.id}", mine.project is not None and mine.project == theirs.project
