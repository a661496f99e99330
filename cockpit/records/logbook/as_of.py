"""A logbook as it stood at a moment: from git, else those of its entries that are dated by then."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.wording import moment
from cockpit.runtime.git import READING, run_git
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text
from cockpit.text.logbook_scan import read_entries
from cockpit.text.markdown_blocks import split_lines

DEADLINE: Final = 5.0
CAP: Final = 8 << 20
"""Bytes of a logbook that are read of a commit."""


class BookThen(NamedTuple):
    """A logbook's text at a moment, and how it is known, or why it is not."""

    text: str
    told: str


async def book_then(path: str, at: float) -> BookThen:
    """Return a logbook as it stood at ``at`` (seconds since the epoch); never raises.

    What was written and not committed by then cannot be told from what came later, but by the
    dates of its entries, where git knows nothing.
    """
    try:
        real = Path(await offload(os.path.realpath, path, deadline=DEADLINE))
        found = await _committed(real, at)
        if found is not None:
            return found
        return await offload(partial(_dated, real, at), deadline=DEADLINE)
    except TimeoutError:
        return BookThen("", "unknown: the file did not answer in time")
    except OSError as error:
        said = error.strerror or str(error) or "it cannot be read"
        return BookThen("", f"unknown: {said.lower()}")


async def _committed(path: Path, at: float) -> BookThen | None:
    """Return the text of its last commit by then; ``None`` where git has none."""
    words = ("log", "-1", "--format=%H %ct", f"--before={int(at)}", "--", path.name)
    listed = await run_git(path.parent, *words, deadline=DEADLINE, env=READING)
    commit, _, when = listed.text.strip().partition(" ")
    if not listed.ok or not commit or not when.isdigit():
        return None
    blob = ("cat-file", "blob", f"{commit}:./{path.name}")
    shown = await run_git(path.parent, *blob, deadline=DEADLINE, env=READING, cap=CAP)
    if not shown.ok:
        return None
    cut = f", its first {CAP >> 20} MiB" if shown.cut else ""
    return BookThen(shown.text, f"commit {commit[:7]} of {moment(float(when))}{cut}")


def _dated(path: Path, at: float) -> BookThen:
    """Return the entries that are dated by then, as they read today. Blocks, raises ``OSError``."""
    text = read_text(path)
    lines, entries = split_lines(text), read_entries(text)
    kept = [
        f"{lines[each.line - 1]}\n{each.text}\n"
        for each in entries
        if each.at is not None and each.at <= at
    ]
    undated = sum(each.at is None for each in entries)
    if not kept:
        return BookThen("", "unknown: nothing committed by then, and no entry dated by then")
    left = f", {undated} without a date left out" if undated else ""
    return BookThen("\n".join(kept), f"nothing committed by then: entries dated by then{left}")
