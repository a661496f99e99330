"""What can go wrong on the way to an ssh host, each said in one line, in ssh's own words.

ssh ends with 255 whatever has failed, and a script may end with 255 itself: only what was said
tells why. ``[hosts.x] remedy`` of the run file is what a person is told to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.late_regex import late_regex
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
