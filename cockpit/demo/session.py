"""One demo from beginning to end: a folder of its own, the fleet in it, nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeVar

from cockpit.config.file import store_path
from cockpit.demo import folder
from cockpit.demo.fleet import DemoFleet
from cockpit.demo.guard import PATIENCE, DemoGuard
from cockpit.demo.layout import DemoLayout
from cockpit.model.clock import SystemClock
from cockpit.platforms.local.launcher.stopping import stop
from cockpit.store.agents import AUTOLOG, Consent, Consents
from cockpit.store.opening import open_within
from cockpit.store.store import StoreError

F = TypeVar("F", bound=DemoFleet)


def prepare(layout: DemoLayout) -> bool:
    """Make the folder ready; return True if a kept fleet still runs there and is taken up again.

    Otherwise what an earlier demo left (files, processes, what is remembered of its runs) goes
    and everything is built anew. The lock is held.
    """
    if layout.kept.exists() and layout.living():
        return True
    stop(layout.living, PATIENCE)
    forget(layout)
    folder.empty(layout)
    folder.build(layout)
    allow_entries(layout)
    return False


def running(
    layout: DemoLayout, *, keep: bool, patience: float = PATIENCE
) -> AbstractContextManager[DemoFleet]:
    """Run the fleet in the background; on leaving, however it comes, stop it unless ``keep``.

    Stopping gives the runs ``patience`` seconds to save a checkpoint and leave by themselves.
    """
    return conducted(layout, DemoFleet(layout), keep=keep, patience=patience)


@contextmanager
def conducted(layout: DemoLayout, fleet: F, *, keep: bool, patience: float) -> Iterator[F]:
    """Run a fleet under a guard that stops what it has started here, whatever ends us."""
    layout.kept.unlink(missing_ok=True)
    guard = DemoGuard(layout)
    try:
        fleet.begin()
        yield fleet
    finally:
        fleet.leave()
        if keep:
            layout.kept.touch()
        guard.release(keep=keep, patience=patience)
        if not keep:
            fleet.reap()


def remove(layout: DemoLayout) -> None:
    """Stop and remove everything. The folder is ours and the lock is held."""
    stop(layout.living, PATIENCE)
    forget(layout)
    folder.remove(layout)


def allow_entries(layout: DemoLayout) -> None:
    """Allow the cockpit to write into the demo's own logbooks: they are there to show that."""
    try:
        store = open_within(store_path())
    except StoreError:
        return
    with suppress(StoreError):
        who = Consent(who="demo", at=SystemClock().now())
        Consents(store).give(str(layout.run_file), AUTOLOG, who)
    store.close()


def forget(layout: DemoLayout) -> None:
    """Delete what the store remembers of these runs: the next ones are others."""
    path = store_path()
    if not path.exists():
        return
    try:
        store = open_within(path)
    except StoreError:
        return  # whoever uses the store next says what is wrong with it
    store.forget(str(layout.run_file))
    store.close()
