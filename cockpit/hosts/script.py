"""Scripts for a POSIX shell, on an ssh host through its agent, or on this machine.

Nothing ever asks a person a question: what ssh cannot do by itself is an error that says what to
run. The deadline of a script ends the wait for it, never the script: whatever may hang in it needs
a limit of its own there (``timeout``).
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Final

from cockpit.hosts.agent import LATE
from cockpit.hosts.link import WORDS, CallHost, NoPythonError, ask, call_blocking
from cockpit.model.facet import ErrorKind
from cockpit.model.late_regex import late_regex
from cockpit.model.place import Place
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed, run_blocking
from cockpit.runtime.ssh import (
    ASKING,
    ENV,
    RemoteError,
    checked,
    quote,
    refusal,
    trouble,
    unreachable,
    words,
)
from cockpit.text.safe import clean

SPARE: Final = 1.0
HERE: Final = "this machine"
SSH_FAILED: Final = 255
PLAINLY: Final = 600.0
"""Seconds for which a host without Python is asked without an agent."""
_plain_until: dict[str, float] = {}


def spelled(place: Place) -> str:
    """Return a path of the host as a shell's word; one that starts at the home is expanded."""
    path = place.path
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{quote(path[1:]) if path[1:] else ""}'
    return quote(f"./{path}" if path.startswith("-") else path)


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
    checked(host)
    if time.monotonic() < _plain_until.get(host, 0.0):
        return _plainly(host, script, deadline, cap, stdin)
    try:
        return script_call(host, script, deadline=deadline, cap=cap, stdin=stdin)
    except NoPythonError:
        _plain_until[host] = time.monotonic() + PLAINLY
        return _plainly(host, script, deadline, cap, stdin)


def script_call(
    host: str,
    script: str,
    *,
    deadline: float,
    cap: int,
    stdin: bytes | None = None,
    call: CallHost = call_blocking,
) -> Completed:
    """Do what ``run_script_blocking`` does on a host, by its agent and nothing else."""
    given = "" if stdin is None else stdin.decode("utf-8", "surrogateescape")
    size = len(script.encode("utf-8", "surrogateescape"))
    if size > LONG_WORD:
        script, given = _from_input(size), script + given
    asked = ask(
        "a script", "run", argv=["sh", "-c", script, ASKING], seconds=deadline, most=cap,
        stdin=given, kill=False, english=False,
    )  # fmt: skip
    try:
        status, out, err, cut = call(host, asked, deadline)
    except OSError as error:  # no sh, no process left
        text = clean(f"the script was not started: {error.strerror}", WORDS)
        raise trouble(host, ErrorKind.BAD_ANSWER, text) from error
    written, said = (text.encode("utf-8", "surrogateescape") for text in (out, err))
    if status == LATE:
        text = f"the script has not ended within {deadline:.2g} s"
        raise trouble(host, ErrorKind.TIMEOUT, text, sent=True, out=written)
    rc = status if status >= 0 else 128 - status
    return Completed(rc, written, said, cut=cut)


def _plainly(host: str, script: str, deadline: float, cap: int, stdin: bytes | None) -> Completed:
    """Run a script by one ssh of its own, for a host that has no Python for an agent.

    Its output begins behind a mark: what a login prints before is nobody's.
    """
    mark = f"cockpit-{secrets.token_hex(8)}\n".encode()
    begin = f"printf '\\n%s' {quote(mark.decode())}"
    text = f"{begin}; {begin} >&2\n{script}\n".encode("utf-8", "surrogateescape")
    command = f"exec sh -c '{_from_input(len(text))}' sh {ASKING}"
    done = run_blocking(
        [*words(host), "--", host, command], deadline=deadline, env=ENV,
        stdin=text + (stdin or b""), cap=cap + PLAIN_BANNER,
    )  # fmt: skip
    _, begun, out = done.out.partition(b"\n" + mark)
    before, begun_there, err = done.err.partition(b"\n" + mark)
    if done.timed_out:
        said = "the script has not ended" if begun else "no answer"
        late = f"{said} within {deadline:.2g} s"
        raise trouble(host, ErrorKind.TIMEOUT, late, sent=True, out=out)
    if not begun:
        error = refusal(host, before or err)
        error.sent = bool(begun_there) or done.cut or (done.rc == SSH_FAILED and _was_in(before))
        raise error
    if done.rc == SSH_FAILED and not err:
        error = unreachable(host, ErrorKind.REFUSED, "the connection broke off")
        error.sent, error.out = True, out
        raise error
    return Completed(done.rc, out[:cap], err[:cap], cut=done.cut or len(out) > cap)


PLAIN_BANNER: Final = 16_384
LONG_WORD: Final = 100_000
"""Bytes of a script that still is one word of a command: Linux takes 131,071."""
_NEVER_IN: Final = late_regex(
    "connect to host|resolve hostname|verification failed|permission denied|kex_exchange"
    "|banner exchange|unable to negotiate|bad owner or permissions|authentication failures",
    re.I,
)
"""What ssh says last where no login came about."""


def _was_in(said: bytes) -> bool:
    """Tell whether ssh may have logged in before it ended."""
    last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return _NEVER_IN.search(last) is None


def _from_input(size: int) -> str:
    """Return a script that runs the one of so many bytes at the begin of its input."""
    return f'eval "$(dd bs=1 count={size} 2>/dev/null)"'  # whatever else reads takes more


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
