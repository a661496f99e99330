"""What an Iris command must say and what it must not (IRIS, SPEC A-2)."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.command import places_in
from cockpit.platforms.iris.spelling import JOB_NAME, USER, Parts, parts_of, user_for
from cockpit.text.checks import blocked, passed, warned


def command_checks(run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return what speaks against an Iris command (IRIS, SPEC A-2).

    ``words`` are the recorded ones: a job name that holds a placeholder is no fixed one.
    """
    parts = parts_of(words)
    if not parts.calls_iris:
        return _script(words)
    return [*_blocks(run, parts), *_job_name(parts), *_lost(parts), *_user(run, parts)]


def _script(words: Sequence[str]) -> list[Check]:
    """Return what is said of a script that calls Iris in its own way."""
    if "launch_id" in places_in(words):
        text = "the words do not call iris … job run: what they call must name the job {launch_id}"
        return [warned("iris:job-name", text, Basis.RECORDED)]
    text = "the words neither call iris … job run nor hold {launch_id}: whether a lost answer"
    text += " had started a job could never be told"
    return [blocked("iris:job-name", text, Basis.RECORDED)]


def _blocks(run: RunSpec, parts: Parts) -> list[Check]:
    found = []
    if not parts.has("--no-wait"):
        found.append(blocked("iris:no-wait", "without --no-wait the command never returns",
                             Basis.RECORDED))  # fmt: skip
    name = (run.hardware or "").lower()
    is_tpu = "tpu" in name or (name[:1] == "v" and name[1:2].isdigit())
    if (parts.has("--reserve") or is_tpu) and not parts.has("--tpu"):
        text = "a TPU run needs --tpu: --reserve holds capacity but attaches no devices"
        found.append(blocked("iris:tpu", text, Basis.RECORDED))
    if "marin-core:cpu" in parts.values("--extra"):
        text = "--extra marin-core:cpu replaces the accelerator's libraries: leave it out"
        found.append(blocked("iris:extra", text, Basis.RECORDED))
    return found


def _job_name(parts: Parts) -> list[Check]:
    name = parts.value(JOB_NAME)
    if name is None:
        text = f"{JOB_NAME} {{launch_id}} is added: each launch has a job name of its own"
        return [passed("iris:job-name", text, Basis.RECORDED)]
    if "launch_id" in places_in([name]):
        return [passed("iris:job-name", "each launch has a job name of its own", Basis.RECORDED)]
    text = f"the job name {name} is fixed: Iris replaces the finished job of that name, and a lost"
    text += " answer takes a minute to settle; {launch_id} in it avoids both"
    return [warned("iris:job-name", text, Basis.RECORDED, name)]


def _lost(parts: Parts) -> list[Check]:
    """Say beforehand what a look-up may leave on the controller."""
    name = parts.value(JOB_NAME)
    if name is not None and "launch_id" not in places_in([name]):
        return []
    text = (
        "should its answer be lost, its name is closed by a job of yours that waits for a day and"
    )
    text += " never runs, nor wants an accelerator; where Iris' own workers do not place all tasks"
    return [passed("iris:lost", f"{text}, it takes a minute of answers instead", Basis.RECORDED)]


def _user(run: RunSpec, parts: Parts) -> list[Check]:
    told, recorded = parts.value(USER), user_for(run)
    if told is None or run.job is None or not run.job.id or told == recorded:
        return []
    text = f"{USER} {told} makes the job another user's than the recorded {run.job.id}: its"
    return [blocked("iris:user", f"{text} lineage would not be seen together", Basis.RECORDED)]
