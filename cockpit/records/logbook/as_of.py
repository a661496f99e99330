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
from cockpit.runtime.shell import Completed
from cockpit.text.logbook_scan import read_entries, split_lines
from cockpit.text.safe import clean
from cockpit.text.times import read_stamp

DEADLINE: Final = 5.0
CAP: Final = 8 << 20
"""Bytes of a logbook that are read of a commit."""
LITERAL: Final = "--literal-pathspecs"
"""What keeps git from taking a file's name for a pattern."""
UNTOLD: Final = "git cannot tell"
SHALLOW: Final = "git cannot tell (a shallow clone)"
_DAY: Final = 86400.0
_NOTHING: Final = (b"not a git repository", b"any commits yet", b"does not exist in", b"not in '")


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
        if isinstance(found, BookThen):
            return found
        return await offload(partial(_dated, real, at, found), deadline=DEADLINE)
    except TimeoutError:
        return BookThen("", "unknown: the file did not answer in time")
    except OSError as error:
        said = error.strerror or str(error) or "it cannot be read"
        return BookThen("", f"unknown: {said.lower()}")


async def _committed(path: Path, at: float) -> BookThen | str:
    """Return the text of its last commit by then, or why git has none."""
    words = (LITERAL, "log", "-1", "--format=%H %ct", f"--before={int(at)}", "--", path.name)
    listed = await run_git(path.parent, *words, deadline=DEADLINE, env=READING)
    commit, _, when = listed.text.strip().partition(" ")
    if not listed.ok or not commit or not when.isdigit():
        return SHALLOW if listed.ok and await _is_shallow(path.parent) else _why_none(listed)
    blob = ("cat-file", "blob", f"{commit}:./{path.name}")
    shown = await run_git(path.parent, *blob, deadline=DEADLINE, env=READING, cap=CAP)
    if not shown.ok:
        return _why_none(shown)
    cut = f", its first {CAP >> 20} MiB" if shown.cut else ""
    return BookThen(shown.text, f"commit {commit[:7]} of {moment(float(when))}{cut}")


async def _is_shallow(folder: Path) -> bool:
    """Tell whether earlier commits may be missing here; so it counts where git does not say."""
    told = await run_git(
        folder, "rev-parse", "--is-shallow-repository", deadline=DEADLINE, env=READING
    )
    return told.text.strip() != "false"


def _why_none(ended: Completed) -> str:
    """Return why git has no text: that it did not answer does not say that nothing is there."""
    if ended.timed_out:
        return "git did not answer in time"
    if ended.ok or any(said in ended.err for said in _NOTHING):
        return "nothing committed by then"
    said = ended.err.decode("utf-8", "replace").strip().splitlines()
    return f"git cannot tell ({clean(said[0].removeprefix('fatal: '), 80)})" if said else UNTOLD


def _dated(path: Path, at: float, why: str) -> BookThen:
    """Return the entries that are dated by then, as they read today. Blocks, raises ``OSError``.

    ``why`` git has none.
    """
    text = read_text(path)
    lines, entries = split_lines(text), read_entries(text)
    kept = [
        f"{lines[each.line - 1]}\n{each.text}\n"
        for each in entries
        if each.at is not None and _since(each.at, lines[each.line - 1]) <= at
    ]
    undated = sum(each.at is None for each in entries)
    if not kept:
        return BookThen("", f"unknown: {why}, and no entry dated by then")
    left = f", {undated} without a date left out" if undated else ""
    return BookThen("\n".join(kept), f"{why}: entries dated by then{left}")


def _since(at: float, line: str) -> float:
    """Return from when on an entry was there: one with a date alone may be of that day's end."""
    stamp = read_stamp(line)
    return at if stamp is None or stamp.timed else at + _DAY
