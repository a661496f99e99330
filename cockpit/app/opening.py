"""Opens the app on a run file: makes engine, store and services, and returns the exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from cockpit.app.application import CockpitApp, Watching
from cockpit.app.frame_taking import FrameFile
from cockpit.app.kept_frame import Call, give_back
from cockpit.app.session_files import BookmarkFile, ViewFile
from cockpit.app.terminal import run_in_terminal
from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile
from cockpit.runtime.own_path import own_python
from cockpit.text.safe import Charset, given_variables, terminal_charset
from screens.acting.guarded import Means
from screens.keys import KeysError

if TYPE_CHECKING:
    from cockpit.actions.core.service import ActionService
    from cockpit.actions.telling.log_entry import Logbooks
    from cockpit.attach.client import AttachedEngine
    from cockpit.store.store import Opening


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
    from cockpit.store.store import Opening, Store, StoreError

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


def run_app(  # noqa: PLR0913 - what the verbs that open it say
    file: CockpitFile | None,
    engine: Watching | None = None,
    *,
    read_only: bool = False,
    present: bool = False,
    ascii: bool = False,  # noqa: A002
    run: str | None = None,
    opening: Opening | None = None,
    tour: bool = False,
) -> int:
    """Open the cockpit on a run file (``None``: the welcome) and return the exit status.

    Without an ``engine`` one is made, with the store, which ``opening`` has begun. ``run`` is
    opened at once. ``tour`` shows a newcomer five keys.
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
    if tour:
        from cockpit.app.tour import Tour

        app.tour = Tour()
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
