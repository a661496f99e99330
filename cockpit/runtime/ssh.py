"""The words of an ssh command, its environment, and what its failures mean."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.late_regex import late_regex
from cockpit.runtime.account import machine_folder, scratch_folder
from cockpit.runtime.private_folder import MachineFolderError
from cockpit.runtime.shell import NO_PROGRAM, run_blocking
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
    """A script did not run on a host, or it is unknown whether it did; the text is one line.

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
        return type(self)(self.kind, str(self), sent=self.sent, out=self.out)


_REMEDIES: dict[str, str] = {}


def know_remedies(remedies: Mapping[str, str]) -> None:
    """Take over what the run file says to do when a host refuses us, by ssh alias."""
    kept = {host: clean(text, SAID) for host, text in remedies.items()}
    _REMEDIES.clear()
    _REMEDIES.update(kept)


def remedy_for(host: str, advice: str) -> str:
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
            text = f"{host}: {line.rstrip('.')}; {remedy_for(host, sign.advice)}"
            return RemoteError(sign.kind, text)
    last = lines[-1] if lines else "ssh ended without a message"
    return RemoteError(ErrorKind.REFUSED, f"{host}: {last}; {remedy_for(host, BY_HAND)}")


def _lines(said: bytes) -> list[str]:
    """Return what ssh said, made safe, without the noise around it."""
    text = said[-8192:].decode("utf-8", "replace").replace("\r", "\n")
    lines = (scrub(clean(line, SAID)).strip() for line in text.split("\n"))
    return [_PREFIX.sub("", line) for line in lines if line and not _QUIET.match(line)]


CONNECT: Final = 8
ALIVE: Final = 3
MISSED: Final = 2
"""Seconds for a connection; between two questions whether the link lives; how many may miss."""
PERSIST: Final = "10m"
CONFIG: Final = 10.0
_LONGEST: Final = 104 - len(".0123456789abcdef") - 1
"""Characters of a socket's path: macOS takes 104, and ssh binds it under a longer name first."""
_HOST: Final = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%+\[\]-]{0,252}", re.ASCII)
ENV: Final = {"SSH_ASKPASS_REQUIRE": "never"}
"""What every ssh of ours is given: it never asks a person."""
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


def words(host: str) -> list[str]:
    """Return ssh and its options for a host; raises ``RemoteError``."""
    done = run_blocking(["ssh", "-G", "--", host], deadline=CONFIG, env=ENV, reads=True)
    if done.rc == NO_PROGRAM:
        raise unreachable(host, ErrorKind.NOT_FOUND, "ssh is not installed on this machine")
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


ASKING: Final = "cockpit-probe"
"""Stands in the command line of every shell that asks: what it runs is nobody's job."""


def quote(text: str) -> str:
    """Return ``text`` as one word of a POSIX shell, whatever it holds.

    Raises ``ValueError`` for a NUL character, which no word can hold.
    """
    if "\0" in text:
        raise ValueError("a NUL character cannot stand in a shell's word")
    return shlex.quote(text)


TIMED_OUT: Final = 124
"""The status of a command that was ended because its time was over, as ``timeout`` has it."""

LIMITED: Final = """\
if timeout -k 1 5 true 2>/dev/null; then
limited() { timeout -k 1 "$@"; set -- $?; [ $1 -ne 137 ] || set -- 124; return $1; }
elif timeout 5 true 2>/dev/null; then limited() { timeout "$@"; }
else limited() { shift; "$@"; }
fi
"""
"""Lines that define ``limited SECONDS COMMAND…``; it returns the status, ``TIMED_OUT`` if late.

Every Linux has ``timeout``. A Mac has none: there the deadline of the whole script ends it.
"""
