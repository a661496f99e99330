"""The run file, read again when it changes; a bad edit keeps the old one and says so."""

from __future__ import annotations

from cockpit.config import Reloader
from cockpit.model.run import CockpitFile
from cockpit.sources.offload import offload

DEADLINE = 5.0
KEPT = "the run file read before stays in use"


class RunFile:
    """The run file on disk beside the one in use. ``notice`` says why a newer one is not."""

    def __init__(self, file: CockpitFile) -> None:
        self.notice: str | None = None
        self._reloader = Reloader(file)
        self._used = file

    async def newer(self) -> CockpitFile | None:
        """Return the file's new content if it has changed and is good, else ``None``."""
        try:
            await offload(self._reloader.check, deadline=DEADLINE)
        except TimeoutError as error:
            self.notice = f"the run file does not answer: {error}; {KEPT}"
            return None
        problems = self._reloader.problems
        self.notice = f"{problems[0]}; {KEPT}" if problems else None
        if problems or self._reloader.file == self._used:
            return None
        self._used = self._reloader.file
        return self._used
