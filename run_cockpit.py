"""Starts the cockpit with its own packages, whatever folders Python was told to look into.

Training repositories export ``PYTHONPATH``, and ``widgets.py``, ``themes/`` or even ``cockpit.py``
lie in them: this name none of them has. ``run_cockpit.py -m MODULE`` runs one of its modules.
In the wheel this file is the package ``run_cockpit``, and all others lie below it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def settle() -> None:
    """Look for modules beside this file first, then only where the cockpit needs to."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - first
    from cockpit.runtime.own_path import settle as settle_path

    settle_path()


def start() -> None:
    """Do what the installed ``cockpit`` command does."""
    settle()
    from cockpit.__main__ import start as begin

    begin()


def _told_from_the_module_on(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback as ``python -m`` would, without what stands here."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def main() -> None:
    """Run a module of the cockpit's: ``-m MODULE [ARGUMENT ...]``; without one the cockpit."""
    if sys.argv[1:2] != ["-m"]:
        start()
        return
    settle()
    import runpy

    module = sys.argv[2]
    del sys.argv[1:3]
    sys.excepthook = _told_from_the_module_on
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
