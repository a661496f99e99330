"""Who watches: this process as an owner, and the person behind it."""

from __future__ import annotations

import os
import socket

from cockpit.config.file import operator
from cockpit.model.run import CockpitFile
from cockpit.runtime.login import login_name
from cockpit.runtime.process import process_facts
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.store import Store

START_SLACK = 5.0


def ownership_of(store: Store | None) -> Ownership | None:
    """Return the ownership that a store keeps, as seen from this machine."""
    return None if store is None else Ownership(store, socket.gethostname(), same_process)


def this_process(name: str) -> Owner:
    """Return this process as an owner of runs."""
    pid = os.getpid()
    started = process_facts(pid).started_at
    return Owner(name=name, host=socket.gethostname(), pid=pid, started_at=started)


def same_process(pid: int, started_at: float | None) -> bool:
    """Return whether the very process that claimed is still alive (pids are reused)."""
    found = process_facts(pid)
    if not found.alive or started_at is None or found.started_at is None:
        return found.alive
    return abs(found.started_at - started_at) <= START_SLACK


def operator_name(file: CockpitFile) -> str:
    """Return who acts: the run file's operator, git's user.name, else the login name."""
    return operator(file) or login_name()
