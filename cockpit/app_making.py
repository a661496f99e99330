"""What the app stands on: engine, store, desk and logbooks; imports here, for a fast start."""

from __future__ import annotations

from cockpit.app_actions import MakeDesk
from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile
from screens.ports import ActionDesk, LogbookDesk, WatchEngine


def make_engine(file: CockpitFile, read_only: bool) -> tuple[WatchEngine, str, MakeDesk]:
    """Return an engine, what is to be told if it does without its store, and who makes the desk."""
    from cockpit.config import store_path
    from cockpit.store.store import Store, StoreError
    from cockpit.watch.engine import Engine

    clock, trouble = SystemClock(), ""
    store: Store | None = None
    try:
        store = Store(store_path())
    except StoreError as error:
        trouble = f"nothing is remembered: {error}"
    engine = Engine(file, store=store, clock=clock)

    def desk(operator: str) -> ActionDesk:
        from cockpit.actions.wiring import build_desk

        return build_desk(
            lambda: engine.file, engine, store, clock, operator=operator, read_only=read_only
        )

    return engine, trouble, desk


def make_books() -> LogbookDesk:
    """Return what writes a person's own entries."""
    from cockpit.actions.logbook_desk import Logbooks
    from cockpit.config import state_dir

    return Logbooks(SystemClock(), state_dir() / "drafts")
