"""``python -m cockpit``, and the installed ``cockpit`` command."""

from __future__ import annotations

import gc
import os
import sys

from cockpit.runtime.own_path import settle

TYPE_CHECKING = False  # importing it would be the first look into a person's folders
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def start() -> NoReturn:
    """Load the command line, run it and leave with its exit code, at once."""
    settle()
    if sys.argv[1:3] == ["completions", "--values"]:  # at every Tab: nothing heavy is loaded
        from cockpit.verbs.completing import print_values

        leave(print_values(sys.argv[3:]))
    if sys.argv[1:] == ["--version"]:
        from cockpit import version_text

        sys.stdout.write(f"{version_text()}\n")
        leave(0)
    try:
        opens = sys.argv[1:2] == ["open"] or not sys.argv[1:2] or sys.argv[1].startswith("-")
        leave(_open(sys.argv[1:]) if opens else _main())
    except KeyboardInterrupt:
        leave(INTERRUPTED)


def _open(arguments: list[str]) -> int:
    """Paint what was kept of the last time, then load the program; give the terminal back whole.

    Until something is painted nothing is worth looking for what could be freed.
    """
    gc.disable()
    from cockpit.app.kept_frame import give_back, show

    try:
        show(arguments)
        return _main()
    finally:
        give_back()


def _main() -> int:
    from cockpit.config.quickstart import quick_imports

    with quick_imports():
        from cockpit.cli import main
    return main()


def leave(code: int) -> NoReturn:
    """End the process with ``code``, or with 1 if that is 0 but the output cannot be written.

    Everything that must be put down has been by then; taking the interpreter apart as well
    would only keep the person waiting, and a source that hangs could keep them longer.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a closed one is None
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    if "cockpit.runtime.shell" in sys.modules:
        from cockpit.runtime.shell import end_reading

        end_reading()
    os._exit(code)


if __name__ == "__main__":
    start()
