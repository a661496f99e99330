"""Secrets that a seal's commit would push: code cannot be masked, so it is not sealed (A-7).

What stands in HEAD already is no news, and does not count.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cockpit.sources.git import git
from cockpit.sources.offload import offload
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

DEADLINE: Final = 15.0


async def secrets_in(top: Path, dirty: Sequence[str]) -> tuple[str, ...]:
    """Return ``file:line`` of every added line that looks like a secret, and such file names.

    Raises ``OSError`` or ``TimeoutError`` for files that cannot be read.
    """
    if not dirty:
        return ()
    former = await _committed(top, dirty)
    return await offload(_found, top, tuple(dirty), former, deadline=DEADLINE)


async def _committed(top: Path, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the lines that each file has in HEAD; a file that is not there is left out."""
    asked = [name for name in names if "\n" not in name]
    wanted = b"".join(b"HEAD:" + os.fsencode(name) + b"\n" for name in asked)
    done = await git(str(top), "cat-file", "--batch", stdin=wanted)
    found: dict[str, frozenset[str]] = {}
    data = done.out
    for name in asked:
        head, _, data = data.partition(b"\n")
        if not head[-1:].isdigit():
            continue
        size = int(head.split()[-1])
        found[name] = frozenset(_lines(data[:size]))
        data = data[size + 1 :]
    return found


def _found(
    top: Path, names: Sequence[str], former: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    found = []
    for name in names:
        shown = scrub(clean(name))
        if shown != clean(name):
            found.append(f"the name {shown}")
        lines = _lines(_content(top / name))
        masked = scrub("\n".join(lines)).split("\n")
        known = former.get(name, frozenset())
        pairs = enumerate(zip(lines, masked, strict=True), 1)
        found += [f"{shown}:{n}" for n, (a, b) in pairs if a != b and a not in known]
    return tuple(found)


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return os.fsencode(path.readlink())
    return path.read_bytes() if path.is_file() else b""


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")
