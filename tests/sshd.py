"""A real sshd on loopback, of this user alone: a throwaway key, an alias of its own, faults.

It runs as whoever runs the tests; what they start of it is ended with it. ``ssh`` on ``PATH`` is
the machine's own with another configuration file, as a user's would be.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SSH = shutil.which("ssh")
needs_sshd = pytest.mark.skipif(
    SSHD is None or SSH is None or not Path("/proc/self/stat").exists(),
    reason="no OpenSSH server here: apt-get install openssh-server",
)
_NUMBERS = count()

_SSHD_CONFIG = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {root}/hostkey
PidFile none
AuthorizedKeysFile {root}/key.pub
AllowUsers {user}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 2:100:2
LogLevel INFO
ForceCommand {root}/enter
"""
_SSH_CONFIG = """\
Host {alias} {alias}-*
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {root}/key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
_ENTER = """\
#!/bin/sh
# What a login shell and its .bashrc do before they run a command.
echo x >>"{root}/entered"
HOME="{root}/home" XDG_RUNTIME_DIR="{root}/home" TMUX_TMPDIR="{root}/home"
export HOME XDG_RUNTIME_DIR TMUX_TMPDIR
cd "$HOME"
. "{root}/rc"
exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""


class Sshd:
    """One server; ``host`` is its alias, ``home`` the home of who logs in."""

    def __init__(self, root: Path) -> None:
        self.host = f"box{next(_NUMBERS)}"
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.rc("")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name in ("hostkey", "key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        given = {"root": root, "port": self.port, "user": getpass.getuser(), "alias": self.host}
        (root / "sshd_config").write_text(_SSHD_CONFIG.format(**given))
        (root / "ssh_config").write_text(_SSH_CONFIG.format(**given))
        self._program(root / "enter", _ENTER.format(**given))
        (root / "bin").mkdir()
        self._program(root / "bin/ssh", f'#!/bin/sh\nexec {SSH} -F "{root}/ssh_config" "$@"\n')
        key = (root / "hostkey.pub").read_text()
        (root / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}")
        self._server: subprocess.Popen[bytes] | None = None

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def rc(self, text: str) -> None:
        """Say what is run before every command, as a ``.bashrc`` is."""
        (self.root / "rc").write_text(text + "\n")

    def configure(self, text: str) -> None:
        """Add to the user's own ssh configuration; what comes first holds."""
        path = self.root / "ssh_config"
        path.write_text(text + "\n" + path.read_text())

    @property
    def pid(self) -> int:
        """The server's process; everything that serves a connection is below it."""
        assert self._server is not None
        return self._server.pid

    @property
    def entered(self) -> int:
        """How many shells have been opened."""
        path = self.root / "entered"
        return len(path.read_text().split()) if path.exists() else 0

    @property
    def logins(self) -> int:
        """How many connections were authenticated."""
        return (self.root / "log").read_text().count("Accepted publickey")

    def start(self) -> None:
        """Listen, and return once it does."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        argv = [str(SSHD), "-D", "-f", f"{self.root}/sshd_config", "-E", f"{self.root}/log"]
        self._server = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        for _ in range(500):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            time.sleep(0.01)
        raise AssertionError((self.root / "log").read_text())

    def sessions(self) -> list[int]:
        """Return the processes that serve connections, deepest first."""
        own = [self._server.pid] if self._server is not None else []
        found: list[int] = []
        while own:
            own = [pid for pid, parent, name in _processes() if parent in own and "sshd" in name]
            found = own + found
        return found

    def started(self) -> list[int]:
        """Return what runs for those who are connected: agents and scripts."""
        serving = self.sessions()
        return [
            pid for pid, parent, name in _processes() if parent in serving and "sshd" not in name
        ]

    def signal(self, number: int) -> None:
        """Send a signal to all that serves connections."""
        for pid in self.sessions():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End the server, and every connection."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None


def _processes() -> Iterator[tuple[int, int, str]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = path.read_text(errors="replace")
            name, _, rest = text.partition("(")[2].rpartition(")")
            yield int(path.parent.name), int(rest.split()[1]), name


@contextmanager
def serving(root: Path) -> Iterator[Sshd]:
    """Give a server that listens."""
    server = Sshd(root)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def reachable() -> Iterator[Sshd]:
    """Give a server that listens, and that ``ssh`` of this process finds by its alias."""
    with (
        tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as root,
        serving(Path(root)) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PATH", f"{found.root}/bin:{os.environ['PATH']}")
        yield found
