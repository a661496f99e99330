"""``cockpit schema``: the run file's JSON Schema, so that editors complete and check it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from cockpit.app.for_verbs import key_actions, theme_names
from cockpit.config.file import state_dir
from cockpit.config.schema import schema
from cockpit.hosts.own_folder import put_whole
from cockpit.verbs.common import OK, document_text, print_document

EXAMPLE: Final = "example: cockpit schema > cockpit.schema.json"
FILE: Final = "cockpit.schema.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``schema`` takes."""
    parser.description = (
        "Prints the JSON Schema (draft 7) of cockpit.toml. Taplo, Even Better TOML and other "
        "editors read it where the first line of the file is `#:schema PATH`, as `cockpit init` "
        "writes it; it works offline."
    )
    parser.epilog = EXAMPLE


def run(args: argparse.Namespace) -> int:
    """Print it; return 0."""
    print_document(run_file_schema())
    return OK


def run_file_schema() -> dict[str, Any]:
    """Return the document, with this version's keys and themes."""
    return schema(key_actions(), theme_names())


def keep_schema() -> Path:
    """Return the file in the user's state folder that holds this version's; raises ``OSError``.

    It lies there and not beside a run file: a new file in a training repository is a change.
    """
    path, text = state_dir() / FILE, document_text(run_file_schema()) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists() or path.read_text("utf-8", "replace") != text:
        put_whole(path, text)
    return path
