"""Saves of a layout that no row knows, and pointers and links that lead nowhere: what is said.

What is not recognised is unknown: never torn, never picked, never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.findings import FolderFinding, doubtful
from cockpit.sources.checkpoints.layouts import LAYOUTS, Layout
from cockpit.sources.checkpoints.listing import (
    ITERATION,
    POINTERS,
    STEP_NAME,
    Folder,
    Link,
    Listed,
    Root,
    is_pointer,
    number,
)

_STEP: Final = late_regex(
    r"(?:.*[-_.=])?(?:global_?step|step|iter(?:ation)?|ba)[-_=]?(\d+)(?!\d).*"
)
NOTE: Final = "no layout here knows it"
NAMED: Final = 3
"""How many of the folders are named in a sentence."""


def _assess(folder: Folder, root: Root) -> FolderFinding | None:
    return doubtful(NOTE)


UNKNOWN: Final = Layout("", _STEP, "", _assess, lambda folder, root: False, {})
"""What stands for a row where none fits."""
LOST: Final = Layout("", late_regex(r"\D*(\d+)\D*"), "", _assess, lambda folder, root: False, {})
"""What stands for a row where a link leads to nothing: only its name is known."""


def unknown_layouts(names: Sequence[str], root: Root) -> Iterator[str]:
    """Yield that there are saves of no known layout, and what the root itself names."""
    if not names:
        return
    singles = {each.name for each in (*root.lookalikes, *root.singles) if each.single}
    what = "file" if all(name in singles for name in names) else "folder"
    some = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    look = (
        f"1 {what} that looks like a save"
        if len(names) == 1
        else (f"{len(names)} {what}s that look like saves")
    )
    yield f"{look}, no layout here knows them: {some}; cannot tell what a relaunch would take"
    for file in _pointers(root):
        yield f"{file.path} names {_named(file)}"
    for link in root.links:
        if link.there and link.leads_to in names:
            yield f"{link.name} leads to {link.leads_to}"


def lost_pointers(root: Root) -> Iterator[str]:
    """Yield each pointer and link of a root that leads to nothing there."""
    folders = {each.name for each in (*root.folders, *root.lookalikes)}
    for file in _pointers(root):
        name = _named(file)
        if file.path == ITERATION and (step := number(name)) is not None:
            rows = LAYOUTS.values()
            there = any(row.name_step(each) == step for each in root.folders for row in rows)
        else:
            there = name.rstrip("/").rpartition("/")[2] in folders
        if not there and name and file.path in POINTERS:
            yield f"{file.path} names {name}, which is not there"
    for link in root.links:
        if not link.there and is_save_link(link) is None:
            yield leads_nowhere(link, f"{link.name} is a link")


def leads_nowhere(link: Link, what: str = "a link") -> str:
    """Return that nothing is where a link leads."""
    return f"{what} that leads nowhere" + (f": {link.target}" if link.target else "")


def is_save_link(link: Link) -> Folder | None:
    """Return a link to nothing as the save that its name says it was, if it says a step."""
    stepped = STEP_NAME.fullmatch(link.name) or _STEP.fullmatch(link.name)
    return None if link.there or not stepped else Folder(link.name)


def _pointers(root: Root) -> Iterator[Listed]:
    return (file for file in root.files if is_pointer(file.path) and file.content is not None)


def _named(file: Listed) -> str:
    return (file.content or b"").decode("utf-8", "replace").strip()[:200]
