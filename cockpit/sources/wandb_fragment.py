"""One ``.wandb`` file of a run, with what has been learned of it so far."""

from __future__ import annotations

from pathlib import Path

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.wandb_files import id_in_name
from cockpit.sources.wandb_log import LogFile
from cockpit.sources.wandb_metrics import MetricKeys
from cockpit.sources.wandb_rows import Layout, RowReader
from cockpit.sources.wandb_tail import (
    HEAD_BYTES,
    Head,
    Latest,
    head,
    latest,
    learn,
    learn_newest,
    sample,
)

STALE_SAMPLE = 0.1
"""Share by which a file may grow before it is sampled again: a sample reads all along it."""


class Fragment:
    """What one launch of the run has written; grows with its file.

    ``ready`` is False until the file's header is there. A file that was replaced or cut is
    another fragment: see ``replaced``.
    """

    def __init__(self, path: str, configured: MetricNames) -> None:
        self.path = path
        self.head = Head()
        self.layout = Layout(configured)
        self.ready = False
        self.size = 0
        self.mtime = 0.0
        self._identity: tuple[int, int] | None = None
        self._latest: tuple[MetricKeys, Latest] | None = None
        self._sample: tuple[MetricKeys, int, int, list[Row]] | None = None

    @property
    def name(self) -> str:
        """The directory's name, which tells when the launch was."""
        return Path(self.path).parent.name

    @property
    def id(self) -> str:
        """The run's id: the run record's, else the file name's."""
        run = self.head.run
        return (run.id if run is not None else None) or id_in_name(self.path)

    @property
    def started_at(self) -> float:
        """When the launch began: the run record's start, else when the file last changed."""
        run = self.head.run
        told = run.started_at if run is not None else None
        return self.mtime if told is None else told

    @property
    def seen(self) -> tuple[str, int, float]:
        """What a later look is compared with: equal means that nothing is new."""
        return self.path, self.size, self.mtime

    def replaced(self) -> bool:
        """Tell whether the path now holds another file, or less of the same, or nothing."""
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            return True
        known = self._identity in (None, (now.st_dev, now.st_ino))
        return not known or now.st_size < self.size

    def refresh(self) -> None:
        """Look at the file again: one ``stat`` when nothing is new.

        Raises ``OSError``, or ``NotWandbError`` when the file is something else.
        """
        now = Path(self.path).stat()
        self._identity = (now.st_dev, now.st_ino)
        self.mtime = now.st_mtime
        if now.st_size == self.size:
            return
        with LogFile(self.path) as log:
            self.ready = log.started()
            if self.ready:
                self._learn(log)
        self.size = now.st_size

    def _learn(self, log: LogFile) -> None:
        if self.size < HEAD_BYTES:
            self.head = head(log)
        if self.layout.rows:
            learn_newest(log, self.layout)
        else:
            learn(log, self.layout)

    def latest(self, keys: MetricKeys) -> Latest:
        """Return the newest of everything in this file."""
        if not self.ready:
            return Latest()
        former = self._latest[1] if self._latest and self._latest[0] == keys else None
        if former is None or former.size != self.size:
            with LogFile(self.path) as log:
                former = latest(log, self.reader(keys), former)
            self._latest = (keys, former)
        return former

    def sample(self, keys: MetricKeys, points: int) -> list[Row]:
        """Return about ``points`` rows with a loss, evenly spread over the file.

        A file that has grown by less than ``STALE_SAMPLE`` since is not sampled again.
        """
        if not self.ready or keys.loss is None:
            return []
        former = self._sample
        if (
            former is None
            or former[:2] != (keys, points)
            or not former[2] <= self.size <= former[2] * (1 + STALE_SAMPLE)
        ):
            with LogFile(self.path) as log:
                rows = sample(log, self.reader(keys), points)
            former = self._sample = (keys, points, self.size, rows)
        return former[3]

    def reader(self, keys: MetricKeys) -> RowReader:
        """Return a reader of this file's rows."""
        return RowReader(keys, self.layout)
