"""Makes what the app is given: engine, store, services; imports late, for a fast start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile
from screens.acting.guarded import MakeService

if TYPE_CHECKING:
    from cockpit.actions.core.open_plans import OpenPlans
    from cockpit.actions.core.service import ActionService
    from cockpit.actions.telling.logbooks import Logbooks
    from cockpit.services.service import BackgroundServices
    from cockpit.watch.engine import Engine

Ring = Callable[[str], None]
Attend = Callable[[str, Ring], "BackgroundServices"]
"""Makes the background services for an operator; may import much, so it is called in a thread."""


class Making(NamedTuple):
    """Everything that an app on a run file is given; ``trouble`` is why nothing is remembered."""

    engine: Engine
    trouble: str
    service: MakeService
    attend: Attend | None
    version: Callable[[], int] | None = None
    """Changes whenever another process has written to the store; may block."""
    plans: OpenPlans | None = None


def make(file: CockpitFile, read_only: bool) -> Making:
    """Return what the app on a run file is given; one that only reads attends to nothing."""
    from cockpit.actions.core.open_plans import OpenPlans
    from cockpit.config.file import state_dir, store_path
    from cockpit.store.store import Store, StoreError
    from cockpit.watch.engine import Engine

    clock, trouble = SystemClock(), ""
    store: Store | None = None
    try:
        store = Store(store_path())
    except StoreError as error:
        trouble = f"nothing is remembered: {error}"
    engine = Engine(file, store=store, clock=clock)
    began = clock.now()

    def service(operator: str) -> ActionService:
        from cockpit.actions.core.wiring import build_service

        return build_service(
            lambda: engine.file, engine, store, clock, operator=operator, read_only=read_only
        )

    def attend(operator: str, ring: Ring) -> BackgroundServices:
        from cockpit.services.wiring import app_services

        return app_services(engine, store, clock, operator, ring, began)

    version = None if store is None else store.version
    plans = None if read_only else OpenPlans(state_dir() / "planning", file.path)
    return Making(engine, trouble, service, None if read_only else attend, version, plans)


def make_books() -> Logbooks:
    """Return what writes a person's own entries."""
    from cockpit.actions.telling.logbooks import Logbooks
    from cockpit.config.file import state_dir

    return Logbooks(SystemClock(), state_dir() / "drafts")
