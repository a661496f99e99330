"""How a person looks at a fleet: what is kept between two sessions at one run file."""

from typing import Final

from cockpit.model.base import Frozen

SORTS: Final = ("need", "name", "file", "time left")
"""How runs can be sorted; equals keep the run file's order."""
GROUPS: Final = ("", "cluster", "dri", "group")
"""By what runs can be grouped; ``""``: not at all."""


class View(Frozen):
    """What is shown of a fleet, how, and where the cursor stood."""

    filter: str = ""
    sort: str = SORTS[0]
    group: str = GROUPS[0]
    hide_finished: bool = False
    favourites: tuple[str, ...] = ()
    selected: str | None = None
    """The run that the cursor stood on."""
    critical: tuple[str, ...] = ()
    """The runs that were critical then: another one is news, and takes the cursor."""
