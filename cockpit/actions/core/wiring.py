"""Puts the action service together: journal, platforms, guards, records, notifications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cockpit.actions.core.action import Dependencies
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.table import Actions
from cockpit.config.file import load
from cockpit.config.places import state_dir
from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.shared_facts import typist
from cockpit.platforms.base import Platform
from cockpit.runtime.account import login_name
from cockpit.store.journal import Journal
from cockpit.store.store import Store, run_key

if TYPE_CHECKING:
    from cockpit.records.issue.service import IssueService
    from cockpit.records.recorder import RecordWriter

LOOK_WITHIN = 20.0


class Looks(Protocol):
    """Whom an action asks how a run is, and which platform acts on it."""

    def platform_of(self, run: RunSpec) -> Platform | None:
        """Return the platform that acts on a run's job; ``None`` for a run without a job."""

    async def look(self, run: str, within: float) -> RunReport:
        """Return a run as it is now, with whatever has answered ``within`` seconds."""


def build_service(
    file: Callable[[], CockpitFile],
    looks: Looks,
    store: Store | None,
    clock: Clock,
    *,
    operator: str,
    read_only: bool = False,
    login: str | None = None,
) -> ActionService:
    """Return the service that acts on one run file; ``operator`` is who acts, in claims too.

    Beside that name always stands the account: the one that this process runs under, or
    ``login``, through which a person has answered from elsewhere.

    Imports here: what only acts need is not loaded for looking.
    """
    from cockpit.actions.core.whole import completed
    from cockpit.notify.notifier import Notifications
    from cockpit.records.lease.lease import Lease
    from cockpit.records.lease.seat import RefSeats, RootSeats

    async def look(run: str) -> RunReport:
        return await completed(await looks.look(run, LOOK_WITHIN), clock)

    login = login_name() if login is None else login

    def who() -> str:
        return typist(operator, login)

    parts = Dependencies(
        clock=clock,
        store=store,
        journal=None if store is None else Journal(store),
        platforms=looks.platform_of,
        guards=(
            Lease(clock, RootSeats(clock), who),
            Lease(clock, RefSeats(), who, needed=False),  # a remote may take no such refs
        ),
        recorder=build_records(file, store, clock)[0],
        notifier=lambda: Notifications(file(), store, clock, operator=operator),
        look=look,
        login=login,
        reread=lambda: load(Path(file().path)),
        drafts=state_dir() / "drafts",
    )
    return ActionService(file, parts, Actions(), read_only=read_only)


def build_records(
    file: Callable[[], CockpitFile], store: Store | None, clock: Clock
) -> tuple[RecordWriter, IssueService]:
    """Return what writes records, and what comments on issues."""
    from cockpit.records.git.saver import Saver
    from cockpit.records.issue.service import IssueService
    from cockpit.records.recorder import RecordWriter

    issues = IssueService(store, clock, key=lambda run: run_key(file().path, run.name))
    return RecordWriter(Saver(clock), issues), issues
