"""Every metric that a run's ``.wandb`` files hold: from a few places all along each; it blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cockpit.model.run import WandbSpec
from cockpit.sources.protobuf import BadMessageError
from cockpit.sources.wandb.decode import HISTORY, history, kind_of
from cockpit.sources.wandb.file import BLOCK, NotWandbError, Span, WandbLog
from cockpit.sources.wandb.fragment import find
from cockpit.sources.wandb.launches import LaunchFile, LocalFile

NEWEST: Final = 4
"""Files of a run that are looked at: the newest."""
PLACES: Final = 8
"""Places along a file: what is logged seldom is found by one of them, or by its exact name."""
AT_ONCE: Final = 4 * BLOCK
SHAPES: Final = 200
"""Rows of one place that are decoded; of as many items as others, few."""
_OF_EACH: Final = 3


def metric_names(spec: WandbSpec) -> set[str]:
    """Return the names of all numbers found; raises ``OSError`` where no file can be read."""
    paths = find("" if spec.dir is None else spec.dir.path, spec.run_id)
    return names_in([LocalFile(path) for path in paths])


def names_in(files: Sequence[LaunchFile]) -> set[str]:
    """Return the names of all numbers found in a run's files, as far as their bytes are here."""
    by_path = {file.path: file for file in files}
    return {name for path in newest(list(by_path)) for name in _names_in(by_path[path])}


def newest(paths: Sequence[str]) -> list[str]:
    """Return the files of the last starts; a folder's name begins with when it was."""
    return sorted(paths)[-NEWEST:]


def _names_in(file: LaunchFile) -> Iterator[str]:
    try:
        with file.open() as log:
            if log.started():
                for spans in _places(log):
                    yield from _numbers(spans)
    except NotWandbError:
        return


def _places(log: WandbLog) -> Iterator[Sequence[Span]]:
    blocks = max(1, -(-log.size // BLOCK))
    last = max(0, blocks - AT_ONCE // BLOCK)
    for block in sorted({last * place // (PLACES - 1) for place in range(PLACES)}):
        yield log.block(block, AT_ONCE).spans


def _numbers(spans: Iterable[Span]) -> Iterator[str]:
    seen: dict[int, int] = {}
    for span in spans:
        kind, message = kind_of(span)
        size = message[0].count(b"\x82\x01", message[1], message[2]) if kind == HISTORY else 0
        if kind != HISTORY or seen.get(size, 0) >= _OF_EACH or len(seen) > SHAPES:
            continue
        seen[size] = seen.get(size, 0) + 1
        try:
            row = history(message)
        except BadMessageError:
            continue
        yield from (name for name, value in row.items() if _is_number(value))


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value in ("NaN", "Infinity", "-Infinity")
    return isinstance(value, int | float) and not isinstance(value, bool)
