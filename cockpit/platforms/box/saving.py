"""Asks a living job of an ssh host for a checkpoint: by a signal, or by a command on the host."""

from __future__ import annotations

from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.ending import TICKS, BoxEnding
from cockpit.platforms.box.launching import Script, variables, word_of
from cockpit.platforms.box.words import spelled
from cockpit.platforms.command import WITHIN, ended, save_words
from cockpit.platforms.local.launcher.ending import ProcessTarget, addressed
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError
from cockpit.text.safe import clean

ASKED: Final = 15.0
SPARE: Final = 10.0
NUMBERS: Final = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "USR1": 10,
    "USR2": 12,
    "ALRM": 14,
    "TERM": 15,
    "CONT": 18,
    "URG": 23,
    "XCPU": 24,
    "VTALRM": 26,
    "PROF": 27,
    "WINCH": 28,
    "IO": 29,
}
"""Signals by their numbers on the host, which runs Linux, whatever runs here."""
_ASK: Final = """\
p={pid}
[ "$(ticks $p)" = {ticks} ] || {{ echo gone; exit; }}
c=$(sed -n 's/^SigCgt:[[:space:]]*[0-9a-f]*\\([0-9a-f]\\{{8\\}}\\)$/\\1/p' /proc/$p/status)
[ $((0x${{c:-0}} >> {bit} & 1)) -eq 1 ] || {{ echo deaf; exit; }}
kill -s {name} $p 2>/dev/null && echo asked || echo refused"""


def signal_name(name: str) -> str:
    """Return ``USR1`` for ``USR1``, ``SIGUSR1`` or ``10``; raises ``CannotError``."""
    plain = name.upper().removeprefix("SIG")
    named = next((word for word, number in NUMBERS.items() if plain in (word, str(number))), None)
    if named is None:
        raise CannotError(f"job.save_signal: there is no signal {clean(name, 40)}")
    return named


async def by_signal(ending: BoxEnding, send: Script, job: JobSpec, target: ProcessTarget) -> None:
    """Signal the trainer alone, and only if it listens: unheard, most signals kill."""
    assert job.save_signal is not None
    name = signal_name(job.save_signal)
    try:
        processes = (await ending.look()).processes
    except LostError as error:
        raise CannotError(f"{error}; it was not asked to save") from error
    main = processes.get(target.pid)
    if main is None or main.ticks != target.ticks:
        raise CannotError(f"pid {target.pid} is gone")
    meant = [one for one in addressed(processes, main) if one is not main] or [main]
    if len(meant) > 1:
        pids = ", ".join(str(one.pid) for one in meant)
        raise CannotError(f"a shell runs several processes ({pids}): which is the trainer?")
    trainer = meant[0]
    script = TICKS + _ASK.format(
        pid=trainer.pid, ticks=trainer.ticks, bit=NUMBERS[name] - 1, name=name
    )
    said = await _asked(send, job, script, ASKED)
    if said != "asked":
        why = {
            "gone": "is gone",
            "deaf": f"does not handle SIG{name} (yet): it could kill it",
        }.get(said, f"cannot be sent SIG{name}")
        raise CannotError(f"pid {trainer.pid} {why}")


async def _asked(send: Script, job: JobSpec, script: str, within: float) -> str:
    try:
        return (await send(job.host, script, deadline=within)).text.strip()
    except RemoteError as error:
        if error.sent:
            raise LostError(f"no answer when it was asked to save: {error}") from error
        raise CannotError(f"{error}; it was not asked to save") from error


async def by_command(send: Script, run: RunSpec, job: JobSpec, live: LiveJob) -> None:
    """Run ``job.save_command`` on the host, in its working folder."""
    assert job.save_command is not None
    words = save_words(run, job.save_command, live)
    unset = "\n".join(
        f'[ -n "${{{name}+x}}" ] || {{ echo "uses \\${name}, which is not set"; exit 125; }}'
        for name in variables(words)
    )
    workdir = job.workdir or run.workdir
    enter = "" if workdir is None else f"cd -- {spelled(workdir)} || exit 125"
    command = " ".join(word_of(word, first=not at) for at, word in enumerate(words))
    script = f"{LIMITED}{unset}\n{enter}\nlimited {WITHIN} {command} 2>&1"
    try:
        done = await send(job.host, script, deadline=WITHIN + SPARE)
    except RemoteError as error:
        if error.sent:
            raise LostError(f"job.save_command has not answered: {error}") from error
        raise CannotError(f"{error}; it was not asked to save") from error
    if done.rc == TIMED_OUT:
        raise LostError(f"job.save_command did not end within {WITHIN} s")
    if done.rc:
        raise ended(done.rc, done.out)
