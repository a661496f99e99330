"""Paths below a folder that stands once in full: ``…/checkpoints/step-28``. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cockpit.model.plan import Plan

LEAST: Final = 12
"""Characters from which a folder is worth a shorter name."""


class Short:
    """Writes ``…`` for one folder; an empty or short folder is left as it is."""

    def __init__(self, folder: str | None = None) -> None:
        whole = (folder or "").rstrip("/")
        self.folder = whole if len(whole) >= LEAST else ""

    def __call__(self, words: str) -> str:
        """Return the words with every path below the folder shortened."""
        return words.replace(f"{self.folder}/", "…/") if self.folder else words

    def shortens(self, plan: Plan) -> bool:
        """Return whether the plan's page has more than one path to shorten."""
        told = "\n".join(_texts(plan)) if self.folder else ""
        return told.count(f"{self.folder}/") > 1 if self.folder else False


def _texts(plan: Plan) -> Iterable[str]:
    picks = [each for each in (plan.checkpoint, plan.trainer_would_load) if each is not None]
    yield from (each.path for each in picks)
    yield from (each.path for each in (*plan.targets, *plan.keeps))
    yield from (check.text for check in plan.checks)
    yield from (each.would_run or "" for each in plan.differences)
