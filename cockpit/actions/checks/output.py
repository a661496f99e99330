"""C-16, the output root: pinned, and the same wherever it is written. Never overridable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.model.place import Place
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.rules.lineage.paths import StatedOutput, below, elsewhere, seen
from cockpit.text.checks import blocked, passed, warned

ID: Final = "C-16"
_OPEN: Final = re.compile(r"[{}*?]|\$\w|\$\(|%[A-Za-z]|<[^>]*>|\bX{3,}\b")
_DERIVED: Final = re.compile(
    r"(?:19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d|(?<![0-9a-z])[0-9a-f]{12,}(?![0-9a-z])|\d{10,13}"
)
_EPHEMERAL: Final = ("/tmp/", "/var/tmp/", "/dev/shm/", "/scratch/tmp/")


def pinned(run: RunSpec) -> list[Check]:
    """Check that the output root is one fixed place."""
    if run.output_root is None:
        text = "no output root: set output_root in cockpit.toml"
        return [blocked(ID, text, Basis.RECORDED)]
    root = str(run.output_root)
    if _OPEN.search(root):
        text = f"output root is not fixed: {root} has a placeholder"
        return [blocked(ID, text, Basis.RECORDED, root)]
    if run.output_root.here and not root.startswith("/"):
        return [blocked(ID, f"output root must be an absolute path: {root}", Basis.RECORDED, root)]
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
        return [blocked(ID, text, value=each.path)]
    root = str(run.output_root)
    return [_fine(root, stated), *_looks_made_up(root, stated), *_apart(run, run.output_root, same)]


def _fine(root: str, stated: Sequence[StatedOutput]) -> Check:
    who = sorted({each.who for each in stated})
    if not who:
        text = f"output root {root}; nothing else to compare it with"
        return passed(ID, text, Basis.RECORDED, root)
    return passed(ID, f"output root {root}, same in {', '.join(who)}", value=root)


def _looks_made_up(root: str, stated: Sequence[StatedOutput]) -> list[Check]:
    name = f"{ID}:derived"
    scratch = next((place for place in _EPHEMERAL if root.startswith(place)), None)
    if scratch is not None:
        text = f"{root} is in {scratch.rstrip('/')}; the system may delete it"
        return [warned(name, text, Basis.INFERRED)]
    if _DERIVED.search(root) and not stated:
        text = f"{root} looks generated; check that it does not change between launches"
        return [warned(name, text, Basis.INFERRED)]
    return []


def _apart(run: RunSpec, root: Place, same: Mapping[str, str]) -> list[Check]:
    """Say which checkpoint roots do not lie under the output root."""
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    own = seen(root, run, same)
    outside = [str(path) for path in roots if not below(seen(path, run, same), own)]
    if not outside:
        return []
    text = f"checkpoints go elsewhere, as set in cockpit.toml: {', '.join(outside)}"
    return [warned(f"{ID}:checkpoints", text, Basis.RECORDED)]
