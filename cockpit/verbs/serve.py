"""``cockpit serve``: the read-only window, masked for sharing, in browsers on this machine."""

from __future__ import annotations

import argparse
import re
import sys

from cockpit.config.quickstart import quick_imports
from cockpit.verbs.common import UsageError, helps, run_file, run_named, write

PORT = 8765
LEAST, MOST = (60, 20), (300, 100)


HELP = f"""
Shows the UI in browsers on this machine, as `cockpit --present` paints it: read-only, with hosts,
people and paths masked. Listens on 127.0.0.1 alone. A link opens once; the next one is printed when
it was used. All who look see the same screen, and any of them can turn its pages. Ends with ctrl+c,
and everything with it.

run_name RUN: open this run's screen
--config
--port N: default: {PORT}; 0: a free one
--size COLSxROWS: columns and rows of the screen (default: 120x40); the page scales it

example: cockpit serve hero-7b --port 8765 --size 120x40
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``serve`` takes."""
    helps(
        parser,
        HELP,
        run_name={"nargs": "?"},
        port={"type": _port, "default": PORT},
        size={"type": _size, "default": (120, 40)},
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted; return the exit code."""
    file = run_file(args.config)
    if args.run_name is not None:
        run_named(file, args.run_name)
    with quick_imports():
        from cockpit.app.browser_app import serve_app
    stream = sys.stdout  # while an app runs, Textual takes what is printed
    try:
        return serve_app(
            file,
            run=args.run_name,
            port=args.port,
            size=args.size,
            tell=lambda line: write(stream, f"{line}\n"),
        )
    except OSError as error:
        raise UsageError(
            f"cannot listen on 127.0.0.1 port {args.port}: {error.strerror or error}; "
            "--port N takes another, --port 0 a free one"
        ) from error


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a port, 0 to 65535")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,3})x([0-9]{1,3})", text)
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not (LEAST[0] <= size[0] <= MOST[0] and LEAST[1] <= size[1] <= MOST[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected columns x rows, 60x20 to 300x100, such as 120x40"
        )
    return size
