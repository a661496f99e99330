"""Where Python looks for modules: the cockpit's own folder and environment, not the person's.

Imports nothing but what every Python has loaded when it starts: before ``settle`` any other name
may be a file in the current folder or on ``PYTHONPATH``.
"""

from __future__ import annotations

import os
import sys

OWN = ("cockpit", "screens", "themes", "widgets")
NEEDED = ("httpx", "pydantic", "rich", "textual")
"""Libraries without which nothing works, by the names they are imported by."""
NEEDED_IN_PLACES = {
    "apprise": "apprise",
    "git": "GitPython",
    "plotext": "plotext",
    "shtab": "shtab",
    "wandb": "wandb",
}
"""Libraries that only some verbs use, with the names they are installed by (``Library``)."""
_PLACE = os.path.abspath(os.path.join(__file__, "..", "..", ".."))  # noqa: PTH100, PTH118 - above
_STARTERS = [os.path.join(_PLACE, name) for name in ("run_cockpit.py", "__init__.py")]  # noqa: PTH118
_STARTER = next(filter(os.path.exists, _STARTERS), _STARTERS[0])
INCOMPLETE = 2
"""Exit status of a program that cannot begin; 1 would be an alert."""


def own_python(module: str, *words: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules in a Python of its own.

    It looks where ``settle`` does; the environment, for whatever it starts in turn, is untouched.
    """
    return (sys.executable, "-E", "-P", _STARTER, "-m", module, *words)


class LibraryError(Exception):
    """A library that a verb needs cannot be imported; the message is one line with its remedy."""


class Library:
    """Turns a failed import into one line: ``with Library("plotext", "the chart"): import ...``.

    A library that is there and broken counts as missing; one that is not named above is an extra of
    ours, named like it. Raises ``LibraryError``.
    """

    def __init__(self, module: str, purpose: str) -> None:
        self._module = module
        self._purpose = purpose

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            name = NEEDED_IN_PLACES.get(self._module, self._module)
            package = NEEDED_IN_PLACES.get(self._module, f"'run-cockpit[{self._module}]'")
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise LibraryError(
                f"{self._purpose} needs {name}, which cannot be imported ({why}): "
                f"{sys.executable} -m pip install {package}"
            ) from error


def settle() -> None:
    """Import modules only from the library, from beside this program, and from its environment.

    Needed packages that are missing there may come from ``PYTHONPATH``, last: clusters' environment
    modules provide them so. Ends the program with one line if something is still missing.
    """
    python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    given = [os.path.abspath(each) for each in python_path if each]  # noqa: PTH100
    sys.path[:] = _cleaned(sys.path, given)
    if _missing((*NEEDED, *NEEDED_IN_PLACES)):
        sys.path.extend(each for each in given if each not in sys.path)
    lacks = [each for each in OWN if not os.path.isdir(os.path.join(_PLACE, each))]  # noqa: PTH112, PTH118
    lacks += _missing(NEEDED)
    if lacks:
        sys.stderr.write(
            f"cockpit: {', '.join(lacks)} cannot be found by {sys.executable}: install the cockpit "
            "again, whole (in a clone: make demo)\n"
        )
        raise SystemExit(INCOMPLETE)


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

    missing = []
    for name in names:
        try:
            found = find_spec(name) is not None
        except (ImportError, ValueError):  # a finder or a half-made module refuses it
            found = False
        if not found:
            missing.append(name)
    return missing
