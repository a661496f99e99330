"""Pages that a person saves: files of their own, in a folder that nobody else can read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from cockpit.config.file import state_dir


def write_page(name: str, files: Mapping[str, str]) -> Path:
    """Write ``<name>.<ending>`` for each ending; return their path without it, raise ``OSError``.

    One of the same name, made before, is written anew.
    """
    folder = state_dir() / "pages"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    base = re.sub(r"[^\w.+-]", "_", name).lstrip(".") or "page"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    for ending, words in files.items():
        target = os.open(folder / f"{base}.{ending}", flags, 0o600)
        with os.fdopen(target, "w", encoding="utf-8") as file:
            file.write(words)
    return folder / base
