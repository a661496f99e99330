"""What ``--present`` hides while a screen is shared: hosts, people, paths. Run names stay.

Applied to painted lines, so that nothing reaches the screen around it; every masked character
is replaced by one ``•``, so that nothing moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from textual.content import Content

from cockpit.model.run import CockpitFile, RunSpec

DOT: Final = "•"
_PATHS: Final = (
    r"[a-z][a-z0-9+]*://[^\s\"']+",
    r"(?<![\w~./…])(?:~|\.{1,2})?/[\w.@%+*{}…-]+(?:/[\w.@%+*{}…-]*)*",
    r"(?<![\w.,/~])[\w.@%+-]+(?:/[\w.@%+*-]+)+/?(?:…)?",
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*",
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b",
)
_NOT_PATHS: Final = re.compile(
    r"[~\d,.:?a-z]*\d[\d,.]*[a-z]{0,3}/[\d,.]+[a-z]*|w&b|now/\d+[a-z]+|[a-zA-Z]{1,3}/s"
)


class Mask:
    """Replaces what must not be seen in a line."""

    def __init__(self, secrets: Iterable[str], kept: Iterable[str]) -> None:
        words = sorted({word for word in secrets if len(word) > 1}, key=len, reverse=True)
        names = "|".join(_or_cut(word) for word in words)
        named = [rf"(?<![\w-])(?:{names})(?![\w])"] if names else []
        self._hidden = re.compile("|".join((*_PATHS, *named)))
        keep = sorted({name for name in kept if name}, key=len, reverse=True)
        self._kept = re.compile("|".join(map(re.escape, keep)) or r"(?!)")

    @classmethod
    def of(cls, file: CockpitFile, people: Iterable[str]) -> Mask:
        """Return the mask for a run file: its hosts and people, and those given."""
        secrets = {file.operator or "", *file.hosts, *people}
        for run in file.runs:
            secrets |= _secrets(run)
        return cls(secrets, (run.name for run in file.runs))

    def __call__(self, line: Content) -> Content:
        """Return the line with every masked character as a dot."""
        plain = line.plain
        kept = [found.span() for found in self._kept.finditer(plain)]
        pieces, at = [], 0
        for found in self._hidden.finditer(plain):
            start, end = found.span()
            if _NOT_PATHS.fullmatch(found.group()):
                continue
            pieces += [plain[at:start], _dotted(plain, start, end, kept)]
            at = end
        if not pieces:
            return line
        return Content("".join([*pieces, plain[at:]]), list(line.spans))


def _dotted(plain: str, start: int, end: int, kept: Iterable[tuple[int, int]]) -> str:
    """Return a piece as dots; what belongs to a run's name stays, also within a path."""
    clear = {place for a, b in kept for place in range(max(a, start), min(b, end))}
    return "".join(plain[at] if at in clear else DOT for at in range(start, end))


def _or_cut(word: str) -> str:
    """Return a pattern for ``word`` whole or cut off with an ellipsis."""
    cuts = "|".join(re.escape(word[:end]) + "…" for end in range(len(word), 1, -1))
    return f"{re.escape(word)}|{cuts}"


def _secrets(run: RunSpec) -> set[str]:
    from cockpit.platforms.table import PRIVATE  # here: only a shared screen needs it

    job, wandb = run.job, run.wandb
    found = {run.dri, wandb.entity if wandb is not None else None}
    if job is not None:
        found |= {getattr(job, name) for name in PRIVATE}
    return {word for word in found if word}
