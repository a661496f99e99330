"""A Python that cannot start some of its threads, as on a host at its limit of them."""

from __future__ import annotations

import sys
from pathlib import Path

_PYTHON = """\
#!{python}
import sys, threading, time
start = threading.Thread.start
def limited(thread):
    calls = [each["call"] for each in thread._args if isinstance(each, dict)]
    if {refused!r} in (thread._target.__name__, *calls):
        if {hangs}:
            time.sleep(600)
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = limited
at = sys.argv.index("-uc")
code, sys.argv = sys.argv[at + 1], ["-c", *sys.argv[at + 2 :]]
exec(code)
"""


def python_without_threads(folder: Path, refused: str, *, hangs: bool = False) -> str:
    """Return a Python for an agent: no thread runs the function, or the call, ``refused``.

    Whoever starts one meets an error, or waits for good where it ``hangs``.
    """
    path = folder / "python3"
    path.write_text(_PYTHON.format(python=sys.executable, refused=refused, hangs=hangs))
    path.chmod(0o755)
    return str(path)
