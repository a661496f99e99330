"""Opens the app on a run file, on this terminal, and gives back how it ended."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from cockpit.app.application import CockpitApp
from cockpit.app.frames.early import give_back
from cockpit.app.frames.kept import Call
from cockpit.app.frames.taking import FrameFile
from cockpit.app.making import make
from cockpit.app.terminal import run_in_terminal
from cockpit.model.run import CockpitFile
from cockpit.runtime.own_path import own_python
from cockpit.text.charset import Charset, given_variables, terminal_charset
from screens.keys import KeysError

if TYPE_CHECKING:
    from cockpit.app.watching import Watching
    from cockpit.store.opening import Opening

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
