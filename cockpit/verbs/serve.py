"""``cockpit serve``: the read-only window, masked for sharing, in browsers on this machine."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from cockpit.config.quickstart import quick_imports
from cockpit.verbs.common import UsageError, helps, run_file, run_named, write

if TYPE_CHECKING:
    from cockpit.app.browser_server import Address

PORT = 8765
LEAST, MOST = (60, 20), (300, 100)
SHORTEST = 16
"""Characters that the token of a proxy must have."""


HELP = f"""
Shows the UI in browsers on this machine, as `cockpit --present` paints it: read-only, with hosts,
people and paths masked. Listens on 127.0.0.1 alone. A link opens once; the next one is printed when
it was used. All who look see the same screen, in the size of the window whose viewer did something
last, and any of them can turn its pages. Ends with ctrl+c, and everything with it.

run_name RUN: open this run's screen
--config
--port N: default: {PORT}; 0: a free one
--size COLSxROWS: keep so many columns and rows, which pages then scale; default: follow the window
--url URL: where an https proxy on this machine offers the page, to whom it has let in
--token-env NAME: variable with what that proxy sends as X-Cockpit-Token: with it no link is needed

example: cockpit serve hero-7b --port 8765 --url https://ops.example/cockpit/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``serve`` takes."""
    helps(
        parser,
        HELP,
        run_name={"nargs": "?"},
        port={"type": _port, "default": PORT},
        size={"type": _size},
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted; return the exit code."""
    file = run_file(args.config)
    if args.run_name is not None:
        run_named(file, args.run_name)
    with quick_imports():
        from cockpit.app.browser_app import serve_app
    address = _address(args.url, args.token_env)
    stream = sys.stdout  # while an app runs, Textual takes what is printed
    try:
        return serve_app(
            file,
            run=args.run_name,
            port=args.port,
            size=args.size,
            address=address,
            tell=lambda line: write(stream, f"{line}\n"),
        )
    except OSError as error:
        raise UsageError(
            f"cannot listen on 127.0.0.1 port {args.port}: {error.strerror or error}; "
            "--port N takes another, --port 0 a free one"
        ) from error


def _address(url: str | None, token_env: str | None) -> Address:
    from cockpit.app.browser_server import NOWHERE, address_of

    if url is None:
        if token_env is not None:
            raise UsageError("--token-env goes with --url")
        return NOWHERE
    token = os.environ.get(token_env, "") if token_env is not None else ""
    if token_env is not None and not re.fullmatch(rf"[!-~]{{{SHORTEST},}}", token):
        raise UsageError(
            f"--token-env: {token_env} has no token of {SHORTEST} characters or more that a header "
            "can carry; `openssl rand -hex 32` makes one"
        )
    try:
        return address_of(url, token)
    except ValueError as error:
        raise UsageError(f"--url {url!r}: {error}") from error


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
