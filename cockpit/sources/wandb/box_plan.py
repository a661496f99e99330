"""What one look brings of the ``.wandb`` files of a host: bytes are shared out among them.

First the newest rows of all files, then what their readers have missed, then older rows in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.sources.logs.ranged import Span, Wish
from cockpit.sources.wandb.box_file import BoxFile
from cockpit.sources.wandb.file import BLOCK
from cockpit.sources.wandb.run_files import Wants

NEWEST: Final = 8 << 20
"""Bytes of newest rows that one look brings, of all files together."""
LEAST_NEWEST: Final = 32 * 1024
MOST_NEWEST: Final = 2 << 20
"""The least and the most of one file."""
OLDER: Final = 16 << 20
"""Bytes that one look brings of rows before the newest, of all files together."""
LEAST_OLDER: Final = 512 * 1024
"""Bytes of older rows worth asking a file for: where many are unread they take turns."""
MISSED: Final = 8 << 20
"""Bytes that one look brings of what was looked for in vain, of all files together."""
MOST_RANGES: Final = 8
HEAD: Final = 32 * 1024
"""Bytes of a file's beginning that are brought with its newest rows."""


def first(many: int, scale: float) -> Wish:
    """Return what to ask of each of ``many`` files that are new."""
    return Wish((_newest(0, many, scale), Span(0, HEAD)))


def plan(
    files: Sequence[tuple[BoxFile, Wants]], scale: float, turn: int
) -> list[tuple[BoxFile, Wish]]:
    """Return what to ask of each file; ``scale`` (0 to 1) is for slow links, ``turn`` counts."""
    unread = [at for at, (_, wants) in enumerate(files) if wants.behind]
    many = max(1, min(len(unread), int(OLDER * scale / LEAST_OLDER)))
    chosen = {unread[(turn * many + n) % len(unread)] for n in range(many if unread else 0)}
    older = int(OLDER * scale / max(1, len(chosen)))
    missed = int(MISSED * scale / max(1, sum(bool(wants.missed) for _, wants in files)))
    asked = []
    for at, (file, wants) in enumerate(files):
        if not wants.read_to and not wants.missed:
            asked.append((file, first(len(files), scale)._replace(unless=file.version)))
            continue
        begin = wants.read_to
        spans = [*_ranges(wants, missed)]
        if wants.unread is not None and not wants.behind:
            begin = min(begin, wants.unread[0])
        elif wants.unread is not None and at in chosen:
            start, least = wants.unread
            spans.append(Span(start, max(least, start + older)))
        unless = None if spans else file.version
        asked.append((file, Wish((_newest(begin, len(files), scale), *spans), unless)))
    return asked


def _newest(start: int, many: int, scale: float) -> Span:
    share = int(NEWEST * scale / max(1, many))
    return Span(start, None, last=min(MOST_NEWEST, max(LEAST_NEWEST, share)), to=BLOCK)


def _ranges(wants: Wants, most: int) -> Iterator[Span]:
    """Yield what was missed, the ends of it where that is too much: newer rows tell more."""
    for start, stop in wants.missed[-MOST_RANGES:]:
        yield Span(max(start, stop - max(most, BLOCK)), stop)
