"""What an entrypoint, or a submitter of the user's own, must say and must not (SPEC A-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.command import places_in
from cockpit.text.checks import blocked, passed, warned

OPERATORS: Final = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"})
FORGETS: Final = (
    "the head alone knows what was submitted: if it begins anew without a kept memory "
    "(GCS fault tolerance) it forgets that, and what became of a launch is unknown then"
)


def command_checks(run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return what speaks for and against the recorded words (placeholders unfilled)."""
    by_command = run.job is not None and run.job.resubmit_runs == "command"
    checks = _of_submitter(words) if by_command else _of_entrypoint(words)
    return [*checks, warned("ray:memory", FORGETS, Basis.RECORDED)]


def _of_entrypoint(words: Sequence[str]) -> Iterator[Check]:
    bare = next((word for word in words if word in OPERATORS), None)
    if bare is not None:
        text = f"{bare} means something to a shell, and no shell splits these words: "
        yield blocked("ray:shell", f'{text}write ["sh", "-c", "…"]', Basis.RECORDED)
    if _submits(words) is not None:
        text = 'the command submits a job itself: set resubmit_runs = "command" in [run.job]'
        yield blocked("ray:submitter", text, Basis.RECORDED)


def _of_submitter(words: Sequence[str]) -> Iterator[Check]:
    if "launch_id" not in places_in(words):
        text = "the submitter must name its job {launch_id}, as in --submission-id {launch_id}: "
        text += "only by its id can a launch be found, and kept from coming twice"
        yield blocked("ray:launch-id", text, Basis.RECORDED)
        return
    text = "the submitter names its job by the launch id; what came is looked up by it"
    yield passed("ray:launch-id", text, Basis.RECORDED)
    own = _submits(words)
    if own is not None and "--no-wait" not in own:
        text = "without --no-wait `ray job submit` follows the job and is ended by force"
        yield blocked("ray:no-wait", text, Basis.RECORDED)


def _submits(words: Sequence[str]) -> Sequence[str] | None:
    """Return the options of `ray job submit` in a command, ``None`` if it is none."""
    for place in range(len(words) - 2):
        program = words[place].rpartition("/")[2]
        if program == "ray" and tuple(words[place + 1 : place + 3]) == ("job", "submit"):
            rest = words[place + 3 :]
            return rest[: rest.index("--")] if "--" in rest else rest
    return None
