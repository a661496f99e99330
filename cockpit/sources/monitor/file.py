"""Reads monitor state files of both shapes: with ``ts`` (IRIS) and without (RAY).

Blocking; every problem is a value.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.facet import ErrorKind, Problem
from cockpit.runtime.regular import open_regular
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_SIZE: Final = 1 << 20
TOGETHER: Final = 10.0
"""Seconds by which ``ts`` and the file's own time may move apart between two writes."""
BEHIND: Final = 60.0
"""Seconds from which on a clock counts as behind."""
_MILLISECONDS: Final = 1e11
"""A ``ts`` from here on is in milliseconds: as seconds it would lie after the year 5000."""


class StateRead(Frozen):
    """One state file: its stamp (``None`` without ``ts``), its mtime, and what it names."""

    path: str
    mtime: Instant
    stamp: Instant | None = None
    job_id: str | None = None
    run: str | None = None
    owner: str | None = None
    cadence_s: Seconds | None = None
    restart_count: int | None = None
    last_signal: str | None = None
    tunnel_session: str | None = None
    server_session: str | None = None
    mcp_url: str | None = None
    wandb: str | None = None
    """The address of the W&B run that it watches, by whichever of its usual names."""
    retired: str | None = None
    """The job that a relaunch has retired in this file (``retired_job_id``)."""
    behind: Seconds = 0.0
    """By how much its writer's clock is behind ours, where two writes have shown that."""
    compared: bool = False
    """Two writes have been seen: what lies between its stamp and its file's time is settled."""

    @property
    def doubtful(self) -> bool:
        """Tell whether its stamp is old or its writer's clock is behind: one write cannot tell."""
        late = 0.0 if self.stamp is None else self.mtime - self.stamp
        return not self.compared and late > BEHIND

    def after(self, former: StateRead | None) -> StateRead:
        """Return it with what the ``former`` reading of the same file shows of its writer's clock.

        Where ``ts`` has moved on by as much as the file's own time, it was written when the file
        was: what lies between the two is the clock. A file that was touched, or copied, with the
        ``ts`` that it had shows none.
        """
        if former is None or None in (self.stamp, former.stamp):
            return self
        moved, written = (self.stamp or 0.0) - (former.stamp or 0.0), self.mtime - former.mtime
        late = self.mtime - (self.stamp or 0.0)
        if not moved and not written:
            known = {"behind": former.behind, "compared": former.compared}
            return self.model_copy(update=known)
        live = moved > 0 and abs(moved - written) <= TOGETHER
        behind = late if live and late > BEHIND else 0.0
        return self.model_copy(update={"behind": behind, "compared": True})


def read_state(path: str) -> StateRead | Problem | None:
    """Return the file at ``path``, why it cannot be used, or ``None`` when it is gone."""
    try:
        with open_regular(path) as (fd, found):
            raw = os.read(fd, _SIZE)
    except FileNotFoundError:
        return None
    except PermissionError:
        return Problem(kind=ErrorKind.PERMISSION, message=f"{clean(path, 4096)}: permission denied")
    except OSError as error:
        return _bad(path, (error.strerror or "cannot be read").lower())
    return _parsed(path, raw, found.st_mtime)


def _parsed(path: str, raw: bytes, mtime: float) -> StateRead | Problem:
    if not raw.strip():
        return _bad(path, "is empty or only partly written")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return _bad(path, "is only partly written, or not JSON")
    if not isinstance(document, dict):
        return _bad(path, "is not a JSON object")
    if not _KNOWN & document.keys():
        return _bad(
            path, f"is not a monitor state file: it has none of {', '.join(sorted(_KNOWN))}"
        )
    for key, fits, expected in _FIELDS:
        value = document.get(key)
        if value is not None and not fits(value):
            return _bad(path, f"has {key} = {clean(json.dumps(value), 60)}; expected {expected}")
    return _state(path, mtime, document)


def _bad(path: str, what: str) -> Problem:
    return Problem(kind=ErrorKind.BAD_ANSWER, message=f"{clean(path, 4096)} {what}")


def _state(path: str, mtime: float, document: dict[str, Any]) -> StateRead:
    def text(key: str) -> str | None:
        value = document.get(key)
        plain = isinstance(value, str | int | float) and value != ""
        return scrub(clean(value)) if plain else None

    return StateRead(
        path=path,
        mtime=mtime,
        stamp=_instant(document.get("ts")),
        job_id=text("job_id"),
        run=text("run"),
        owner=text("owner"),
        cadence_s=document.get("cadence_s"),
        restart_count=document.get("restart_count"),
        last_signal=text("last_signal"),
        tunnel_session=text("tunnel_session"),
        server_session=text("server_session"),
        mcp_url=text("mcp_url"),
        wandb=next(filter(None, map(text, _WANDB)), None),
        retired=text("retired_job_id"),
    )


def _instant(value: object) -> float | None:
    """Return epoch seconds for milliseconds (IRIS), seconds or an ISO time with a zone."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return moment.timestamp() if moment.tzinfo is not None else None
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value <= 0:
        return None
    return value / 1000.0 if value >= _MILLISECONDS else float(value)


def _is_stamp(value: object) -> bool:
    try:
        return _instant(value) is not None
    except OverflowError:
        return False


def _is_name(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < 1e9


_WANDB: Final = ("wandb_url", "wandb_run_url", "wandb_link", "tracker_url", "wandb")
_KNOWN: Final = frozenset({*("ts", "job_id", "run", "owner", "restart_count"), "cadence_s"})
_FIELDS: Final[tuple[tuple[str, Callable[[object], bool], str], ...]] = (
    ("ts", _is_stamp, "a time in milliseconds"),
    ("job_id", _is_name, "a name"),
    ("restart_count", _is_count, "a count"),
    ("cadence_s", _is_seconds, "a number of seconds"),
)
