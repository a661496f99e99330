"""What reading many present jobs' lines on ssh hosts needs, brought in one trip per host."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.hosts.script import run_script_blocking
from cockpit.model.facet import ErrorKind
from cockpit.model.logtext import LogMark
from cockpit.model.place import Place
from cockpit.sources.logs.hosts import HostAsk, Hosts
from cockpit.sources.logs.pieces import Answer, Told
from cockpit.sources.logs.present import wish
from cockpit.sources.logs.remote import HostError, remote_log


async def bring(logs: Mapping[str, tuple[Place, LogMark | None]]) -> dict[str, Told]:
    """Return what ``read_present`` is given of each log, by its name here; never raises.

    Whatever is left out is to be asked for by itself: one file that hangs costs the others nothing.
    """
    asks = {}
    for name, (place, mark) in logs.items():
        log = remote_log(place)
        asks[name] = HostAsk(place.host, log.asking(wish(log, mark)))
    told = await Hosts(run_script_blocking).bring(asks)
    return {name: each for name, each in told.items() if _final(each)}


def _final(told: Told) -> bool:
    """Tell whether asking for that log alone would bring no more."""
    gone = isinstance(told, HostError) and told.kind is not ErrorKind.TIMEOUT
    return gone or isinstance(told, Answer | FileNotFoundError | PermissionError)
