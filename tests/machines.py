"""The same test on this machine and on an ssh host: what a place is called there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cockpit.model.place import Place, on_host
from tests.sshd import needs_sshd, reachable


class Machine(NamedTuple):
    """A machine with the files of this one; ``host`` is its ssh alias, ``None``: it is this one."""

    host: str | None

    def at(self, path: Path | str) -> Place:
        """Return a path of it as an address."""
        return on_host(self.host, str(path))

    def shown(self, path: Path | str) -> str:
        """Return a path of it as checks name it."""
        return str(path) if self.host is None else f"{self.host}:{path}"


HERE_AND_AWAY = ["here", pytest.param("host", marks=needs_sshd)]


@pytest.fixture(scope="module", params=HERE_AND_AWAY)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Give this machine, then a host of a real sshd."""
    if request.param == "here":
        yield Machine(None)
        return
    with reachable() as found:
        yield Machine(found.host)
