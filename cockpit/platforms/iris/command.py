"""What an Iris command must say and what it must not (IRIS, SPEC A-2)."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.command import places_in
from cockpit.text.checks import blocked, passed, warned


def command_checks(run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return what speaks against an Iris command (IRIS, SPEC A-2).

    ``words`` are the recorded ones: a job name that holds a placeholder is no fixed one.
    """
    own = words[: words.index("--")] if "--" in words else words
    flags = {word.partition("=")[0] for word in own if word.startswith("--")}
    return [*_blocks(run, own, flags), *_job_name(own, flags)]


def _blocks(run: RunSpec, own: Sequence[str], flags: set[str]) -> list[Check]:
    found = []
    if "--no-wait" not in flags:
        found.append(blocked("iris:no-wait", "without --no-wait the command never returns",
                             Basis.RECORDED))  # fmt: skip
    name = (run.hardware or "").lower()
    is_tpu = "tpu" in name or (name[:1] == "v" and name[1:2].isdigit())
    on_tpu = "--reserve" in flags or is_tpu
    if on_tpu and "--tpu" not in flags:
        text = "a TPU run needs --tpu: --reserve holds capacity but attaches no devices"
        found.append(blocked("iris:tpu", text, Basis.RECORDED))
    extras = [
        value
        for place, word in enumerate(own)
        if word.partition("=")[0] == "--extra"
        for value in (word.partition("=")[2] or "".join(own[place + 1 : place + 2]),)
    ]
    if "marin-core:cpu" in extras:
        text = "--extra marin-core:cpu replaces the accelerator's libraries: leave it out"
        found.append(blocked("iris:extra", text, Basis.RECORDED))
    return found


def _job_name(own: Sequence[str], flags: set[str]) -> list[Check]:
    if "--job-name" not in flags:
        text = "without --job-name Iris names the job itself: it can only be found by its answer"
        return [warned("iris:job-name", text, Basis.RECORDED)]
    place = next(i for i, word in enumerate(own) if word.partition("=")[0] == "--job-name")
    name = own[place].partition("=")[2] or "".join(own[place + 1 : place + 2])
    if "launch_id" in places_in([name]):
        return [passed("iris:job-name", "each launch has a job name of its own", Basis.RECORDED)]
    text = f"the job name {name} is fixed: Iris replaces the finished job of that name"
    return [warned("iris:job-name", text, Basis.RECORDED, name)]
