"""Makes what the app is given: engine, store, services; imports late, for a fast start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cockpit.app.bookmark_file import BookmarkFile
from cockpit.app.view_file import ViewFile
from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile
from screens.acting.guarded import Means

if TYPE_CHECKING:
    from cockpit.actions.core.service import ActionService
    from cockpit.actions.telling.logbooks import Logbooks
    from cockpit.attach.client import AttachedEngine
    from cockpit.store.opening import Opening


class Making(NamedTuple):
    """Everything that an app on a run file is given; ``trouble`` is why nothing is remembered."""

    engine: AttachedEngine
    trouble: str
    means: Means
    views: ViewFile
    bookmarks: BookmarkFile


def make(file: CockpitFile, read_only: bool, opening: Opening | None = None) -> Making:
    """Return what the app on a run file is given; one that only reads attends to nothing.

    ``opening`` is its store, where that was begun before.
    """
    from cockpit.actions.core.open_plans import OpenPlans
    from cockpit.attach.client import AttachedEngine
    from cockpit.config.file import state_dir, store_path
    from cockpit.store.opening import Opening
    from cockpit.store.store import Store, StoreError

    clock, trouble = SystemClock(), ""
    store: Store | None = None
    try:
        store = (opening or Opening(store_path())).store()
    except StoreError as error:
        trouble = f"nothing is kept between sessions: {error}"
    engine = AttachedEngine(file, store, clock, attends=not read_only)

    def service(operator: str) -> ActionService:
        from cockpit.actions.core.wiring import build_service
        from cockpit.attach.acting import ActingLooks

        looks = ActingLooks(engine, store, clock)
        return build_service(
            lambda: engine.file, looks, store, clock, operator=operator, read_only=read_only
        )

    version = None if store is None else store.version
    plans = None if read_only else OpenPlans(state_dir() / "planning", file.path)

    def left() -> bool:
        from cockpit.store.journal import Journal

        noted = plans is not None and plans.any()
        return noted or (store is not None and Journal(store).any_unfinished())

    views = ViewFile(state_dir() / "views", file.path)
    bookmarks = BookmarkFile(state_dir() / "bookmarks", file.path)
    means = Means(service, make_books, version, plans, left)
    return Making(engine, trouble, means, views, bookmarks)


def make_books() -> Logbooks:
    """Return what writes a person's own entries."""
    from cockpit.actions.telling.logbooks import Logbooks
    from cockpit.config.file import state_dir

    return Logbooks(SystemClock(), state_dir() / "drafts")
