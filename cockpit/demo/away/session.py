"""One demo on another system from beginning to end; nothing of it is left there, nor here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cockpit.demo import folder
from cockpit.demo.away.fleet import AwayFleet, situations_of
from cockpit.demo.away.journal import Journal
from cockpit.demo.away.run_file import run_file
from cockpit.demo.away.site import Site
from cockpit.demo.layout import DemoLayout
from cockpit.demo.session import allow_entries, conducted, forget
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.local.launcher.stopping import stop
from cockpit.runtime.account import login_name

PATIENCE: Final = 90.0
"""Seconds within which all jobs must have ended once they were told to."""
SETTLE: Final = 5.0
"""Seconds in which a job shows up that was being submitted when its demo died."""
MONITORS: Final = 5.0
"""Seconds that the monitors here have to leave."""


class LeftError(Exception):
    """Something of a demo could not be removed; the text is one line, and says what."""


def prepare(layout: DemoLayout, site: Site) -> Journal:
    """Return the journal of a demo that can be run: a kept one that still lives, else a new one.

    What an earlier demo left goes first, but for one that was kept elsewhere. Raises
    ``FolderError``, ``CannotError``, ``LostError``, ``LeftError``, ``JournalError``. The lock is
    held.
    """
    former = Journal.read(layout)
    if former is not None and _goes_on(former, site):
        return former
    if layout.kept.exists() and _lives_elsewhere(layout, former, site):
        text = f"{layout.folder} is of a demo that was kept {_where(former)}"
        raise folder.FolderError(f"{text}: remove that one with --clean, or name another --dir")
    if former is not None:
        _take_away(former)
    stop(layout.living, MONITORS)
    forget(layout)
    folder.empty(layout)
    allow_entries(layout)
    return _built(Journal.begin(layout, site))


def _goes_on(journal: Journal, site: Site) -> bool:
    """Tell whether a kept demo on the same system still runs there."""
    kept = journal.layout.kept.exists() and journal.ground is not None
    same = (journal.site.kind, journal.site.settings) == (site.kind, site.settings)
    return kept and same and bool(site.living(journal.token))


def _lives_elsewhere(layout: DemoLayout, former: Journal | None, site: Site) -> bool:
    """Tell whether a kept demo still runs somewhere else than where this one is to run."""
    if former is None:
        return bool(layout.living())
    same = (former.site.kind, former.site.where) == (site.kind, site.where)
    return not same and bool(former.site.living(former.token))


def _where(former: Journal | None) -> str:
    return "here" if former is None else f"on {former.site.where}"


def _built(journal: Journal) -> Journal:
    """Make everything but the jobs."""
    layout = journal.layout
    try:
        ground = journal.site.look(layout, journal.token)
    except CannotError:
        folder.remove(layout)
        raise
    journal.found(ground)
    situations = situations_of(journal)
    folder.build_runs(layout, situations)
    text = run_file(journal, ground, login_name(), situations)
    layout.run_file.write_text(text, encoding="utf-8")
    try:
        journal.site.ship(layout, ground, situations)
    except CannotError:
        remove(layout)
        raise
    return journal


@contextmanager
def running(journal: Journal, *, keep: bool) -> Iterator[AwayFleet]:
    """Submit the fleet in the background; on leaving, however it comes, remove it unless ``keep``.

    Raises ``LeftError`` when something could not be removed.
    """
    layout = journal.layout
    fleet = AwayFleet(journal, situations_of(journal))
    try:
        with conducted(layout, fleet, keep=keep, patience=MONITORS):
            yield fleet
    finally:
        if not keep:
            remove(layout)


def remove(layout: DemoLayout) -> None:
    """Stop and remove everything, there and here. The folder is ours and the lock is held.

    Raises ``LeftError`` (the folder here stays, so that it can be tried again), ``JournalError``.
    """
    journal = Journal.read(layout)
    if journal is not None:
        _take_away(journal)
    stop(layout.living, MONITORS)
    forget(layout)
    folder.remove(layout)


def _take_away(journal: Journal) -> None:
    """Stop every job of a demo and remove what lies there; raises ``LeftError``."""
    site, token = journal.site, journal.token
    try:
        left = site.stop_all(token, PATIENCE)
        if journal.doubtful and not left:
            time.sleep(SETTLE)
            left = site.stop_all(token, PATIENCE)
        if left:
            raise CannotError(f"{site.where}: {', '.join(left)} still there {PATIENCE:.0f} s later")
        site.forget(token)
        if journal.ground is not None:
            site.clear(journal.ground)
    except (CannotError, LostError) as error:
        again = f"`cockpit demo --clean --dir {journal.layout.folder}` tries again"
        text = f"{error}; not all of the demo is removed: {again}"
        raise LeftError(text) from None
