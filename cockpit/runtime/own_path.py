"""Where Python looks for modules: the cockpit's own folder and environment, not the person's.

Imports nothing but what every Python has loaded when it starts: before ``settle`` any other name
may be a file in the current folder or on ``PYTHONPATH``.
"""

from __future__ import annotations

import os
import sys

OWN = ("cockpit", "screens", "themes", "widgets")
NEEDED = ("apprise", "git", "httpx", "plotext", "pydantic", "rich", "textual", "wandb")
"""What the program imports of others, by the names they are imported by."""
_PLACE = os.path.abspath(os.path.join(__file__, "..", "..", ".."))  # noqa: PTH100, PTH118 - above
_STARTER = os.path.join(_PLACE, "run_cockpit.py")  # noqa: PTH118
INCOMPLETE = 2
"""Exit status of a program that cannot begin; 1 would be an alert."""


def own_python(module: str, *words: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules in a Python of its own.

    It looks where ``settle`` does; the environment, for whatever it starts in turn, is untouched.
    """
    return (sys.executable, "-E", "-P", _STARTER, "-m", module, *words)


def settle() -> None:
    """Look for modules in the library, beside this program, and in its environment alone.

    What it needs and is not there may come from ``PYTHONPATH``, last: so do clusters' environment
    modules bring packages. Ends the program with one line if it is nowhere, or not whole.
    """
    given = [os.path.abspath(each) for each in _given()]  # noqa: PTH100
    sys.path[:] = _cleaned(sys.path, given)
    if _missing(NEEDED):
        sys.path.extend(each for each in given if each not in sys.path)
    lacks = [each for each in OWN if not os.path.isdir(os.path.join(_PLACE, each))]  # noqa: PTH112, PTH118
    lacks += _missing(NEEDED)
    if lacks:
        sys.stderr.write(
            f"cockpit: {', '.join(lacks)} cannot be found by {sys.executable}: install the cockpit "
            "again, whole (in a clone: make demo)\n"
        )
        raise SystemExit(INCOMPLETE)


def _given() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def _cleaned(paths: list[str], given: list[str]) -> list[str]:
    """Return the paths without those that a person gave, our own behind the library's."""
    here = [] if sys.flags.safe_path else paths[:1]
    kept = [
        each
        for place, each in enumerate(paths)
        if os.path.abspath(each) not in (_PLACE, *given) and not (place == 0 and here)  # noqa: PTH100
    ]
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    ends = (library, os.path.join(library, "lib-dynload"))  # noqa: PTH118
    behind = max((n + 1 for n, each in enumerate(kept) if each in ends), default=0)
    return [*kept[:behind], _PLACE, *kept[behind:]]


def _missing(names: tuple[str, ...]) -> list[str]:
    from importlib.util import find_spec  # frozen into the interpreter, as os is

    return [each for each in names if find_spec(each) is None]
