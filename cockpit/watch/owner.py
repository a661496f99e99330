"""Who watches: this process as an owner, and the person behind it."""

from __future__ import annotations

import os
import socket

from cockpit.config.file import operator
from cockpit.model.run import CockpitFile
from cockpit.platforms.local.launcher.kernel import boot_id
from cockpit.runtime.login import login_name
from cockpit.runtime.process import process_facts
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.store import Store
from cockpit.store.turns import Turns

START_SLACK = 5.0


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
    """Return whether the very process that claimed is still alive (pids are reused).

    By its start in kernel ticks and the boot; only one that an older version has claimed, or
    that no kernel told of, is known by the clock, and then a start that fits it decides.
    """
    found, boot = process_facts(owner.pid), boot_id()
    if not found.alive or (None not in (owner.boot, boot) and owner.boot != boot):
        return False
    if owner.ticks is not None and found.ticks is not None:
        return owner.ticks == found.ticks
    if owner.started_at is None or found.started_at is None:
        return True
    return abs(found.started_at - owner.started_at) <= START_SLACK


def operator_name(file: CockpitFile) -> str:
    """Return who acts: the run file's operator, git's user.name, else the login name."""
    return operator(file) or login_name()
