"""Opens the app on a run file: makes engine, store and services, and returns the exit status.

Also what the app starts beside an engine: the search for what a first run file can be made from,
and a backtest in a process of its own, which ends with its screen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from cockpit.app.application import CockpitApp, Watching
from cockpit.app.frame_taking import FrameFile
from cockpit.app.kept_frame import Call, give_back
from cockpit.app.session_files import BookmarkFile, ViewFile
from cockpit.app.terminal import run_in_terminal
from cockpit.config.file import config_dir
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.history import Backtested
from cockpit.model.run import CockpitFile
from cockpit.runtime.offload import offload
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import run_command
from cockpit.text.safe import Charset, clean, given_variables, terminal_charset
from screens.acting.guarded import Means
from screens.keys import KeysError
from screens.welcome import Around

if TYPE_CHECKING:
    from cockpit.actions.core.service import ActionService
    from cockpit.actions.telling.log_entry import Logbooks
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
    from cockpit.actions.telling.log_entry import Logbooks
    from cockpit.config.file import state_dir

    return Logbooks(SystemClock(), state_dir() / "drafts")


CONFIG: Final = 2


def run_app(
    file: CockpitFile | None,
    engine: Watching | None = None,
    *,
    read_only: bool = False,
    present: bool = False,
    ascii: bool = False,  # noqa: A002
    run: str | None = None,
    opening: Opening | None = None,
) -> int:
    """Open the cockpit on a run file (``None``: the welcome) and return the exit status.

    Without an ``engine`` one is made, with the store, which ``opening`` has begun. ``run`` is
    opened at once.
    """
    trouble = ""
    means, views, bookmarks, frames, made = None, None, None, None, None
    if file is not None and engine is None:
        frames = FrameFile(file.path, Call(None, read_only, present, ascii))
        made = make(file, read_only or present, opening)
        engine, trouble = made.engine, made.trouble
        means = made.means
        views, bookmarks = (None, None) if present else (made.views, made.bookmarks)
    try:
        app = CockpitApp(
            file, engine, read_only=read_only, present=present, ascii=ascii, run=run, means=means,
            views=views, bookmarks=bookmarks, frames=frames,
        )  # fmt: skip
    except KeysError as error:
        give_back()
        path = file.path if file is not None else "cockpit.toml"
        sys.stderr.writelines(f"{path}: {problem}\n" for problem in error.problems)
        return CONFIG
    if made is not None:
        made.engine.first_frame = app.laid_out
    app.trouble = trouble
    if app.charset is Charset.UNICODE:
        app.charset = terminal_charset()
    code = run_in_terminal(app, mouse=app.file.ui.mouse)
    if app.return_value:
        _go_on(app.return_value)
    return code


def _go_on(wanted: str) -> None:
    """Become what a person chose in the welcome: the demo, or a first run file."""
    from screens.welcome import DEMO, INIT

    if wanted == DEMO:
        os.execve(sys.executable, own_python("cockpit", "demo"), given_variables())
    if wanted.startswith(INIT):
        what = wanted.removeprefix(INIT)
        os.execve(sys.executable, own_python("cockpit", "init", "--", what), given_variables())


LOOKED_WITHIN: Final = 10.0
"""Seconds that the folder has to answer."""


def config_place() -> str:
    """Return the user's config folder as a person reads it."""
    place, home = str(config_dir()), str(Path.home())
    return f"~{place[len(home) :]}" if place.startswith(f"{home}/") else place


async def look_around(folder: Path, clock: Clock) -> AsyncIterator[Around]:
    """Yield what lies in a folder, then this user's jobs of each system at hand; never raises.

    What does not answer is reported as that, not as nothing.
    """
    # behind the first paint: the platforms are many
    from cockpit.init.sources import SourceError, at_hand, here, listed, own_jobs

    try:
        found = await offload(lambda: list(here(folder)), deadline=LOOKED_WITHIN)
        yield Around(tuple((each.what, each.text) for each in found))
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "did not answer"
        yield Around((), f"this folder: {str(why).lower()}")
    for job in at_hand():
        try:
            jobs = listed(job, await own_jobs(job, clock))
            yield Around(tuple((each.what, each.text) for each in jobs))
        except SourceError as error:
            said = str(error)
            yield Around((), said if said.startswith(job.kind) else f"{job.kind}: {said}")


WITHIN: Final = 120.0
"""Seconds that it may take: a million rows take about ten."""
MOST: Final = 16_000_000
"""Bytes that it may tell: some ten thousand alerts."""


async def replayed(run_file: str, run: str) -> Backtested:
    """Return which alerts the rules would have opened; raises ``OSError`` of one line.

    Cancelled, the process is killed: neither reading nor judging is done in this one.
    """
    words = ("backtest", run, "--config", run_file, "--json", "--curve")
    done = await run_command(own_python("cockpit", *words), deadline=WITHIN, cap=MOST)
    if done.timed_out:
        raise OSError(0, f"it did not end within {WITHIN:.0f} s: cockpit backtest {clean(run)}")
    if not done.ok or done.cut:
        said = clean(done.err.decode("utf-8", "replace").strip().rpartition("\n")[2], 400)
        raise OSError(0, said or f"cockpit backtest {clean(run)} ended with {done.rc}")
    try:
        return Backtested.model_validate_json(done.out)
    except ValidationError as error:
        raise OSError(0, "cockpit backtest printed something of an unexpected shape") from error
