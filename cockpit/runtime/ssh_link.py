"""How one host is reached: the user's own OpenSSH, one shared connection, a few shells on it.

Everything in ``ssh_config`` holds (jumps, certificates, ``Match``, agents): we add only what keeps
ssh from asking, and what notices a dead link. Where the user's configuration shares connections
(``ControlPath``: people with a second factor open one by hand) theirs is used, else one of ours
in a folder that only this user can enter. ``ssh -G`` tells which.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from cockpit.model.facet import ErrorKind
from cockpit.runtime.awake import Awake
from cockpit.runtime.machine_folder import MachineFolderError, machine_folder, scratch_folder
from cockpit.runtime.shell import NO_PROGRAM, run_blocking
from cockpit.runtime.ssh_session import SHELL, EndedError, LateError, Session
from cockpit.runtime.ssh_trouble import RemoteError, refusal, unreachable

SESSIONS: Final = 4
"""Shells at most on one connection, each perhaps beside one that reads its input: a server allows
ten (``MaxSessions``), for all that this user runs there."""
OPENING: Final = 45.0
"""Seconds for a login and a slow ``.bashrc``; who waits gives up before, the opening goes on."""
CONNECT: Final = 8
ALIVE: Final = 3
MISSED: Final = 2
"""Seconds for a connection; between two questions whether the link lives; how many may miss."""
PERSIST: Final = "10m"
IDLE: Final = 300.0
"""Seconds after which a shell that nobody uses is given back, but for one."""
CONFIG: Final = 10.0
_LONGEST: Final = 104 - len(".0123456789abcdef") - 1
"""Characters of a socket's path: macOS takes 104, and ssh binds it under a longer name first."""
_HOST: Final = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%+\[\]-]{0,252}", re.ASCII)
_ENV: Final = {"SSH_ASKPASS_REQUIRE": "never"}
_ALWAYS: Final = {
    "BatchMode": "yes",
    "ControlMaster": "auto",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "EscapeChar": "none",
}


def checked(host: str) -> str:
    """Return a host's name if ssh can take it for nothing else; raises ``RemoteError``."""
    if not _HOST.fullmatch(host):
        text = f"{host[:80]!r} cannot be the name of an ssh host"
        raise RemoteError(ErrorKind.NOT_FOUND, text)
    return host


@dataclass(eq=False)
class Link:
    """The shells of one host. Whoever wants one waits for the one that is free first.

    One connects; until it has, nobody else tries: a server turns away those that come in crowds
    (``MaxStartups``), and all of them would fail as it does. What it fails with is told to all
    who wait for it.
    """

    host: str
    _news: threading.Condition = field(default_factory=threading.Condition)
    _idle: list[tuple[float, Session]] = field(default_factory=list)
    _count: int = 0
    """Shells that there are, in use, idle or being opened."""
    _opening: int = 0
    _waiting: int = 0
    _linked: bool = False
    _failed: RemoteError | None = None
    _failures: int = 0

    @contextmanager
    def borrowed(self, until: Awake, deadline: float) -> Iterator[Session]:
        """Give a shell that is free for a while; raises ``RemoteError``."""
        session = self._take(until, deadline)
        try:
            yield session
        finally:
            with self._news:
                if session.alive:
                    self._idle.append((time.monotonic(), session))
                else:
                    self._drop(session)
                self._news.notify_all()

    def _take(self, until: Awake, deadline: float) -> Session:
        with self._news:
            known = self._failures
            self._waiting += 1
            try:
                while (found := self._free()) is None:
                    self._want()
                    if (left := until.left()) <= 0:
                        text = f"no connection within {deadline:.2g} s"
                        raise unreachable(self.host, ErrorKind.TIMEOUT, text)
                    self._news.wait(min(1.0, left))
                    if self._failed is not None and self._failures > known:
                        raise self._failed.again()
            finally:
                self._waiting -= 1
            return found

    def _free(self) -> Session | None:
        """Return the shell that was used last, if it lives; end those long unused."""
        now = time.monotonic()
        while len(self._idle) > 1 and now - self._idle[0][0] > IDLE:
            self._drop(self._idle.pop(0)[1])
        while self._idle:
            session = self._idle.pop()[1]
            if session.alive:
                return session
            self._drop(session)
        return None

    def _drop(self, session: Session) -> None:
        """End a shell; if it broke off, so may have the connection: one finds out for all."""
        self._linked = self._linked and session.alive
        session.close()
        self._count -= 1

    def _want(self) -> None:
        """Have a shell opened if one more is of use."""
        first = not self._linked
        if self._opening >= (1 if first else self._waiting) or self._count >= SESSIONS:
            return
        self._opening += 1
        self._count += 1
        threading.Thread(target=self._open, name=f"ssh-{self.host}", daemon=True).start()

    def _open(self) -> None:
        session, error = None, None
        try:
            session = opened(self.host, SHELL, Awake(OPENING))
        except RemoteError as failure:
            error = failure
        with self._news:
            self._opening -= 1
            if session is not None:
                self._linked = True
                self._idle.append((time.monotonic(), session))
            else:
                self._count -= 1
                self._failed, self._failures = error, self._failures + 1
            self._news.notify_all()


