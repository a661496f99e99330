"""A system that the demo's trainings run on, and the demo's folder there. All calls block."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from cockpit.demo.folder import TRAINING
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.hosts.script import run_script_blocking
from cockpit.model.place import on_host
from cockpit.platforms.base import CannotError, LostError
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

TIME_LIMIT: Final = 3600
"""Seconds after which a training leaves by itself: a forgotten demo ends."""
OLDEST: Final = (3, 10)
"""The Python that the training needs at least."""
LOOK_EVERY: Final = 1.0


@dataclass(frozen=True)
class Ground:
    """What the trainings find where they run.

    ``folder`` (absolute) holds code and runs: on ``host`` (an ssh alias), or in sight of this
    machine, or neither (``seen`` is False: of what lies there nothing can be read from here).
    ``tracker`` says that W&B's client is installed there.
    """

    folder: str
    python: str
    host: str | None = None
    tracker: bool = True
    seen: bool = True

    def place(self, *parts: str) -> str:
        """Return how a run file names what lies in the folder."""
        return str(on_host(self.host, "/".join((self.folder, *parts))))

    def words(self, situation: Situation) -> tuple[str, ...]:
        """Return the training command, to be started in the folder of the code."""
        own = ("-E",) if self.python == sys.executable else ()
        config = f"../runs/{situation.name}/config.json"
        limit = ("--time-limit", str(TIME_LIMIT))
        start = (self.python, *own, "-m", "cockpit.demo.trainer", "--config", config)
        return (*start, *situation.faults, *limit)


class Site(ABC):
    """One system. Every call raises ``CannotError`` (nothing was done) or ``LostError``."""

    kind: ClassVar[str]
    where: str
    """How a person calls it."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What names it again: the arguments of its class."""

    @abstractmethod
    def look(self, layout: DemoLayout, token: str) -> Ground:
        """Ask the system once whether the demo can run there, and return where.

        The demo's folder exists; its journal holds the token.
        """

    @abstractmethod
    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Put what the trainings need where they run."""

    @abstractmethod
    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return ``[run.job]`` but for its kind."""

    @abstractmethod
    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the command that starts the training again, as a run file holds it."""

    @abstractmethod
    def submit(self, situation: Situation, ground: Ground) -> str:
        """Submit the training under its launch id, once; return the system's own id."""

    @abstractmethod
    def living(self, token: str) -> Mapping[str, str]:
        """Return all jobs of a demo that run or wait: what stops each, and what it is called."""

    @abstractmethod
    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Tell these jobs to end; those that are gone are no error."""

    @abstractmethod
    def forget(self, token: str) -> None:
        """Remove what the system remembers of the demo's jobs, where that can be."""

    @abstractmethod
    def clear(self, ground: Ground) -> None:
        """Remove the folder there, if it is not this machine's."""

    def stop_all(self, token: str, patience: float) -> list[str]:
        """Stop every job of a demo; return the names of those that still live after ``patience``.

        Gently at first, so that they save and leave by themselves.
        """
        until = time.monotonic() + patience
        told: dict[str, float] = {}
        while living := self.living(token):
            now = time.monotonic()
            if now >= until:
                break
            new = [each for each in living if each not in told]
            late = [each for each in living if now - told.get(each, now) > patience / 2]
            if new:
                self.stop(new, gently=True)
                told |= dict.fromkeys(new, now)
            elif late:
                self.stop(late, gently=False)
            time.sleep(LOOK_EVERY)
        return sorted(living.values())


def is_own(name: str, token: str) -> bool:
    """Tell whether a job's name, or its launch id, is one of this demo."""
    return re.fullmatch(rf"demo-[a-z]+-{re.escape(token)}(-i\d+)?", name) is not None


DEADLINE: Final = 20.0
SCRIPT: Final = "job.sh"
NO_HOME: Final = 90
_LOOK: Final = """\
cd && pwd -P || exit {no_home}
{python} -c 'import sys; print(*sys.version_info[:2])
from importlib.util import find_spec; print(find_spec("wandb") is not None)' || exit 91
"""


def look_script(python: str) -> str:
    """Return a script that prints what ``ground_of`` reads."""
    return _LOOK.format(python=quote(python), no_home=NO_HOME)


