"""The dead man's switch: somebody outside is told that we still watch, and calls when we stop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.notify import NotifySpec
from cockpit.notify.message import answered
from cockpit.runtime.http import Http, HttpError

WITHIN: Final = 10.0
EARLY: Final = 0.5
"""Share of a cadence after which a ping is due: rounds of many runs come one after another."""


class Heartbeat:
    """Pings the address in ``heartbeat_url_env`` once per cadence. Never raises."""

    def __init__(
        self, spec: NotifySpec, clock: Clock, environ: Mapping[str, str] | None = None
    ) -> None:
        self._variable = spec.heartbeat_url_env
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._http = Http(clock, deadline=WITHIN)
        self._last: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether the run file names a switch."""
        return self._variable is not None

    def trouble(self) -> str | None:
        """Return why it cannot be pinged from here, or ``None``; asks nobody."""
        if self._variable is None or self._address():
            return None
        return f"the dead man's switch is not pinged: {self._variable} is not set here"

    async def beat(self, cadence: float) -> str | None:
        """Ping if it is due; return a line if that did not work."""
        now = self._clock.monotonic()
        due = self._last is None or now - self._last >= EARLY * cadence
        if self._variable is None or not due:
            return None
        self._last = now
        return await self.ping()

    async def ping(self) -> str | None:
        """Ping now; return a line that names the variable if that did not work."""
        where = self._address()
        if where is None:
            return self.trouble()
        why = await self._get(where)
        if why is None:
            return None
        return f"the dead man's switch ({self._variable}) was not reached: {why}"

    async def _get(self, where: str) -> str | None:
        """Return why the address did not answer well, in words that do not repeat it."""
        if not where.startswith(("https://", "http://")):
            return "its value is not an https:// address"
        try:
            answer = await self._http.get(where)
        except HttpError as error:
            return error.kind.value if error.status is None else answered(error.status).words
        good = 200 <= answer.status < 300
        return None if good else answered(answer.status).words

    def _address(self) -> str | None:
        return (self._environ.get(self._variable or "") or "").strip() or None
