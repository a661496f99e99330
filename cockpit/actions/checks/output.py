"""C-16, the output root: pinned, and the same wherever it is written. Never overridable."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.place import Place, place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.command import flags_of
from cockpit.text.checks import blocked, passed, warned

ID: Final = "C-16"
KEYS: Final = frozenset((
    "output_root", "output_dir", "output_path", "out_dir", "save_dir", "save_path",
    "base_path", "checkpoint_dir", "checkpoint_path", "checkpoints_dir", "checkpoint_root",
    "ckpt_dir", "ckpt_path",
))  # fmt: skip
"""Settings that name where a training writes; those that are read from (load, init) do not."""
_READS: Final = re.compile(r"load|init|resume|restore|source|pretrained|teacher|cache|data", re.I)
_OPEN: Final = re.compile(r"[{}*?]|\$\w|\$\(|%[A-Za-z]|<[^>]*>|\bX{3,}\b")
_DERIVED: Final = re.compile(
    r"(?:19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d|(?<![0-9a-z])[0-9a-f]{12,}(?![0-9a-z])|\d{10,13}"
)
_EPHEMERAL: Final = ("/tmp/", "/var/tmp/", "/dev/shm/", "/scratch/tmp/")


class StatedOutput(NamedTuple):
    """Where somebody says that the output goes: who, and the path as it is written."""

    who: str
    path: str


def pinned(run: RunSpec) -> list[Check]:
    """Check that the output root is one fixed place."""
    if run.output_root is None:
        text = "no output root: pin one in the run file (output_root)"
        return [blocked(ID, text, Basis.RECORDED)]
    root = str(run.output_root)
    if _OPEN.search(root):
        text = f"the output root is not pinned: {root} is filled in by something"
        return [blocked(ID, text, Basis.RECORDED, root)]
    if run.output_root.here and not root.startswith("/"):
        return [blocked(ID, f"the output root is no absolute path: {root}", Basis.RECORDED, root)]
    return []


def agrees(run: RunSpec, stated: Sequence[StatedOutput], same: Mapping[str, str]) -> list[Check]:
    """Check that everybody who names the output root names this one.

    ``same`` maps local paths to where they really lie. A path below the root, or in a
    checkpoint root that the run file names, is fine. All are compared as the job sees them.
    """
    missing = pinned(run)
    if missing or run.output_root is None:
        return missing
    roots = [run.output_root, *(run.checkpoints.path if run.checkpoints is not None else ())]
    allowed = [_seen(root, run, same) for root in roots]
    for each in stated:
        path = _normal(place_of(each.path).seen_from(run.job), same)
        if any(_below(path, root) for root in allowed):
            continue
        text = f"{each.who} writes to {each.path}, the run file says {run.output_root}"
        if _bucket(path) != _bucket(allowed[0]):
            text += " (another bucket or region)"
        return [blocked(ID, text, value=each.path)]
    root = str(run.output_root)
    return [_fine(root, stated), *_looks_made_up(root, stated), *_apart(run, run.output_root, same)]


def _fine(root: str, stated: Sequence[StatedOutput]) -> Check:
    who = sorted({each.who for each in stated})
    if not who:
        text = f"output root {root}; nothing else names one to compare with"
        return passed(ID, text, Basis.RECORDED, root)
    return passed(ID, f"output root {root}, the same in {', '.join(who)}", value=root)


def _looks_made_up(root: str, stated: Sequence[StatedOutput]) -> list[Check]:
    name = f"{ID}:derived"
    if any(root.startswith(place) for place in _EPHEMERAL):
        text = f"{root} lies where the system deletes files by itself (/tmp and the like)"
        return [warned(name, text, Basis.INFERRED)]
    if _DERIVED.search(root) and not stated:
        return [warned(name, f"{root} looks made up by a launcher: see that it stays the same",
                       Basis.INFERRED)]  # fmt: skip
    return []


def _apart(run: RunSpec, root: Place, same: Mapping[str, str]) -> list[Check]:
    """Say which checkpoint roots do not lie under the output root."""
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    own = _seen(root, run, same)
    outside = [str(path) for path in roots if not _below(_seen(path, run, same), own)]
    if not outside:
        return []
    text = f"checkpoints go elsewhere, as the run file says: {', '.join(outside)}"
    return [warned(f"{ID}:checkpoints", text, Basis.RECORDED)]


def said_by_config(who: str, config: Mapping[str, str]) -> Iterator[StatedOutput]:
    """Yield the output paths that a flattened config names, absolute ones only."""
    for key, value in config.items():
        name = key.rpartition(".")[2].lower()
        if name not in KEYS or _READS.search(key):
            continue
        try:
            path = json.loads(value)
        except ValueError:
            path = value
        if isinstance(path, str) and _is_place(path):
            yield StatedOutput(f"{who} ({key})", path)


def said_by_command(words: Sequence[str]) -> Iterator[StatedOutput]:
    """Yield the output paths that a command's flags name, absolute ones only."""
    for flag, value in flags_of(words).items():
        name = flag.lstrip("-+~").rpartition(".")[2].replace("-", "_").lower()
        if name in KEYS and not _READS.search(flag) and _is_place(value):
            yield StatedOutput(f"the command ({flag})", value)


def said_by_record(who: str, text: str | None, root: str | None) -> Iterator[StatedOutput]:
    """Yield the path that a record names, if it is one; a relative one must be the root's end."""
    path = (text or "").strip().strip("`*<> ").rstrip("/")
    if not path or re.search(r"\s", path) or root is None:
        return
    if _is_place(path):
        yield StatedOutput(who, path)
    elif "/" in path:
        ours = root.rstrip("/").endswith(f"/{path.removeprefix('./')}")
        yield StatedOutput(who, root if ours else path)


def _is_place(path: str) -> bool:
    return path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def _normal(path: str, same: Mapping[str, str]) -> str:
    scheme, sign, rest = path.partition("://")
    if sign:
        return f"{scheme.lower()}://{posixpath.normpath(rest)}"
    return same.get(path, posixpath.normpath(path))


def _seen(place: Place, run: RunSpec, same: Mapping[str, str]) -> str:
    """Return a place of the run as its job spells it."""
    return _normal(place.seen_from(run.job), same)


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _bucket(path: str) -> str:
    scheme, sign, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""