def ran(host: str | None, script: str, *, stdin: bytes | None = None) -> Completed:
    """Run a script on a host (``None``: here), however it ends.

    Raises ``CannotError`` when it surely has not run, ``LostError`` when that is not known.
    """
    try:
        return run_script_blocking(host, script, deadline=DEADLINE, stdin=stdin)
    except RemoteError as error:
        raise (LostError if error.sent else CannotError)(str(error)) from None


def asked(host: str | None, script: str) -> Completed:
    """Run a script that changes nothing; raises ``CannotError`` whatever became of it."""
    try:
        return ran(host, script)
    except LostError as error:
        raise CannotError(str(error)) from None


def last_error(done: Completed) -> str:
    """Return the last line of what a command has complained of, made safe."""
    lines = [line for line in done.err.decode("utf-8", "replace").splitlines() if line.strip()]
    return clean(scrub(lines[-1]), 300) if lines else f"it ended with status {done.rc}"


def look(host: str, token: str, python: str) -> Ground:
    """Return where on a host a demo can run; raises ``CannotError`` if it cannot."""
    done = asked(host, look_script(python))
    if done.rc == NO_HOME:
        raise CannotError(f"{host}: the home folder there cannot be entered: {last_error(done)}")
    if not done.ok:
        text = f"{host}: {clean(python, 200)} cannot be used there: {last_error(done)}"
        raise CannotError(f"{text}; name another one with --python")
    return replace(ground_of(done.text, host, token, python), host=host)


def ground_of(told: str, where: str, token: str, python: str) -> Ground:
    """Return the ground that a machine tells of; raises ``CannotError`` if it is none."""
    lines = told.split("\n")
    version = tuple(int(part) for part in lines[1].split() if part.isdecimal()) if lines[1:] else ()
    if len(lines) < 3 or not version or not lines[0].startswith("/"):
        text = f"{where}: {clean(python, 200)} cannot be used there: {clean(told.strip(), 200)}"
        raise CannotError(f"{text}; name another one with --python")
    if version < OLDEST:
        found, needed = ".".join(map(str, version)), ".".join(map(str, OLDEST))
        text = f"{where}: {clean(python, 200)} is Python {found}, the training needs {needed}"
        raise CannotError(f"{text}; name another one with --python")
    folder = f"{lines[0].rstrip('/')}/.cockpit-demo-{token}"
    return Ground(folder=folder, python=python, tracker=lines[2] == "True")


def send(layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
    """Send code, configs and job scripts to the folder on the host; raises ``CannotError``."""
    folder = quote(ground.folder)
    script = f"umask 077; mkdir -p {folder} && cd {folder} && tar xf -"
    done = ran(ground.host, script, stdin=packed(layout, situations))
    if not done.ok:
        raise CannotError(f"{ground.host}:{ground.folder} cannot be written: {last_error(done)}")


def packed(layout: DemoLayout, situations: Sequence[Situation]) -> bytes:
    """Return an archive of code, configs and the job scripts that there are."""
    package = layout.code / "cockpit"
    files = [package / "__init__.py", *(package / "demo" / name for name in TRAINING)]
    for situation in situations:
        places = layout.run(situation.name)
        script = places.folder / SCRIPT
        files += [places.config, *([script] if script.exists() else [])]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in files:
            archive.add(file, str(file.relative_to(layout.folder)))
    return buffer.getvalue()


def remove(ground: Ground) -> None:
    """Remove the folder from the host; raises ``CannotError``, ``LostError``.

    A supervisor notes the end of its job a moment after that: it may write while all is removed.
    """
    folder = quote(ground.folder)
    again = f"{{ sleep 1; rm -rf -- {folder}; }}"
    done = ran(ground.host, f"rm -rf -- {folder} 2>/dev/null || {again}; test ! -e {folder}")
    if not done.ok:
        raise CannotError(f"{ground.host}:{ground.folder} could not be removed: {last_error(done)}")


def python_of(host: str | None, given: str | None) -> str:
    """Return the Python that trains: the one that was named, else this one here, theirs there."""
    return given or (sys.executable if host is None else "python3")
