"""Make what the documents repeat of the code: verbs, exit codes, keys, settings, ``man cockpit``.

``main`` writes it anew (``make docs``); a test holds what lies here to what the code says now.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file that is made, or has made parts, with its text as it shall be."""
    from cockpit import __version__
    from cockpit.cli import all_verbs
    from cockpit.model.check_rows import table as checks
    from cockpit.model.conditions import table
    from cockpit.verbs.schema import run_file_schema
    from docs.reference import (
        described,
        exit_codes,
        key_table,
        manual,
        overview,
        sections,
        settings,
    )

    pages = described(all_verbs())
    yield HERE / "cockpit.1", manual(pages, __version__)
    parts = {"verbs": overview(pages), "exit codes": exit_codes(), "calls": sections(pages)}
    yield HERE / "verbs.md", _filled(HERE / "verbs.md", parts)
    yield HERE / "keys.md", _filled(HERE / "keys.md", {"keys": key_table()})
    yield HERE / "CONDITIONS.md", _filled(HERE / "CONDITIONS.md", {"conditions": table()})
    yield HERE / "checks.md", _filled(HERE / "checks.md", {"checks": checks()})
    parts = {"settings": settings(run_file_schema())}
    yield HERE / "run-file.md", _filled(HERE / "run-file.md", parts)


def _filled(path: Path, parts: dict[str, str]) -> str:
    """Return a document with each part between its marks; raises ``ValueError`` without them."""
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        mark = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.S)
        found = mark.search(text)
        if found is None:
            raise ValueError(f"{path.name} has no place for {name}")
        text = f"{text[: found.end(1)]}\n{part}\n\n{text[found.start(2) :]}"
    return text


def main() -> None:
    """Write what has changed."""
    for path, text in made():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
