"""Rows for the curves of a run whose ``.wandb`` files lie on an ssh host.

They are read from the bytes that looks at the host bring, by the same connection: each reader keeps
its offset, a look brings so much of what is behind it, and nothing twice while it is kept here.
"""

from __future__ import annotations

from typing import Final

from cockpit.model.run import WandbSpec
from cockpit.sources.logs.pieces import Answer
from cockpit.sources.logs.remote import HostError
from cockpit.sources.wandb.box import Box, BoxRun
from cockpit.sources.wandb.history import RowChunk
from cockpit.sources.wandb.metric_names import names_in
from cockpit.sources.wandb.metrics import MetricKeys
from cockpit.sources.wandb.run_files import RunFiles

ALLOWED: Final = 4.0
"""Seconds for one look: an answer with several curves takes some."""


class BoxCurves:
    """Who looks at one run's files for its curves. Methods block and raise ``OSError``."""

    def __init__(self, box: Box, run: BoxRun) -> None:
        self._box = box
        self._run = run
        self.trouble = ""
        """Why no more could be brought, at the last try."""

    def rows(self, spec: WandbSpec) -> BoxRows:
        """Return a reader under the names of metrics of ``spec``."""
        return BoxRows(self, self._run.reader(spec))

    def names(self) -> set[str]:
        """Return the metrics that were logged, as far as the files are here."""
        return names_in(list(self._run.files.values()))

    def bring(self, rows: RunFiles) -> None:
        """Look at the host if nothing was found yet, or the reader cannot go on without.

        A host that does not answer is no reason to hide what was read: ``trouble`` says it.
        """
        files = list(self._run.files.values())
        found = bool(files) and all(isinstance(file.told, Answer) for file in files)
        if found and not rows.lacking:
            return
        try:
            self._box.look([self._run], ALLOWED)
            self.trouble = ""
        except HostError as error:
            if not found:
                raise
            self.trouble = str(error.strerror)


class BoxRows:
    """One pass over the rows, as ``curves.files.Rows``."""

    def __init__(self, curves: BoxCurves, rows: RunFiles) -> None:
        self._curves = curves
        self._rows = rows

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as anything was read."""
        return self._rows.keys

    def more(self) -> RowChunk:
        """Return the next rows in order, as far as their bytes are here."""
        return self._rows.more()

    def recent(self, most: int) -> RowChunk:
        """Return the newest rows, after more was brought where that is needed."""
        self._curves.bring(self._rows)
        return self._rows.recent(most)
