"""Which checkpoint Lightning takes with ``ckpt_path="last"``, or by a path of its own. Pure.

Of the files in a folder whose name begins with ``last`` the one that was written last, links
followed; what leads nowhere is not there. With none it warns and starts at step 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Checkpoint, Pick
from cockpit.sources.checkpoints.listing import Root
from cockpit.text.announced import LAST

NAME: Final = "lightning"
_LAST: Final = late_regex(r"last.*\.ckpt")


def lightning_pick(
    items: Sequence[Checkpoint], roots: Sequence[Root], asked: str | None
) -> Pick | None:
    """Return what a command with ``ckpt_path=asked`` makes Lightning load, if it tells that."""
    mine = [item for item in items if item.layout == NAME]
    if asked == LAST:
        found = [*_files(mine), *_led_to(mine, roots)]
        return max(found, key=lambda each: each[0], default=(0.0, None))[1]
    name = (asked or "").rpartition("/")[2]
    named = [item for item in mine if name and item.path.rpartition("/")[2] == name]
    if len(named) != 1:
        return None
    return Pick(path=named[0].path, step=named[0].step, why=f"the command says ckpt_path={name}")


def _files(items: Sequence[Checkpoint]) -> Iterator[tuple[float, Pick]]:
    for item in items:
        name = item.path.rpartition("/")[2]
        if _LAST.fullmatch(name):
            yield item.touched_at or 0.0, _pick(item, name)


def _led_to(items: Sequence[Checkpoint], roots: Sequence[Root]) -> Iterator[tuple[float, Pick]]:
    """Yield what links lead to: a listing has what they lead to once, under its own name."""
    for root in roots:
        for lead in root.leads:
            below = lead.target.removeprefix(f"{root.real.rstrip('/')}/")
            for item in items:
                name = item.path.rpartition("/")[2]
                if _LAST.fullmatch(lead.name) and item.root == root.path and name == below:
                    yield item.touched_at or 0.0, _pick(item, f"{lead.name} -> {name}")


def _pick(item: Checkpoint, what: str) -> Pick:
    why = f"Lightning, ckpt_path=last: the newest last*.ckpt by time, {what}"
    return Pick(path=item.path, step=item.step, why=why)
