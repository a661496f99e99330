"""How a store is kept, in words: file system, journal, who has it or had it last (``doctor``)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cockpit.model.wording import moment
from cockpit.runtime.mounts import file_system
from cockpit.store.opening import open_within
from cockpit.store.shared_file import followed, is_shared, locks_of
from cockpit.store.shared_lock import SharedLock


def described(path: Path) -> str:
    """Open the store for writing and return how it is kept; raises ``StoreError``."""
    store = open_within(path)
    try:
        with store.writing() as connection:
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            lost = connection.execute("SELECT max(at) FROM begun_anew").fetchone()[0]
            if lost is not None:
                return f"{path} can be written, but {loss_text(lost)}"
            return f"{path} can be written: {_system(followed(path))}; journal {mode}"
    finally:
        store.close()


def loss_text(at: float) -> str:
    """Return what it means that a store was deleted while a cockpit was using it."""
    return (
        f"it was deleted while a cockpit was running and begun anew at {moment(at)}: "
        "actions, acknowledgements and consents from before are not known any more"
    )


def last_holder(path: Path) -> str | None:
    """Return who of all machines has or had the lock of a shared store; ``None`` for another."""
    real = followed(path)
    if not locks_of(real).is_dir():
        return None
    with suppress(OSError):
        found = SharedLock(locks_of(real), real.name).look()
        if found.said is not None:
            return f"{'held' if found.held else 'last held'} by {found.said.holder.label}"
    return "by whom it was last held cannot be read"


def _system(real: Path) -> str:
    found = file_system(real.parent)
    if not is_shared(real, found):
        return found.text
    why = "" if found.shared is not False else " that others mount, by the folder beside it"
    return f"{found.text}{why}; locked for several machines in {locks_of(real).name}"
