"""Who watches: this process as an owner."""

from __future__ import annotations

import os
import socket

from cockpit.platforms.local.launcher.kernel import boot_id
from cockpit.runtime import incarnation
from cockpit.runtime.incarnation import Start
from cockpit.runtime.process import process_facts
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.store import Store
from cockpit.store.turns import Turns


def ownership_of(store: Store | None) -> Ownership | None:
    """Return the ownership that a store keeps, as seen from this machine."""
    return None if store is None else Ownership(store, socket.gethostname(), same_process)


def turns_of(store: Store | None) -> Turns | None:
    """Return the turns that a store keeps, as this process takes them."""
    if store is None or store.read_only:
        return None
    me = this_process("")

    def died(claimant: Owner) -> bool:
        return claimant.host == me.host and not same_process(claimant)

    return Turns(store, me, died)


def this_process(name: str) -> Owner:
    """Return this process as an owner of runs."""
    facts = process_facts(os.getpid())
    return Owner(
        name=name,
        host=socket.gethostname(),
        pid=facts.pid,
        started_at=facts.started_at,
        ticks=facts.ticks,
        boot=boot_id(),
    )


def same_process(owner: Owner) -> bool:
    """Return whether the very process that claimed on this host is still alive."""
    place = incarnation.here()._replace(boot=owner.boot, space=None)
    return bool(incarnation.lives(owner.pid, place, Start(owner.ticks, owner.started_at)))
