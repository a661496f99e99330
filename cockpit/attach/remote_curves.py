"""The curves of an engine's runs as a window is given them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cockpit.attach.remote_logs import Ask

if TYPE_CHECKING:
    from cockpit.model.curve import Curves, Span


class RemoteCurves:
    """Asks the engine for curves through ``ask``; raises what asking raises."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def curves(self, run: str, metrics: Sequence[str], span: Span) -> Curves:
        """Return these metrics of a run, as far as the engine has read them."""
        extent = [] if span.low is None or span.high is None else [span.low, span.high]
        asked = (run, list(metrics), span.by_time, extent, span.most)
        return cast("Curves", await self._ask("curves", *asked))
