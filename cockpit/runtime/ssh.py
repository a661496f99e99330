"""Scripts for a POSIX shell, on another host through the user's own ssh, or on this machine.

One connection per host is shared by all that is asked there (``ssh_link``), and so are a few
shells on it, each of which runs one script at a time (``ssh_session``). Nothing ever asks a person
a question: what ssh cannot do by itself is an error that says what to run.

A script is killed by nobody but itself: what it starts on a host outlives a link that breaks and a
deadline that passes. Whatever may hang in it needs its own limit there (``timeout``).
"""

from __future__ import annotations

from typing import Final

from cockpit.model.facet import ErrorKind
from cockpit.runtime.awake import Awake
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed, run_blocking
from cockpit.runtime.ssh_link import link_to, started
from cockpit.runtime.ssh_session import EndedError, LateError, quote, reading_once
from cockpit.runtime.ssh_trouble import RemoteError, know_remedies, refusal, trouble, unreachable

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
