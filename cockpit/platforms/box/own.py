"""What ``cockpit init`` can begin from on a box: the tmux sessions of this user there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from cockpit.model.jobs import OwnJob
from cockpit.platforms.base import CannotError
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

Run = Callable[..., Awaitable[Completed]]
"""``run_script(host, script, deadline=…, cap=…)``."""
DEADLINE: Final = 12.0
CAP: Final = 1_000_000
NO_TMUX: Final = 127
_SESSIONS: Final = f"""\
command -v tmux >/dev/null || exit {NO_TMUX}
LC_ALL=C; export LC_ALL
tmux -u list-panes -a -F '#{{pane_dead}}|#{{pane_current_command}}|#{{pane_current_path}}|\
#{{session_name}}' || ! tmux has-session"""
"""Dead or not, what runs in it, where, whose; a server that does not run has no session."""


async def own_jobs(run: Run, host: str) -> Sequence[OwnJob]:
    """Return the tmux sessions of a host, those in which something runs first.

    Raises ``CannotError``.
    """
    try:
        done = await run(host, _SESSIONS, deadline=DEADLINE, cap=CAP)
    except RemoteError as error:
        raise CannotError(str(error)) from None
    if done.rc == NO_TMUX:
        raise CannotError(f"{host}: tmux is not installed there")
    if done.rc != 0:
        said = clean(scrub(done.err.decode("utf-8", "replace")), 200)
        raise CannotError(f"{host}: tmux does not tell its sessions: {said}")
    panes: dict[str, list[tuple[bool, str, str]]] = {}
    for line in done.text.splitlines():
        fields = line.split("|")
        if len(fields) == 4:  # else a name or a folder holds the separator: not to be told apart
            dead, program, folder, name = fields
            panes.setdefault(name, []).append((dead == "1", program, folder))
    return sorted((_own(*each) for each in panes.items()), key=lambda job: job.text == "ended")


def _own(name: str, panes: list[tuple[bool, str, str]]) -> OwnJob:
    running = [program for dead, program, _ in panes if not dead]
    folders = {folder for _, _, folder in panes if folder.startswith("/")}
    shown = ", ".join(dict.fromkeys(running))
    return OwnJob(
        id=clean(name, 200),
        name=clean(scrub(name), 200),
        text=f"tmux session, runs {clean(scrub(shown), 120)}" if running else "ended",
        settings={"job.workdir": clean(folders.pop(), 4096)} if len(folders) == 1 else {},
    )
