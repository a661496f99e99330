"""A tracker's files as a log of records: what a reader of one kind of file must be able to do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from cockpit.model.facet import TrackerAlert

MOST_RECORDS = 5000
"""Records of one batch at most."""


class BadFileError(ValueError):
    """The file is not what it should be; the text is one safe line."""


class Record(NamedTuple):
    """What was logged at once: the step that it was logged under, its time (epoch s), metrics."""

    step: int | None
    at: float | None
    values: Mapping[str, float]


class Batch(NamedTuple):
    """The records behind a cursor, in order, and the cursor behind the last of them.

    ``caught_up``: nothing more is there for now. ``share``: how much of the files, 0 to 1, all
    records up to these are. ``skipped``: damaged ones that were passed over.
    """

    records: list[Record]
    cursor: Hashable
    caught_up: bool
    share: float
    skipped: int = 0


class About(NamedTuple):
    """What the files say of the run itself; all text is foreign. ``mtime`` is their newest write.

    ``identity`` is another one when the files were replaced, and ``version`` when anything in
    them has changed.
    """

    id: str
    name: str
    project: str | None
    producer: str
    files: tuple[str, ...]
    mtime: float
    identity: Hashable
    version: Hashable
    config: Mapping[str, object] = {}
    alerts: tuple[TrackerAlert, ...] = ()
    notes: tuple[str, ...] = ()
    """What else lies there that is not read; safe text, one line each."""
    without_loss: tuple[str, ...] = ()
    """What is worth knowing besides, where no loss is found in the records."""


class RecordLog(Protocol):
    """The files of one run. Methods block and raise ``OSError`` and ``BadFileError``."""

    def look(self) -> About:
        """Look at the files anew; what the other methods read is as of this moment."""

    def read(self, cursor: Hashable) -> Batch:
        """Return the records behind ``cursor`` (``None``: from the first one on)."""

    def newest(self, count: int) -> tuple[list[Record], float]:
        """Return about the last ``count`` records in order, and what share of all they are."""
