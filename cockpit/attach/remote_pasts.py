"""The past of an engine's runs as a window is given it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cockpit.attach.remote_logs import Ask

if TYPE_CHECKING:
    from cockpit.model.history import PastLog, Then, Timeline


class RemotePasts:
    """As the engine's own, asked through ``ask``; raises what asking raises."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def timeline(self, run: str) -> Timeline:
        """Return what is known to have happened to a run, and which moments are kept."""
        return cast("Timeline", await self._ask("timeline", run))

    async def then(self, run: str, at: float) -> Then:
        """Return a run as it was at ``at`` (seconds since the epoch)."""
        return cast("Then", await self._ask("then", run, at))

    async def log_then(self, run: str, at: float, offset: int, back: bool) -> PastLog:
        """Return lines of the log as it was: before ``offset`` (``back``), or from it on."""
        return cast("PastLog", await self._ask("log_then", run, at, offset, back))
