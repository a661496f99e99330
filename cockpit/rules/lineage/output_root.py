"""Where everybody says that a run's output goes, held against its output root (C-16). Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.lineage import flags_of
from cockpit.model.place import Place, place_of
from cockpit.model.run import RunSpec

KEYS: Final = frozenset((
    "output_root", "output_dir", "output_path", "out_dir", "save_dir", "save_path",
    "base_path", "checkpoint_dir", "checkpoint_path", "checkpoints_dir", "checkpoint_root",
    "ckpt_dir", "ckpt_path",
))  # fmt: skip
"""Settings that name where a training writes; those that are read from (load, init) do not."""
_READS: Final = re.compile(r"load|init|resume|restore|source|pretrained|teacher|cache|data", re.I)


class StatedOutput(NamedTuple):
    """Where somebody says that the output goes: who, and the path as it is written."""

    who: str
    path: str


class Elsewhere(NamedTuple):
    """Somebody who names another place than the run's: both paths as the job sees them."""

    stated: StatedOutput
    path: str
    root: str

    @property
    def other_bucket(self) -> bool:
        """True where it is not even the same bucket."""
        return _bucket(self.path) != _bucket(self.root)


def elsewhere(
    run: RunSpec, stated: Sequence[StatedOutput], same: Mapping[str, str]
) -> Iterator[Elsewhere]:
    """Yield who names a place outside of the output root and of the run's checkpoint roots.

    ``same`` maps local paths to where they really lie. All are compared as the job sees them.
    """
    if run.output_root is None:
        return
    roots = [run.output_root, *(run.checkpoints.path if run.checkpoints is not None else ())]
    allowed = [seen(root, run, same) for root in roots]
    for each in stated:
        path = seen(place_of(each.path), run, same)
        if not any(below(path, root) for root in allowed):
            yield Elsewhere(each, path, allowed[0])


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


def normal(path: str, same: Mapping[str, str]) -> str:
    """Return a path or address in its one spelling."""
    scheme, sign, rest = path.partition("://")
    if sign:
        return f"{scheme.lower()}://{posixpath.normpath(rest)}"
    return same.get(path, posixpath.normpath(path))


def seen(place: Place, run: RunSpec, same: Mapping[str, str]) -> str:
    """Return a place of the run as its job spells it."""
    return normal(place.seen_from(run.job), same)


def below(path: str, root: str) -> bool:
    """Tell whether a path is ``root`` or lies in it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def _bucket(path: str) -> str:
    scheme, sign, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""
