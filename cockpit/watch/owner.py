"""Who watches: this process as an owner, and the person behind it."""

from __future__ import annotations

import os
import socket

from cockpit.config.file import operator
from cockpit.model.run import CockpitFile
from cockpit.platforms.local.launcher.kernel import boot_id
from cockpit.runtime import incarnation
from cockpit.runtime.incarnation import Start
from cockpit.runtime.login import login_name
from cockpit.runtime.process import process_facts
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.store import Store


def ownership_of(store: Store | None) -> Ownership | None:
    """Return the ownership that a store keeps, as seen from this machine."""
    return None if store is None else Ownership(store, socket.gethostname(), same_process)


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


def operator_name(file: CockpitFile) -> str:
    """Return who acts: the run file's operator, git's user.name, else the login name."""
    return operator(file) or login_name()
