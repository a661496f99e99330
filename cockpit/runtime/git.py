"""Plain ``git`` as everything here calls it: never prompts, pages or waits for ever.

Takes nothing from a ``GIT_DIR`` or ``GIT_INDEX_FILE`` that this process was started with (a hook,
a rebase): ``folder`` says which repository is meant, ``env`` what is to be another.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cockpit.runtime.shell import Completed, run_command
from cockpit.runtime.ssh_session import quote

CAP: Final = 64_000_000
LOW_SPEED: Final = ("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=10")
"""Options for a call over the network: a transfer that stands still is given up."""
READING: Final = {"GIT_OPTIONAL_LOCKS": "0"}
"""Environment of a call that must not write, not even a fresher index."""
_QUIET: Final = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_NO_HOOKS: Final = ("-c", "core.hooksPath=/dev/null")
"""Options of a call that only looks: a repository's own programs are not run by it.

``git diff`` refreshes the index whatever it was told, and that alone runs ``post-index-change``.
"""
_ENV: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C.UTF-8",
}
_MISLEADING: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
_SSH: Final = "-o BatchMode=yes -o ConnectTimeout=10"


async def run_git(
    folder: Path | str,
    *words: str,
    deadline: float,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cap: int = CAP,
    hooks: bool = True,
) -> Completed:
    """Run ``git`` in ``folder`` and return how it ended; at most ``cap`` bytes of its output."""
    given = {**_ENV, **(env or {})}
    quiet = _QUIET if hooks else (*_QUIET, *_NO_HOOKS)
    stray = (name for name in _MISLEADING if name in os.environ and name not in given)
    unset = [word for name in stray for word in ("-u", name)]
    argv = (*(("env", *unset) if unset else ()), "git", *quiet, *words)
    return await run_command(argv, deadline=deadline, cwd=folder, env=given, stdin=stdin, cap=cap)


def script_line(
    folder: str, *words: str, env: Mapping[str, str] | None = None, hooks: bool = True
) -> str:
    """Return a ``git`` call for a host's shell, behind what keeps it from asking; all quoted.

    ``folder`` is a word of that shell already; what would lead git elsewhere is unset.
    """
    given = {**_ENV, **(env or {})}
    unset = (word for name in _MISLEADING for word in ("-u", name))
    named = (f"{name}={value}" for name, value in given.items())
    quiet = _QUIET if hooks else (*_QUIET, *_NO_HOOKS)
    before = " ".join(map(quote, ("env", *unset, *named, "git", *quiet)))
    return f"{before} -C {folder} {' '.join(map(quote, words))}"


async def quiet_ssh(folder: Path | str, deadline: float) -> dict[str, str]:
    """Return what keeps ssh from asking, for ``env``; a program that is not ssh is left alone."""
    if "GIT_SSH" in os.environ and "GIT_SSH_COMMAND" not in os.environ:
        return {}
    said = os.environ.get("GIT_SSH_COMMAND")
    if not said:
        done = await run_git(folder, "config", "--get", "core.sshCommand", deadline=deadline)
        said = done.text.strip() or "ssh"
    try:
        program = Path(shlex.split(said)[0]).name
    except (ValueError, IndexError):
        return {}
    return {"GIT_SSH_COMMAND": f"{said} {_SSH}"} if program == "ssh" else {}


def quiet_ssh_lines(folder: str) -> str:
    """Return what does the same as ``quiet_ssh`` in a host's shell, before a ``script_line``."""
    asked = script_line(folder, "config", "--get", "core.sshCommand")
    return f"""\
if [ -n "$GIT_SSH_COMMAND" ] || [ -z "$GIT_SSH" ]; then
  _c=${{GIT_SSH_COMMAND:-$({asked})}} _c=${{_c:-ssh}} _p=${{_c%% *}}
  case ${{_p##*/}} in ssh) GIT_SSH_COMMAND="$_c {_SSH}"; export GIT_SSH_COMMAND ;; esac
fi
"""
