"""What ``doctor`` says of a cluster: its version, whether it answers, accounting, its clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Final

from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.slurm.ask import Run, parts
from cockpit.platforms.slurm.jobs import where_of
from cockpit.platforms.slurm.script import checkup_script, new_mark
from cockpit.platforms.slurm.trouble import Trouble, last_words, trouble_of
from cockpit.text.safe import clean

SKEW: Final = 5.0
_UP: Final = re.compile(r"^Slurmctld\([^)]*\) .*\bis UP", re.M)
_ACCOUNTING: Final = re.compile(r"^AccountingStorageType\s*=\s*(.*)$", re.M)


async def checkup(
    run: Run, host: str | None, wall: Callable[[], float] = time.time
) -> list[EndpointFinding]:
    """Return what is found at one cluster, asked once; never raises."""
    where, mark = where_of(host), new_mark()
    found = await parts(run, host, where, mark, checkup_script(mark))
    if isinstance(found, Trouble):
        return [_bad(where, found)]
    return list(_findings(where, found, wall()))


def _findings(where: str, found: dict[str, str], now: float) -> Iterator[EndpointFinding]:
    version, ping = found.get("version", ""), found.get("ping", "")
    if not version.startswith("slurm"):
        yield _bad(where, trouble_of(where, version or ping, 127))
        return
    if not _UP.search(ping):
        yield _bad(where, trouble_of(where, _down(ping), 1))
        return
    yield EndpointFinding(endpoint=where, text=f"{clean(version, 60)}; {last_words(ping)}")
    accounting = _ACCOUNTING.search(found.get("config", ""))
    if accounting is not None and accounting[1].strip() in (
        "accounting_storage/none",
        "(null)",
        "",
    ):
        text = "accounting is off: how a job ended is known only while the controller remembers it"
        remedy = "keep a watch running over the ends of jobs; ask who runs the cluster for slurmdbd"
        yield EndpointFinding(endpoint=where, text=text, remedy=remedy)
    date = found.get("date", "").strip()
    off = now - float(date) if date.isdecimal() else 0.0
    if abs(off) > SKEW:
        text = f"its clock is {abs(off):.0f} s {'behind' if off > 0 else 'ahead of'} ours"
        remedy = "set the clocks by NTP; until then its times are moved onto ours"
        yield EndpointFinding(endpoint=where, text=text, remedy=remedy)


def _down(ping: str) -> str:
    """Return the words for a controller that ``scontrol ping`` calls down."""
    return f"Unable to contact slurm controller: {ping.strip()}" if "DOWN" in ping else ping


def _bad(where: str, trouble: Trouble) -> EndpointFinding:
    text, _, advice = trouble.text.rpartition("; ")
    if trouble.remedy or not text:
        text, advice = trouble.text, trouble.remedy
    return EndpointFinding(endpoint=where, text=text, remedy=advice or "see what it says")
