"""The command that would be run: there, whole, and fit for its orchestrator (SPEC A-2)."""

from __future__ import annotations

from cockpit.model.plan import Basis, Check
from cockpit.model.run import Command, RunSpec
from cockpit.platforms.base import CannotError, CommandError, Platform
from cockpit.platforms.command import as_sent, shown, words_of
from cockpit.text.checks import blocked, passed

ID = "resubmit"
NAME = "launch-id"


def ready(
    platform: Platform | None,
    run: RunSpec,
    command: Command | None,
    values: dict[str, str | None],
) -> tuple[list[Check], tuple[str, ...]]:
    """Return the checks on the recorded command, and its words as they would be run.

    The words are empty when it cannot be run, or when the platform cannot spell the launch id.
    Neither is ever overridable.
    """
    if command is None:
        text = "no resubmit command in cockpit.toml: add one that makes the trainer resume,"
        text += ' such as resubmit = "python train.py --resume"'
        return [blocked(ID, text, Basis.RECORDED)], ()
    try:
        plain = words_of(command)
        words = as_sent(platform, run, plain, values)
    except CommandError as error:
        return [blocked(ID, str(error), Basis.RECORDED)], ()
    except CannotError as error:
        return [blocked(NAME, str(error), Basis.RECORDED)], ()
    checks = [passed(ID, f"will run {shown(words)}", Basis.RECORDED)]
    if platform is not None:
        checks += platform.command_checks(run, plain)
    return checks, words
