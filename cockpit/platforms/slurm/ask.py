"""A cluster asked once: the script run where its commands are, the answer made into records."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.script import jobs_script, new_mark, parts_of
from cockpit.platforms.slurm.text import sacct_records, scontrol_records, squeue_records
from cockpit.platforms.slurm.trouble import Trouble, garbled, last_words, late, torn, trouble_of
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError

DEADLINE: Final = 16.0
"""Seconds for the whole question: more than Slurm's own patience, less than the poller's."""
CAP: Final = 32_000_000
_STEP: Final = re.compile(r"^(\S+)\.\d+$", re.MULTILINE)
Run = Callable[..., Awaitable[Completed]]
"""``run_script(host, script, deadline=…, cap=…)``."""


@dataclass(frozen=True)
class Told:
    """What a cluster has told: records by command, its machine's clock, and who asks there.

    ``no_accounting`` is why accounting was asked in vain.
    """

    queue: tuple[Record, ...]
    shown: tuple[Record, ...]
    accounted: tuple[Record, ...] = ()
    host_now: float | None = None
    uid: str = ""
    no_accounting: str | None = None
    stepped: frozenset[str] = frozenset()
    """The jobs that have a step of srun now, where that was asked."""


async def parts(
    run: Run, host: str | None, where: str, mark: str, script: str
) -> dict[str, str] | Trouble:
    """Return the parts of what a script answers, or why there is no whole answer."""
    try:
        done = await run(host, script, deadline=DEADLINE, cap=CAP)
    except RemoteError as error:
        if not error.sent:
            return Trouble(error.kind, f"{where}: {error}", "")
        said = parts_of(error.out.decode("utf-8", "replace"), mark).get("squeue.err", "")
        return trouble_of(where, said, 1) if said.strip() else late(where)
    found = parts_of(done.text, mark)
    return found if "end" in found else torn(where, len(done.out), done.cut)


async def ask(
    run: Run,
    host: str | None,
    where: str,
    wanted: Collection[str],
    *,
    steps: bool = False,
    needles: str = "",
) -> Told | Trouble:
    """Return what the cluster tells of my jobs, and of those wanted also from accounting.

    ``needles`` is an expression that picks jobs of other users. Never raises.
    """
    mark = new_mark()
    script = jobs_script(mark, wanted, steps=steps, needles=needles)
    found = await parts(run, host, where, mark, script)
    if isinstance(found, Trouble):
        return found
    if found.get("squeue.rc", "").strip() != "0":
        return trouble_of(where, found.get("squeue.err", ""), _number(found.get("squeue.rc", "")))
    try:
        queue = squeue_records(found.get("squeue.out", ""), mark)
        queue += squeue_records(found.get("theirs.out", ""), mark)
    except ValueError as error:
        return garbled(where, str(error))
    others = found.get("theirs.err", "")
    if found.get("theirs.rc", "0").strip() != "0" and not _is_empty(others):
        return trouble_of(where, others, _number(found["theirs.rc"]))
    shown = found.get("scontrol.out", "")
    if found.get("scontrol.rc", "").strip() != "0" and not _is_empty(shown):
        return trouble_of(where, shown, _number(found.get("scontrol.rc", "")))
    date = found.get("date", "").split()
    failed = "sacct.rc" in found and found["sacct.rc"].strip() != "0"
    return Told(
        queue=tuple(queue),
        shown=tuple(scontrol_records(shown, _alone(found))),
        accounted=tuple(sacct_records(found.get("sacct.out", ""), mark)),
        host_now=float(date[0]) if date and date[0].isdecimal() else None,
        uid=date[1] if len(date) > 1 else "",
        no_accounting=_without_accounting(found) if failed else None,
        stepped=frozenset(_STEP.findall(found.get("steps.out", ""))),
    )


def _alone(found: dict[str, str]) -> dict[str, str]:
    """Return what was told of a job that was asked for alone, by its number."""
    return {
        name.removeprefix("twice."): text for name, text in found.items() if name[:6] == "twice."
    }


def _is_empty(shown: str) -> bool:
    """Tell whether scontrol has only said that there are no jobs at all."""
    return "No jobs in the system" in shown or "Invalid job id" in shown


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 1


def _without_accounting(found: dict[str, str]) -> str:
    return last_words(found.get("sacct.err", "")) or "accounting did not answer in time"
