"""Everything that is run on an ssh host."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.late_regex import late_regex
from cockpit.runtime.account import MachineFolderError, machine_folder, scratch_folder
from cockpit.runtime.moment import Awake
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import NO_PROGRAM, Completed, run_blocking
from cockpit.runtime.ssh_session import SHELL, EndedError, LateError, Session, quote, reading_once
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SAID: Final = 200
_PREFIX: Final = late_regex(r"^(ssh(_\w+)?|kex_\w+|mux_client_\w+|client_loop|debug\d): (?=.)")
_QUIET: Final = late_regex(r"^(Warning: Permanently added|@+|\*\*|Connection to .* closed\.$)")


class _Sign(NamedTuple):
    """A pattern in what ssh has said, what kind of trouble it is, and what to do about it."""

    pattern: re.Pattern[str]
    kind: ErrorKind
    advice: str


def _sign(pattern: str, kind: ErrorKind, advice: str) -> _Sign:
    return _Sign(late_regex(pattern, re.I), kind, advice)


BY_HAND: Final = "run 'ssh {host}' by hand"
_SIGNS: Final = (
    _sign(
        "host key for .* has changed|identification has changed",
        ErrorKind.UNAUTHORIZED,
        "its host key has changed: ask who runs it before you accept the new one",
    ),
    _sign(
        "host key verification failed|no .* host key is known",
        ErrorKind.UNAUTHORIZED,
        "run 'ssh {host}' by hand and check its key",
    ),
    _sign(
        "permission denied \\(|too many authentication failures|no supported authentication"
        "|certificate invalid|^permission denied",
        ErrorKind.UNAUTHORIZED,
        "log in: 'ssh {host}' must work without a question",
    ),
    _sign(
        "bad owner or permissions|unprotected private key", ErrorKind.PERMISSION, "chmod go-w it"
    ),
    _sign("bad configuration option|terminating, \\d+ bad", ErrorKind.BAD_ANSWER, "correct it"),
    _sign(
        "could not resolve|name or service not known|nodename nor servname",
        ErrorKind.DNS,
        "is the name right, and the network up?",
    ),
    _sign(
        "no matching (host key|key exchange|cipher|mac)|unable to negotiate", ErrorKind.TLS,
        BY_HAND,
    ),
    _sign(
        "account is currently not available|administratively prohibited|not allowed|nologin",
        ErrorKind.FORBIDDEN,
        BY_HAND,
    ),
    _sign("timed out|timeout|not responding", ErrorKind.TIMEOUT, "is it up, and is there a VPN?"),
    _sign(
        "refused|no route|unreachable|closed|reset|broken pipe|banner|kex_exchange",
        ErrorKind.REFUSED,
        BY_HAND,
    ),
)  # fmt: skip


class RemoteError(Exception):
    """A script did not run on a host, or it cannot be told whether it did; the text is one line.

    ``sent`` is true when it may have run, wholly or in part: whoever acts must look it up.
    ``out`` is what had come of its output.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, sent: bool = False, out: bytes = b""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.sent = sent
        self.out = out

    def again(self) -> RemoteError:
        """Return the same for another who waited: one instance is raised in one thread."""
        return RemoteError(self.kind, str(self), sent=self.sent, out=self.out)


_REMEDIES: dict[str, str] = {}


def know_remedies(remedies: Mapping[str, str]) -> None:
    """Take over what the run file says to do when a host refuses us, by ssh alias."""
    kept = {host: clean(text, SAID) for host, text in remedies.items()}
    _REMEDIES.clear()
    _REMEDIES.update(kept)


def told(host: str, advice: str) -> str:
    """Return what to do about a host: the run file's own words, else the usual ones."""
    return _REMEDIES.get(host) or advice.format(host=host)


def trouble(
    host: str, kind: ErrorKind, text: str, *, sent: bool = False, out: bytes = b""
) -> RemoteError:
    """Return an error about what was asked of a host that answers."""
    return RemoteError(kind, f"{host}: {text}", sent=sent, out=out)


def unreachable(host: str, kind: ErrorKind, text: str) -> RemoteError:
    """Return an error about a host that gives us no shell; it ends with the run file's remedy."""
    remedy = _REMEDIES.get(host)
    return RemoteError(kind, f"{host}: {text}" + (f"; {remedy}" if remedy else ""))


def refusal(host: str, said: bytes) -> RemoteError:
    """Return what ssh's own words mean, when it could not give us a shell on a host."""
    lines = _lines(said)
    for sign in _SIGNS:
        line = next((each for each in lines if sign.pattern.search(each)), None)
        if line is not None:
            text = f"{host}: {line.rstrip('.')}; {told(host, sign.advice)}"
            return RemoteError(sign.kind, text)
    last = lines[-1] if lines else "ssh ended without a message"
    return RemoteError(ErrorKind.REFUSED, f"{host}: {last}; {told(host, BY_HAND)}")


