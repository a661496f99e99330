"""A shell behind any program: two streams of which each ends at a time of its own."""

from __future__ import annotations

from cockpit.runtime.awake import Awake
from cockpit.runtime.ssh_session import Session, reading_once

SCRIPT = "cat; echo why >&2; exit 3"
LATE_ERR = """\
exec 3>&1 4<&0 >/dev/null
{ sh -c "$0" <&4 2>&1 >&3 3>&- 4<&- | { exec 3>&- 4<&-; sleep 0.5; cat >&2; }; } &
exec 3>&- 4<&-; wait"""
"""Its output has come to an end when what it says on the other stream is still on its way."""


def test_what_has_answered_on_one_stream_first_has_not_broken_off() -> None:
    session = Session(["sh", "-c", LATE_ERR, reading_once(SCRIPT)])
    done = session.run_once(SCRIPT, b"given", Awake(20.0), 1000)
    assert (done.rc, done.out, done.err) == (3, b"given", b"why\n")
