"""A system that stands still, and a cockpit that does not wait for it as long as for a slow one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from cockpit.hosts import link
from cockpit.platforms.iris import acting
from cockpit.runtime.http import Answer, Http
from tests.platforms.conformance.seat import Seat

WITHIN = 1.0


@contextmanager
def halted(seat: Seat) -> Iterator[None]:
    """Let the system of a seat stand still; each question to it is given up after a second.

    The deadlines are the usual ones again once it goes on: a busy machine may need them.
    """
    answered, asked, once = link.answered, Http._asked, Http._once

    async def sooner(futures: Sequence[Future[Any]], limit: float, patience: float) -> None:
        await answered(futures, min(limit, WITHIN), min(patience, WITHIN))

    async def asked_sooner(http: Http, request: Any, deadline: float | None = None) -> Answer:
        return await asked(http, request, min(deadline or WITHIN, WITHIN))

    async def once_sooner(http: Http, request: Any, deadline: float) -> Answer:
        return await once(http, request, min(deadline, WITHIN))

    with pytest.MonkeyPatch.context() as patch:
        for name in ("LOOKUP_WITHIN", "ASK_WITHIN"):
            patch.setattr(acting, name, WITHIN)
        patch.setattr(link, "answered", sooner)
        patch.setattr(Http, "_asked", asked_sooner)
        patch.setattr(Http, "_once", once_sooner)
        with seat.halted():
            yield
