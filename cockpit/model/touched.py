"""Which class a changed file falls in, by the run file's globs (SPEC C-15).

``**`` matches any number of folders, ``*`` and ``?`` never a slash. A pattern without a slash
matches a name in any folder (``*.md``), one with a slash is a path from the repository's root,
one that ends in a slash means everything below.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from cockpit.model.run import CodeSpec

ALWAYS_IGNORED: Final = ("*.md", "*.log", "docs/**", "tests/**")
OURS: Final = (".cockpit/", "**/.cockpit/**", ".cockpit-try-*", "cockpit-tmp-*")
"""What the cockpit puts down wherever it works."""
PROGRAMS: Final = frozenset((
    ".py", ".pyx", ".pxd", ".pyi", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp",
    ".rs", ".go", ".jl", ".sh",
))  # fmt: skip
"""A file of these in a folder that runs save into may be code all the same."""


class Touches(StrEnum):
    """What a changed file can touch, from harmless to the training trajectory."""

    IGNORE = "ignore"
    SAFE = "safe"
    TRAJECTORY = "trajectory"


_ORDER: Final = (Touches.TRAJECTORY, Touches.SAFE, Touches.IGNORE)


def touches(path: str, code: CodeSpec) -> Touches:
    """Return the class of one path (from the repository's root, with ``/``).

    What is ignored, or written by the cockpit or a run, never counts; of the other two the more
    careful one wins. A folder that git names as a whole (it ends in ``/``) is only ignored where
    all of it would be.
    """
    if any_match(code.ignore, path) or is_own(path, code):
        return Touches.IGNORE
    if any_match(code.trajectory, path):
        return Touches.TRAJECTORY
    if any_match(code.safe, path):
        return Touches.SAFE
    return Touches.IGNORE if any_match(ALWAYS_IGNORED, path) else Touches.TRAJECTORY


def is_own(path: str, code: CodeSpec) -> bool:
    """Return whether the cockpit or a run has written this path, not a person."""
    if any_match(OURS, path):
        return True
    for own in code.own_files:  # NAME, NAME.4211.new beside it; of a pattern whatever fits
        if path == own or path.startswith(f"{own}.") or ("*" in own and any_match((own,), path)):
            return True
    inside = any(f"{path.rstrip('/')}/".startswith(f"{folder}/") for folder in code.output_folders)
    return inside and (path.endswith("/") or PurePosixPath(path).suffix not in PROGRAMS)


def any_match(patterns: Iterable[str], path: str) -> bool:
    """Return whether one of the patterns matches the path."""
    return any(_compiled(pattern).fullmatch(path) is not None for pattern in patterns)


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("/"):
        pattern += "**"
    anchored = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
    return re.compile(_regex(anchored), re.DOTALL)


def _regex(pattern: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern[at:] == "**" and (at == 0 or pattern[at - 1] == "/"):
            parts.append(".*")
            at += 2
        else:
            piece, at = _one(pattern, at)
            parts.append(piece)
    return "".join(parts)


def _one(pattern: str, at: int) -> tuple[str, int]:
    """Return the regular expression of one character or class, and where the next begins."""
    letter = pattern[at]
    if letter == "*":
        while pattern[at : at + 1] == "*":
            at += 1
        return "[^/]*", at
    if letter == "?":
        return "[^/]", at + 1
    end = pattern.find("]", at + 2) if letter == "[" else -1
    if end < 0:
        return re.escape(letter), at + 1
    inside = pattern[at + 1 : end]
    negated = "^/" if inside[:1] in "!^" else ""
    inside = inside[1:] if negated else inside
    escaped = inside.replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    try:
        re.compile(f"[{negated}{escaped}]")
    except re.error:
        return re.escape(pattern[at : end + 1]), end + 1
    return f"[{negated}{escaped}]", end + 1


def worst_first(paths: Iterable[str], spec: CodeSpec) -> tuple[tuple[Touches, str], ...]:
    """Return the paths that count with their classes, those that touch training first."""
    found = {(touches(path, spec), path) for path in paths}
    counted = [each for each in found if each[0] is not Touches.IGNORE]
    return tuple(sorted(counted, key=lambda each: (_ORDER.index(each[0]), each[1])))
