"""What a shell asks at every Tab: runs and checkpoints of the run file, from names alone.

Light on purpose: nothing but the standard library is imported, the run file is not checked, no
checkpoint is opened, and whatever is wrong is no candidate instead of a message on the prompt.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from cockpit.config.places import find

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_STEP: Final = re.compile(
    r"(?!.*(?:tmp|rejected))(?:[A-Za-z][\w=.-]*?[-_=])?(\d{1,12})(?:\.(?:ckpt|pt|pth))?"
)
"""A checkpoint's name, of whatever layout; one that is being written or was rejected is none."""
_MOST: Final = 500
_BIGGEST: Final = 16 * 2**20


def print_values(words: Sequence[str]) -> int:
    """Print the candidates of ``words`` (a kind, then the line); return 0."""
    kind, *line = words or ("",)
    for value in candidates(kind, line):
        sys.stdout.write(f"{value}\n")
    return 0


def candidates(kind: str, line: Sequence[str]) -> list[str]:
    """Return the runs, or the steps of the run on the line; empty where nothing can be known."""
    runs = {run["name"]: run for run in _runs(line)}
    if kind == "run":
        return [name for name in runs if name not in line[:-1]]
    named = [word for word in line if word in runs]
    if kind != "step" or not named:
        return []
    folder = _file(line)
    steps = set() if folder is None else _steps(runs[named[0]], folder.absolute().parent)
    return [str(step) for step in sorted(steps, reverse=True)[:_MOST]]


def _file(line: Sequence[str]) -> Path | None:
    for before, word in pairwise(line):
        if before == "--config":
            return Path(word).expanduser()
    joined = (word.partition("=")[2] for word in line if word.startswith("--config="))
    given = next(joined, None)
    return find(Path.cwd()) if given is None else Path(given).expanduser()


def _runs(line: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the run file's ``[[run]]`` tables with a name that may be one."""
    try:
        path = _file(line)
        if path is None or not path.is_file() or path.stat().st_size > _BIGGEST:
            return
        runs = tomllib.loads(path.read_text("utf-8-sig")).get("run")
    except (OSError, ValueError, RecursionError, RuntimeError):
        return
    for run in runs if isinstance(runs, list) else ():
        name = run.get("name") if isinstance(run, dict) else None
        if isinstance(name, str) and _NAME.fullmatch(name):
            yield run


def _steps(run: dict[str, Any], folder: Path) -> set[int]:
    """Return the steps that names in the run's local checkpoint folders tell."""
    table = run.get("checkpoints")
    roots = table.get("path") if isinstance(table, dict) else None
    found: set[int] = set()
    for root in roots if isinstance(roots, list) else [roots]:
        if isinstance(root, str) and "://" not in root:
            try:
                with os.scandir(folder / Path(root).expanduser()) as entries:
                    matches = (_STEP.fullmatch(entry.name) for entry in entries)
                    found.update(int(match[1]) for match in matches if match)
            except (OSError, ValueError, RuntimeError):
                continue
    return found
