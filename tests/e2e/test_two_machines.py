"""Two machines in miniature on one home: own names, ids, boots and processes (Linux namespaces)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from cockpit.store.journal import Journal
from cockpit.store.store import Store
from tests.store import other_machine
from tests.store.test_old_store import fill, share

ROOT = Path(__file__).parents[2]
SPACES = [*("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")]
BECOME = """
hostname "$1" && mount --bind "$2.id" /etc/machine-id &&
mount --bind "$2.boot" /proc/sys/kernel/random/boot_id && shift 2 && exec "$@"
"""


def spaces() -> list[str] | None:
    """Return how namespaces are made here; ``None`` where that is not permitted."""
    for more in ([], ["--user", "--map-root-user"]):
        argv = [*SPACES, *more]
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([*argv, "true"], check=True, capture_output=True, timeout=10)
            return argv
    return None


needs_spaces = pytest.mark.skipif(
    spaces() is None or not Path("/etc/machine-id").exists(),
    reason="namespaces of one's own (unshare) are not permitted here",
)


class Machine:
    """A machine in miniature that writes to a store; ``kept`` is the last that it was told of."""

    def __init__(self, name: str, home: Path, folder: Path) -> None:
        self.name = name
        self.kept = -1
        self.told: list[str] = []
        identity = folder / name
        for what in ("id", "boot"):
            place = identity.with_suffix(f".{what}")
            place.write_text(f"{random.getrandbits(128):032x}\n")
        argv = [*(spaces() or []), "sh", "-c", BECOME, "sh", name, str(identity)]
        argv += [sys.executable, "-m", other_machine.__name__, "write"]
        env = os.environ | {"XDG_STATE_HOME": str(home)}
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)

    def one(self) -> int:
        """Wait for one more change that is kept."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
            if line.strip().isdecimal():
                return self.kept
        raise AssertionError(f"{self.name} is gone: {self.told}")

    def off(self) -> None:
        """Cut its power: every process of it dies at once."""
        self._process.kill()
        out, _ = self._process.communicate()
        for line in out.splitlines(keepends=True):
            if line.endswith("\n"):
                self._take(line)

    def _take(self, line: str) -> None:
        if line.strip().isdecimal():
            self.kept = int(line)
        else:
            self.told.append(line)


def check(path: Path, machine: Machine) -> list[str | None]:
    """Hold a store against what its machine was told is kept; return what is begun in it."""
    with closing(Store(path)) as store, store.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        query = "SELECT count(*), max(at) FROM launches WHERE run = ?"
        count, last = connection.execute(query, (machine.name,)).fetchone()
        assert count == last + 1 >= machine.kept + 1
        return [each.launch_id for each in Journal(store).unfinished("r")]


@needs_spaces
def test_each_writes_its_own_store_and_one_has_taken_over_what_they_shared(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "cockpit"
    folder.mkdir(parents=True)
    share(fill(folder / "store-any.sqlite"))
    machines = [Machine(name, tmp_path / "home", tmp_path) for name in ("login1", "login2")]
    try:
        for _ in range(8):
            for each in machines:
                each.one()
    finally:
        for each in machines:
            each.off()
    assert [each.told for each in machines] == [[], []]
    stores = [next(folder.glob(f"store-{each.name}-*.sqlite")) for each in machines]
    found = [check(path, each) for path, each in zip(stores, machines, strict=True)]
    assert sorted(found) == [[], ["r-1"]]
