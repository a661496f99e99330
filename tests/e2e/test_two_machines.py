"""Two machines in miniature on one home: own names, ids, boots and processes (Linux namespaces).

``SOAK=1`` adds half an hour of kills, also over a real network file system (sshfs to this machine)
and with the power of a whole disk cut.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.store import shared_lock
from cockpit.store.shared_file import locks_of
from cockpit.store.store import Store
from tests.store import other_machine

ROOT = Path(__file__).parents[2]
SPACES = [*("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")]
BECOME = """
hostname "$1" && mount --bind "$2.id" /etc/machine-id &&
mount --bind "$2.boot" /proc/sys/kernel/random/boot_id && shift 2 && exec "$@"
"""
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "20"))


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
needs_soak = pytest.mark.skipif(not os.environ.get("SOAK"), reason="long: set SOAK=1")


class Machine:
    """A machine in miniature that writes to a store; ``kept`` is the last that it was told of."""

    def __init__(self, name: str, path: Path, folder: Path) -> None:
        self.name = name
        self.kept = -1
        self.told: list[str] = []
        identity = folder / name
        for what in ("id", "boot"):
            place = identity.with_suffix(f".{what}")
            place.write_text(f"{random.getrandbits(128):032x}\n")
        argv = [*(spaces() or []), "sh", "-c", BECOME, "sh", name, str(identity)]
        argv += [sys.executable, "-m", other_machine.__name__, "", str(path), "write"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT)

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


def check(path: Path, machines: list[Machine]) -> None:
    """Hold the store against what the machines were told is kept."""
    with Store(path).reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for each in machines:
            found = connection.execute(
                "SELECT count(*), max(at) FROM launches WHERE run = ?", (each.name,)
            ).fetchone()
            assert found[0] >= each.kept + 1
            assert found[0] == (-1 if found[1] is None else found[1]) + 1


@needs_spaces
def test_two_machines_write_and_lose_their_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_lock, "LOST", 1.5)
    path = tmp_path / "home" / "store.sqlite"
    locks_of(path).mkdir(parents=True)
    machines = [Machine(name, path, tmp_path) for name in ("login1", "login2")]
    try:
        for _ in range(8):
            for each in machines:
                each.one()
    finally:
        for each in machines:
            each.off()
    assert [each.told for each in machines] == [[], []]
    assert all(each.kept >= 7 for each in machines)
    check(path, machines)


@pytest.fixture
def export(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Give two mounts of one folder over ssh, as two machines have them."""
    for program in ("sshfs", "/usr/sbin/sshd", "ssh-keygen", "fusermount3"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path / "ssh"
    folder.mkdir()
    for name in ("host", "key"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(made, check=True)
    port = str(random.randrange(20000, 30000))
    options = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "key.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": folder / "pid",
        "Subsystem": "sftp internal-sftp",
    }
    lines = [f"{key} {value}" for key, value in options.items()]
    (folder / "conf").write_text("\n".join([*lines, "PermitRootLogin yes", ""]))
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", str(folder / "conf")])
    points = [tmp_path / "home1", tmp_path / "home2"]
    (tmp_path / "exported").mkdir()
    try:
        time.sleep(1.0)
        for point in points:
            point.mkdir()
            more = f"IdentityFile={folder / 'key'},StrictHostKeyChecking=no"
            more += ",UserKnownHostsFile=/dev/null"
            there = f"127.0.0.1:{tmp_path / 'exported'}"
            subprocess.run(["sshfs", "-p", port, "-o", more, there, str(point)], check=True)
        yield points[0], points[1]
    finally:
        for point in points:
            subprocess.run(["fusermount3", "-uz", str(point)], check=False)
        server.terminate()
        server.wait()


@needs_soak
@needs_spaces
def test_machines_are_killed_over_and_over_on_a_network_file_system(
    export: tuple[Path, Path], tmp_path: Path
) -> None:
    dice = random.Random(7)
    one, two = (Machine(f"login{n}", export[n - 1] / "store.sqlite", tmp_path) for n in (1, 2))
    kept = {"login1": -1, "login2": -1}
    for round_ in range(ROUNDS):
        for each in (one, two):
            each.one()
        time.sleep(dice.uniform(0.0, 1.0))
        dead, lives = (one, two) if dice.random() < 0.5 else (two, one)
        dead.off()
        lives.one()
        lives.one()
        kept[dead.name] = max(kept[dead.name], dead.kept)
        dead.kept = kept[dead.name]
        check(export[round_ % 2] / "store.sqlite", [dead])
        where = export[0] if dead is one else export[1]
        fresh = Machine(dead.name, where / "store.sqlite", tmp_path)
        one, two = (fresh, two) if dead is one else (one, fresh)
    for each in (one, two):
        each.off()
        check(export[0] / "store.sqlite", [each])


@needs_soak
@needs_spaces
def test_the_power_of_the_disk_is_cut_under_two_writers(tmp_path: Path) -> None:
    """What the disk had at some moment is mounted anew: writes that were not synced are gone."""
    image, point = tmp_path / "disk", tmp_path / "home"
    point.mkdir()
    subprocess.run(["truncate", "-s", "64M", str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=False).returncode:
        pytest.skip("a disk of one's own cannot be mounted here")
    try:
        path = point / "state" / "store.sqlite"
        locks_of(path).mkdir(parents=True)
        machines = [Machine(f"login{n}", path, tmp_path) for n in (1, 2)]
        for number in range(ROUNDS):
            for each in machines:
                each.one()
            kept = {each.name: each.kept for each in machines}
            _look_after_cut(image, tmp_path / f"cut{number}", kept)
        for each in machines:
            each.off()
    finally:
        subprocess.run(["umount", "-l", str(point)], check=False)


def _look_after_cut(image: Path, cut: Path, kept: dict[str, int]) -> None:
    cut.mkdir()
    shutil.copyfile(image, cut / "disk")
    (cut / "home").mkdir()
    mount = ["mount", "-o", "loop", str(cut / "disk"), str(cut / "home")]
    subprocess.run(mount, check=True)
    try:
        store = Store(cut / "home" / "state" / "store.sqlite")
        with store.reading() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for name, last in kept.items():
                row = (name, float(last))
                query = "SELECT count(*) FROM launches WHERE run = ? AND at <= ?"
                assert connection.execute(query, row).fetchone() == (last + 1,)
        store.close()
    finally:
        subprocess.run(["umount", str(cut / "home")], check=True)
        (cut / "disk").unlink()
