"""Starts the cockpit with its own packages, whatever folders Python was told to look into.

Training repositories export ``PYTHONPATH``, and ``widgets.py``, ``themes/`` or even ``cockpit.py``
lie in them: this name none of them has. ``run_cockpit.py -m MODULE`` runs one of its modules.
"""

from __future__ import annotations

import os
import sys


def _settle() -> None:
    """Find the cockpit beside this file, then only what it needs."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - first
    from cockpit.runtime.own_path import settle

    settle()


def start() -> None:
    """Do what the installed ``cockpit`` command does."""
    _settle()
    from cockpit.__main__ import start as begin

    begin()


def main() -> None:
    """Run a module of the cockpit's: ``-m MODULE [ARGUMENT ...]``; without one the cockpit."""
    if sys.argv[1:2] != ["-m"]:
        start()
        return
    _settle()
    import runpy

    module = sys.argv[2]
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
