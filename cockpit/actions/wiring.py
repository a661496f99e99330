"""Puts the desk together: journal, backends, guards, records, notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cockpit.actions.backend import Backend
from cockpit.actions.desk import Desk
from cockpit.actions.ground import Parts
from cockpit.actions.holder import lives, this_holder
from cockpit.actions.table import Actions
from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.store.journal import Journal
from cockpit.store.store import Store, run_key
from cockpit.watch.engine import Engine

if TYPE_CHECKING:
    from cockpit.actions.aftercare import Aftercare
    from cockpit.records.issue import IssueDesk
    from cockpit.records.recorder import RecordDesk

LOOK_WITHIN = 20.0


def build_desk(
    file: Callable[[], CockpitFile],
    engine: Engine,
    store: Store | None,
    clock: Clock,
    *,
    operator: str,
    read_only: bool = False,
) -> Desk:
    """Return the desk of one run file; ``operator`` names who acts in claims and messages.

    Imports here: what only acts need is not loaded for looking.
    """
    from cockpit.actions.root_claim import RootClaim
    from cockpit.records.lease_ref import LeaseRef
    from cockpit.watch.notifier import Notifications

    async def look(run: str) -> RunReport:
        return (await engine.check([run], LOOK_WITHIN)).runs[0]

    parts = Parts(
        clock=clock,
        store=store,
        journal=None if store is None else Journal(store),
        backends=_backends(clock),
        guards=(
            RootClaim(clock, lambda: operator),
            LeaseRef(clock, this_holder(), lambda: operator, lives),
        ),
        recorder=_records(file, store, clock)[0],
        notifier=lambda: Notifications(file(), store, clock, operator=operator),
        look=look,
    )
    return Desk(file, parts, Actions(), read_only=read_only)


def build_aftercare(
    engine: Engine, store: Store | None, clock: Clock, mine: Callable[[RunReport], bool]
) -> Aftercare:
    """Return what looks after launches and records; ``mine`` names the runs to write for."""
    from cockpit.actions.aftercare import Aftercare
    from cockpit.actions.following import Followups

    recorder, issues = _records(lambda: engine.file, store, clock)
    followups = None if store is None else Followups(store, clock, recorder)
    return Aftercare(engine, followups, recorder, issues, clock, mine)


def _records(
    file: Callable[[], CockpitFile], store: Store | None, clock: Clock
) -> tuple[RecordDesk, IssueDesk]:
    from cockpit.records.issue import IssueDesk
    from cockpit.records.recorder import RecordDesk
    from cockpit.records.saver import Saver

    issues = IssueDesk(store, clock, key=lambda run: run_key(file().path, run.name))
    return RecordDesk(Saver(clock), issues), issues


def _backends(clock: Clock) -> Callable[[RunSpec], Backend | None]:
    from cockpit.actions.local import LocalBackend

    by_kind: dict[str, Backend] = {"local": LocalBackend(clock)}
    return lambda run: None if run.job is None else by_kind.get(run.job.kind)
