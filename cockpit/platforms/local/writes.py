"""What a file that a process writes tells of it: the run's log, a checkpoint, or its own (C-25).

A job *trains*: it writes the run's log, a checkpoint or its W&B run. A file of its own under the
output root is no proof: evaluations, notebooks, editors and databases write there too. Pure.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from enum import IntEnum
from typing import Final, NamedTuple

from cockpit.platforms.local.marks import RunMarks

TRIED: Final = ".cockpit-try-"
"""How the name of a file begins that a cockpit makes to see whether a folder takes one."""
_STEP: Final = re.compile(
    r"(?:^|[-_.=])(?:step|steps|iter|iteration|checkpoint|ckpt|epoch|global_step|save|model)"
    r"[-_=]?\d+(?!\d)|^\d+$",
    re.IGNORECASE,
)
"""A part of a path that is named after a step."""
_WEIGHTS: Final = re.compile(
    r"\.(?:pt|pth|ckpt|safetensors|bin|distcp|msgpack|orbax|nemo|params)(?:$|[._-])", re.IGNORECASE
)
_NO_WEIGHTS: Final = re.compile(
    r"\.(?:log|txt|out|err|json|jsonl|csv|tsv|md|html?|png|jpe?g|svg|pdf|ya?ml|toml|ipynb|py|sh"
    r"|db|sqlite\d?|parquet)$",
    re.IGNORECASE,
)
_EDITED: Final = re.compile(r"^\..*\.sw[a-p]$|^\.#|~$|\.ipynb$|\.kate-swp$|\.sqlite-(?:wal|shm)$")
"""Files of editors and notebooks: whoever has one open edits."""
_STORE: Final = re.compile(r"/cockpit/store(?:-[^/]+)?\.sqlite(?:-wal|-shm)?$")


LOG_NAME: Final = re.compile(r"\.(?:log|out|err|txt)(?:\.\d+)?$")


class Kind(IntEnum):
    """What a file is to the run, the strongest evidence last."""

    OWN = 1
    SAVE = 2
    LOG = 3
    TRACKER = 4
    LOCK = 5

    @property
    def proves(self) -> bool:
        """True where only a job of the run writes it."""
        return self is not Kind.OWN


class Written(NamedTuple):
    """A file of the run that a process has open for writing, or has locked."""

    kind: Kind
    path: str


def kind_of(watched: RunMarks, path: str) -> Kind | None:
    """Return what a file that is written is to the run; ``None``: nothing of it."""
    fragment = f"/run-{watched.wandb_id}.wandb"
    folders = () if watched.wandb_id is None else (watched.wandb_dir, *watched.roots)
    if path.endswith(fragment) and any(below(each, path) for each in folders):
        return Kind.TRACKER
    if any(path == log or fnmatch.fnmatchcase(path, log) for log in watched.logs):
        return Kind.LOG
    places = (*watched.roots, *watched.outputs)
    rest = [path[len(each) :].strip("/") for each in places if below(each, path)]
    if not rest or any(_is_ours(each) for each in rest):
        return None
    shortest = min(rest, key=len)
    if _EDITED.search(posixpath.basename(path)):
        return None
    return Kind.SAVE if _is_save(shortest or posixpath.basename(path)) else Kind.OWN


def below(root: str | None, path: str) -> bool:
    """Tell whether a path is ``root`` or lies below it, compared part by part."""
    return root is not None and (path == root or path.startswith(root.rstrip("/") + "/"))


def _is_ours(rest: str) -> bool:
    """Tell whether a file is one of the cockpit's own notes; the lock that jobs hold is not."""
    parts = rest.split("/")
    return parts[0] == ".cockpit" or any(part.startswith(TRIED) for part in parts)


def _is_save(rest: str) -> bool:
    """Tell whether a path below the run's places is a part of a checkpoint, by its names."""
    name = posixpath.basename(rest)
    if _NO_WEIGHTS.search(name):
        return False
    return any(_STEP.search(part) for part in rest.split("/")) or bool(_WEIGHTS.search(name))


def is_store(path: str) -> bool:
    """Tell whether a file is a cockpit's store: whoever has it open is a cockpit."""
    return _STORE.search(path) is not None
