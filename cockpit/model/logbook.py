"""A new logbook entry as an editor begins with it (SPEC L)."""

from __future__ import annotations

from cockpit.model.base import Frozen


class Opened(Frozen):
    """What an editor begins with; everything in it is safe to show.

    ``text`` is the draft that was left (``draft``), else an entry prefilled from what is
    observed. ``tail`` is the end of the file as it stands, ``note`` what is to be known of it,
    ``trouble`` why nothing can be written at this moment.
    """

    path: str
    text: str = ""
    tail: tuple[str, ...] = ()
    note: str = ""
    draft: bool = False
    trouble: str = ""