def _lines(said: bytes) -> list[str]:
    """Return what ssh said, made safe, without the noise around it."""
    text = said[-8192:].decode("utf-8", "replace").replace("\r", "\n")
    lines = (scrub(clean(line, SAID)).strip() for line in text.split("\n"))
    return [_PREFIX.sub("", line) for line in lines if line and not _QUIET.match(line)]


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


__all__ = ["RemoteError", "know_remedies", "quote", "run_script", "run_script_blocking"]

SPARE: Final = 1.0
HERE: Final = "this machine"
SSH_FAILED: Final = 255


async def run_script(
    host: str | None,
    script: str,
    *,
    deadline: float,
    cap: int = 1_000_000,
    stdin: bytes | None = None,
) -> Completed:
    """Run ``script`` in a POSIX ``sh`` on ``host`` (``None``: here) and return how it ended.

    ``rc`` is the script's own, whatever it is. Its input is ``stdin``, else nothing; at most
    ``cap`` bytes of each output are kept. Words in it are quoted by ``quote``. Raises
    ``RemoteError`` when the host cannot be reached within ``deadline`` seconds, when the script
    has not ended by then, and when the link broke off: ``sent`` tells whether it may have run.
    """
    return await offload(
        lambda: run_script_blocking(host, script, deadline=deadline, cap=cap, stdin=stdin),
        deadline=deadline + SPARE,
        key=object(),  # it has its own deadline and never hangs
    )


def run_script_blocking(
    host: str | None,
    script: str,
    *,
    deadline: float,
    cap: int = 1_000_000,
    stdin: bytes | None = None,
) -> Completed:
    """Do what ``run_script`` does, for code that already runs in a thread."""
    quote(script)  # refuses what no shell can be given
    if host is None:
        return _here(script, deadline, cap, stdin)
    link, until = link_to(host), Awake(deadline)
    with link.borrowed(until, deadline) as session:
        try:
            if stdin is None:
                return session.run(script, until, cap)
            return started(host, reading_once(script)).run_once(script, stdin, until, cap)
        except EndedError as ended:
            raise _broken(host, ended) from ended
        except LateError as late:
            what = "the script has not ended" if late.begun else "no answer"
            text = f"{what} within {deadline:.2g} s"
            raise trouble(host, ErrorKind.TIMEOUT, text, sent=True, out=late.out) from late


def _broken(host: str, ended: EndedError) -> RemoteError:
    """Return what it means that a shell has ended in the middle of a script, or before it."""
    if ended.rc != SSH_FAILED:
        text = f"its shell has ended (status {ended.rc}) before the script was over"
        return trouble(host, ErrorKind.BAD_ANSWER, text, sent=True, out=ended.out)
    if ended.said and not ended.begun:
        error = refusal(host, ended.said)
    else:
        error = unreachable(host, ErrorKind.REFUSED, "the connection broke off")
    error.sent, error.out = True, ended.out
    return error


def _here(script: str, deadline: float, cap: int, stdin: bytes | None) -> Completed:
    if stdin is None:
        argv, given = (
            ["sh"],
            f"(eval {quote(script)}) </dev/null\n".encode("utf-8", "surrogateescape"),
        )
    else:
        argv, given = ["sh", "-c", script], stdin
    done = run_blocking(argv, deadline=deadline, stdin=given, cap=cap)
    if done.timed_out:
        text = f"{HERE}: the script has not ended within {deadline:.2g} s"
        raise RemoteError(ErrorKind.TIMEOUT, text, sent=True, out=done.out)
    return done


TIMED_OUT: Final = 124
"""The status of a command that was ended because its time was over, as ``timeout`` has it."""

LIMITED: Final = """\
if timeout -k 1 5 true 2>/dev/null; then
limited() { timeout -k 1 "$@"; set -- $?; [ $1 -ne 137 ] || set -- 124; return $1; }
elif timeout 5 true 2>/dev/null; then limited() { timeout "$@"; }
else
slain() {
  kill -STOP "$1" 2>/dev/null
  for _c in $(ps -A -o pid= -o ppid= | awk -v p="$1" '$2 == p {print $1}'); do slain "$_c"; done
  kill -9 "$1" 2>/dev/null
}
limited() {
  _s=$1; shift
  { "$@" <&7 7<&- & _p=$!; } 7<&0
  (sleep "$_s" && slain "$_p") >/dev/null 2>&1 & _k=$!
  wait "$_p" 2>/dev/null; set -- $?
  { slain "$_k"; wait "$_k"; } 2>/dev/null
  case $1 in 137|265) set -- 124; esac; return $1
}
fi
"""
"""Lines that define ``limited SECONDS COMMAND…``; it returns the status, ``TIMED_OUT`` if late.

Where there is no ``timeout`` everything that the command has started is killed with it: else each
look would leave a process there that hangs for good. Each is stopped before its children die: else
it would go on from where they ended, and its status would read as that of a command in time.
"""
