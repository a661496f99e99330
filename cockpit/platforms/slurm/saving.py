"""Asks a job of Slurm to save: by a signal to its steps, or by a command on its host (SPEC A-5).

A signal goes to the steps of srun alone. ``scancel --full`` would reach the batch shell too, which
dies of it and ends the job; a trainer that the batch script starts without srun hears nothing.
"""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.local.platform import signal_number
from cockpit.platforms.saving import NO_WAY, WITHIN, save_words
from cockpit.platforms.slurm.ask import Run
from cockpit.platforms.slurm.command import for_shell, variables_of
from cockpit.platforms.slurm.jobs import STEPS
from cockpit.platforms.slurm.script import CONTROLLER, PATHS, new_mark
from cockpit.platforms.slurm.stopping import target_of
from cockpit.platforms.slurm.submitting import SLACK, acted
from cockpit.platforms.slurm.trouble import last_words
from cockpit.runtime.ssh import LIMITED, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_LATE: Final = re.compile("timed out|Message receive|send/recv|Zero Bytes|Connection reset", re.I)
_BEGIN: Final = (
    f"{PATHS}\n" + 'say() { printf \'\\n%s %s\\n\' "$mark" "$*"; }\nexec 4>&1\n' + LIMITED
)
_ASK: Final = """\
cd {workdir} 2>/dev/null || {{ say folder; say end; exit; }}
for name in {variables}; do
eval "[ \\"\\${{$name+x}}\\" ]" || {{ say unset; echo "$name"; say end; exit; }}
done
say said; limited {limit} {words} >&4 2>&1 4>&- </dev/null; rc=$?
say rc; echo $rc
say end
"""


def why_not(run: RunSpec, job: LiveJob) -> str | None:
    """Return why a living job cannot be asked to save now; ``None``: it can."""
    spec = run.job
    if spec is None or not (spec.save_signal or spec.save_command):
        return NO_WAY
    if spec.save_command or job.handle.get(STEPS) == "yes":
        return None
    text = f"job {job.id} runs no step of srun, and no other process of it hears a signal"
    return f"{text}; name job.save_command, such as scancel --batch -s USR1 {{job_id}}"


async def save(ask: Run, run: RunSpec, job: LiveJob) -> None:
    """Ask by ``save_command``, else by ``save_signal``; raises ``CannotError``, ``LostError``."""
    why, spec = why_not(run, job), run.job
    if why is not None or spec is None:
        raise CannotError(why or "no job in cockpit.toml")
    if spec.save_command:
        words, limit = save_words(run, spec.save_command, job, target_of(job)), WITHIN
    else:
        number = int(signal_number(spec.save_signal or ""))
        words, limit = ["scancel", f"--signal={number}", target_of(job)], CONTROLLER
    own = spec.workdir or run.workdir
    mark = new_mark()
    script = f"mark={mark}\n{_BEGIN}" + _ASK.format(
        workdir=quote("." if own is None else own.path),
        variables=" ".join(variables_of(words)),
        limit=limit,
        words=for_shell(words),
    )
    found = await acted(ask, spec.host, script, mark, limit + SLACK)
    _judge(found, words[0])


def _judge(found: dict[str, str], name: str) -> None:
    if "folder" in found:
        raise CannotError("the working folder does not exist: job.save_command was not run")
    if "unset" in found:
        variable = clean(found["unset"].strip(), 80)
        raise CannotError(f"job.save_command uses ${variable}, which is not set there")
    code, said = found.get("rc", "").strip(), found.get("said", "")
    told = last_words(said)
    if code == "0" and not _LATE.search(said):
        return
    if code == "124" or _LATE.search(said):
        raise LostError(f"no answer when it was asked to save: {told or name}")
    raise CannotError(f"{scrub(clean(name, 80))} ended with {code}: {told}")
