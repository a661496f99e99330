"""Settings that the run file may hold and that this version does not read yet.

They are known keys, so that a file written for a later version loads; one that is set is told
in ``doctor``, and once when a cockpit or a watch starts. ``tests/house/test_settings.py`` holds
the table against what the code reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pydantic import BaseModel

from cockpit.model.run import CockpitFile, RunSpec

UNREAD: Final[Mapping[str, tuple[str, ...]]] = {}
"""The keys that nothing reads, by the table in which they are written."""

_SHOWN: Final = 3


class UnreadSetting(NamedTuple):
    """A setting of the run file that has no effect; ``run`` is ``None`` for one of the file."""

    run: str | None
    key: str

    @property
    def text(self) -> str:
        """What a person is told of it."""
        return f"{self.key} is set, but this version does not use it"


def unread_settings(file: CockpitFile) -> tuple[UnreadSetting, ...]:
    """Return every setting of the file that is set and not read, in the file's order."""
    return tuple(_found(file))


def unread_notice(file: CockpitFile) -> str | None:
    """Return one line that names the settings without effect, ``None`` if there are none."""
    found = unread_settings(file)
    if not found:
        return None
    names = [each.key if each.run is None else f"{each.run}: {each.key}" for each in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = f"{', '.join(names[:_SHOWN])}{more}"
    return f"set, but not used by this version: {shown}; see `cockpit doctor`"


def _found(file: CockpitFile) -> Iterator[UnreadSetting]:
    for run in file.runs:
        for table in UNREAD:
            if table.startswith("run."):
                names = _set_keys(_part(run, table), table)
                yield from (UnreadSetting(run.name, f"{table}.{name}") for name in names)


def _part(run: RunSpec, table: str) -> BaseModel | None:
    """Return the part of a run that ``table`` names: ``run.job`` is its job."""
    part: object = run
    for name in table.split(".")[1:]:
        part = getattr(part, name, None)
    return part if isinstance(part, BaseModel) else None


def _set_keys(part: BaseModel | None, table: str) -> list[str]:
    """Return the unread keys that the file itself sets in one table."""
    if part is None:
        return []
    written = part.model_fields_set
    return [key for key in UNREAD[table] if key in written and getattr(part, key) is not None]
