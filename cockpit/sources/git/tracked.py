"""What of a checkout to look at, so that git need not be asked whether it is as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from cockpit.model.place import Place
from cockpit.runtime.git import MOST
from cockpit.runtime.offload import offload
from cockpit.sources.git.command import DEADLINE, git
from cockpit.text.safe import clean

_NAMES: Final = ("ls-files", "-z", "--full-name")
_OTHERS: Final = ("--others", "--directory", "--exclude-standard")
_SUBMODULE: Final = b"160000 "
_IGNORES: Final = ".gitignore"


async def looked_at(repo: Place, untracked: Sequence[str]) -> tuple[str, ...] | None:
    """Return names from the checkout's top; ``None`` where they do not tell all.

    These are the files that git tracks, and the folders that hold none and are not ignored: what
    comes there changes them. One that it calls ``untracked`` already is not entered.
    """
    listed = await git(repo, *_NAMES, "--stage", "--", ":/")
    known = _split(listed.out)
    if not listed.ok or listed.cut or len(known) > MOST:
        return None
    if any(each.startswith(_SUBMODULE) for each in known):
        return None
    others = await git(repo, *_NAMES, *_OTHERS, "--", ":/")
    top = await git(repo, "rev-parse", "--show-toplevel")
    if not others.ok or others.cut or not top.ok:
        return None
    where, names = os.fsdecode(top.out).removesuffix("\n"), map(os.fsdecode, _split(others.out))
    try:
        beside = await offload(_beside, where, [*names], frozenset(untracked), deadline=DEADLINE)
    except TimeoutError:
        return None
    return (*(os.fsdecode(each.partition(b"\t")[2]) for each in known), *beside)


def _split(out: bytes) -> list[bytes]:
    return out.split(b"\0")[:-1]


def _beside(top: str, others: Sequence[str], untracked: frozenset[str]) -> list[str]:
    """Return the folders, and the files that say what is ignored; no more than may be."""
    found = (
        _below(top, name) if name.endswith("/") and clean(name, 1000) not in untracked else (name,)
        for name in others
    )
    return [*islice(filter(_tells, chain.from_iterable(found)), MOST + 1)]


def _tells(name: str) -> bool:
    return name.endswith("/") or name.rpartition("/")[2] == _IGNORES


def _below(top: str, name: str) -> Iterator[str]:
    """Yield a folder and whatever lies in it at any depth; what cannot be read is empty."""
    waiting = [name]
    while waiting:
        folder = waiting.pop()
        yield folder
        try:
            entries = [*os.scandir(f"{top}/{folder}")]
        except OSError:
            continue
        folders = {each.name for each in entries if each.is_dir(follow_symlinks=False)}
        waiting += (f"{folder}{each}/" for each in folders)
        yield from (f"{folder}{each.name}" for each in entries if each.name not in folders)
