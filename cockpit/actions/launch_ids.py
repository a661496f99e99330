"""Launch ids: ``<run>-iNNN``, counted up, never given out twice (SPEC A, "Two machines")."""

from __future__ import annotations

import re
from collections.abc import Iterable


def launch_id(run: str, number: int) -> str:
    """Return the launch id of a run's instance: ``my-run-i003``."""
    return f"{run}-i{number:03d}"


def number_of(run: str, text: str) -> int | None:
    """Return the number in a launch id of this run, ``None`` for anything else."""
    match = re.fullmatch(re.escape(run) + r"-i(\d{1,6})", text.strip())
    return None if match is None else int(match[1])


def next_launch_id(run: str, known: Iterable[str]) -> str:
    """Return the first launch id above all that are known."""
    numbers = (number for text in known if (number := number_of(run, text)) is not None)
    return launch_id(run, max(numbers, default=0) + 1)
