"""Why a service did not take a message, in words of our own: its own may hold the address."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_STATUS = re.compile(r"error=(\d{3})|status[ =](\d{3})")
_SMTP = re.compile(r"\((\d{3}), b['\"]")
_STATUS_WORDS: Final = {
    401: "the address or its password is not valid",
    403: "the address is not allowed to post, or was revoked",
    404: "no such address there",
    410: "the address was revoked",
    413: "the message is too large for it",
    429: "it is limiting messages",
}
_SIGNS: Final = (
    (r"connect(?:ion)? ?timeout|ConnectTimeout", "no connection within the time allowed", False),
    (r"Connection refused|actively refused", "connection refused", False),
    (
        r"Name or service not known|getaddrinfo|NameResolution|nodename|name resolution",
        "the host name cannot be resolved (network or address)",
        False,
    ),
    (r"certificate|SSLError|WRONG_VERSION", "TLS: the certificate was not accepted", False),
    (r"unreachable|No route", "no network route to it", False),
    (r"timed out|Timeout", "sent, but no answer", True),
    (
        r"aborted|RemoteDisconnected|reset by peer|closed by the remote|unexpectedly closed",
        "the connection broke before an answer",
        True,
    ),
)


class Reason(NamedTuple):
    """A few words; ``lost`` when the message may have arrived all the same."""

    words: str
    lost: bool


def reason_of(logged: str) -> Reason:
    """Return why nothing was taken, from what the library logged (which is never shown)."""
    status = _STATUS.search(logged)
    if status is not None:
        return answered(int(status[1] or status[2]))
    smtp = _SMTP.search(logged)
    if smtp is not None:
        return Reason(f"the mail server refused it ({smtp[1]})", lost=False)
    for sign, words, lost in _SIGNS:
        if re.search(sign, logged, re.IGNORECASE):
            return Reason(words, lost)
    return Reason("it was not accepted", lost=False)


def answered(status: int) -> Reason:
    """Return the words for an HTTP status that is no success, or came with a wrong answer."""
    if 200 <= status < 300:
        return Reason("the answer is not from the service (is a proxy in between?)", lost=False)
    words = _STATUS_WORDS.get(status, "the service reports an error" if status >= 500 else "")
    return Reason(f"answered {status}" + (f": {words}" if words else ""), lost=False)
