"""Remotes that let us wait in vain: remembered for a while, so that nobody waits for one twice.

It is noted beside the repository, where every cockpit of this machine reads it, and kept in this
process where it cannot be noted. A remote that answers is forgotten at once.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.wording import duration, moment
from cockpit.platforms.local.launcher.kernel import write_whole

NOTE: Final = "cockpit-silent.json"
SILENT_FOR: Final = 300.0
"""Seconds for which a remote that gave no answer is not asked again by itself."""
LONG: Final = 8.0
"""Seconds after which also a refusal counts as having let us wait in vain."""
MOST: Final = 65536


class Silence(NamedTuple):
    """Since when a remote does not answer, when it was asked last (epoch seconds), how patiently.

    Whoever has more patience than ``waited`` seconds may ask all the same: it may be just slow.
    """

    since: float
    asked: float
    waited: float

    @property
    def text(self) -> str:
        """One line: since when, and when it is asked again."""
        again = f"asked again after {duration(SILENT_FOR)}, or by retry"
        return f"no answer since {moment(self.since)}; {again}"


_here: dict[tuple[str, str], Silence] = {}


def silent(common: Path, remote: str, patience: float, now: float | None = None) -> Silence | None:
    """Return the silence of a remote that is not to be asked at this moment; blocking."""
    found = _all(common).get(remote)
    if found is None or patience > found.waited:
        return None
    passed = (time.time() if now is None else now) - found.asked
    return found if 0 <= passed < SILENT_FOR else None


def note(common: Path, remote: str, patience: float, *, answered: bool) -> None:
    """Remember how a remote behaved just now; blocking, never raises."""
    known = _all(common)
    former = known.pop(remote, None)
    if answered:
        _here.pop((str(common), remote), None)
        if former is not None:
            _write(common, known)
        return
    now = time.time()
    since = now if former is None else min(former.since, now)
    known[remote] = Silence(since, now, patience)
    _here[str(common), remote] = known[remote]
    _write(common, known)


def forget(common: Path) -> None:
    """Let every remote be asked again: a person wants to know now; blocking, never raises."""
    for key in [key for key in _here if key[0] == str(common)]:
        del _here[key]
    with suppress(OSError):
        (common / NOTE).unlink(missing_ok=True)


def _all(common: Path) -> dict[str, Silence]:
    known = {name: each for (place, name), each in _here.items() if place == str(common)}
    try:
        with (common / NOTE).open("rb") as file:
            said = json.loads(file.read(MOST))
        known |= {str(name): Silence(*map(float, each)) for name, each in said.items()}
    except FileNotFoundError:
        return {} if os.access(common, os.W_OK) else known  # another cockpit had an answer
    except (OSError, ValueError, TypeError, AttributeError, IndexError):
        return known
    return known


def _write(common: Path, known: dict[str, Silence]) -> None:
    place = common / NOTE
    fresh = place.with_name(f"{NOTE}.{os.getpid()}")
    with suppress(OSError):
        if not known:
            place.unlink(missing_ok=True)
            return
        write_whole(fresh, json.dumps(known))
        fresh.replace(place)