def opened(host: str, command: str, until: Awake) -> Session:
    """Return a new shell on a host that has answered; raises ``RemoteError``."""
    session = started(host, command)
    try:
        session.run(":", until, 1000)
    except EndedError as ended:
        raise refusal(host, ended.said) from ended
    except LateError as late:
        text = "logged in, but its shell does not start: does its .bashrc wait for something?"
        raise unreachable(host, ErrorKind.TIMEOUT, text) from late
    return session


def started(host: str, command: str) -> Session:
    """Return ssh on its way to a host, with ``command`` for it; raises ``RemoteError``."""
    argv = [*words(host), "--", host, command]
    try:
        return Session(argv, _ENV)
    except OSError as error:
        text = f"ssh cannot be started: {error.strerror}"
        raise unreachable(host, ErrorKind.NOT_FOUND, text) from error


def words(host: str) -> list[str]:
    """Return ssh and its options for a host; raises ``RemoteError``."""
    done = run_blocking(["ssh", "-G", "--", host], deadline=CONFIG, env=_ENV, reads=True)
    if done.rc == NO_PROGRAM:
        text = "ssh is not installed on this machine"
        raise unreachable(host, ErrorKind.NOT_FOUND, text)
    if not done.ok:
        raise refusal(host, done.err or b"ssh -G: timed out")
    return ["ssh", "-T", *_options(host, done.text)]


def _options(host: str, config: str) -> list[str]:
    lines = (line.partition(" ") for line in config.splitlines())
    has = {name.lower(): value for name, _, value in lines}
    options = dict(_ALWAYS)
    if has.get("connecttimeout", "none") in ("none", "0"):
        options["ConnectTimeout"] = str(CONNECT)
    if not _notices(has):
        options.update(ServerAliveInterval=str(ALIVE), ServerAliveCountMax=str(MISSED))
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    shares = has.get("controlpath", "none") != "none"
    if not shares or has.get("controlpersist", "no") in ("no", "false"):
        given += ["-o", f"ControlPersist={PERSIST}"]
    return given if shares else [*given, "-S", socket_path(host, config).replace("%", "%%")]


def _notices(has: dict[str, str]) -> bool:
    """Tell whether the user's own settings notice a dead link as soon as ours would."""
    with suppress(ValueError):
        interval = int(has.get("serveraliveinterval", "0"))
        missed = int(has.get("serveralivecountmax", "3"))
        return 0 < interval * missed <= ALIVE * (MISSED + 1)
    return False


def socket_path(host: str, config: str) -> str:
    """Return where our shared connection listens: another one once the configuration changes.

    Raises ``RemoteError`` if there is no folder for it.
    """
    name = "s-" + hashlib.sha256(f"{host}\n{config}".encode()).hexdigest()[:16]
    try:
        path = str(machine_folder() / name)
        return path if len(path) <= _LONGEST else str(scratch_folder() / name)
    except MachineFolderError as error:
        raise unreachable(host, ErrorKind.PERMISSION, str(error)) from error


_LINKS: dict[str, Link] = {}
_LOCK: Final = threading.Lock()


def link_to(host: str) -> Link:
    """Return the one link of this process to a host; raises ``RemoteError`` for no name."""
    with _LOCK:
        return _LINKS.setdefault(checked(host), Link(host))
