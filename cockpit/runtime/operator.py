"""Who acts: the run file's word, else git's ``user.name``, else the account's name."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.run import CockpitFile
from cockpit.runtime.login import login_name
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

ANSWER: Final = 4.0
"""Seconds that git may take to say who its user is."""
ASK: Final = ("git", "--no-pager", "config", "--get", "user.name")
SAY_SO: Final = 'operator = "..." under [cockpit] in the run file says it'


class Operator(NamedTuple):
    """Who acts, and what a person should know of how that was found, if anything."""

    name: str
    notice: str | None = None


async def ask_operator(file: CockpitFile) -> Operator:
    """Return who acts, masked; a git that is not there, or hangs, leaves the account's name.

    Not asked while loading the run file: git takes longer than all the rest of it. Never raises.
    """
    if file.operator:
        return Operator(file.operator)
    from cockpit.runtime.shell import run_command  # few sessions ask

    done = await run_command(
        ASK, deadline=ANSWER, cwd=Path(file.path).parent, env={"GIT_TERMINAL_PROMPT": "0"}
    )
    if done.timed_out:
        said = f"git did not say who you are within {ANSWER:g} s: you act as {login_name()}"
        return Operator(login_name(), f"{said}; {SAY_SO}")
    name = scrub(clean(done.text, 1000))[:100] if done.ok else ""
    return Operator(name or login_name())
