"""A demo's folder on an ssh host: is a Python there, the files sent, all of it removed again."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cockpit.demo.away.site import OLDEST, Ground
from cockpit.demo.folder import TRAINING
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.platforms.base import CannotError, LostError
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError, quote, run_script_blocking
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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


def said(done: Completed) -> str:
    """Return the last line of what a command has complained of, made safe."""
    lines = [line for line in done.err.decode("utf-8", "replace").splitlines() if line.strip()]
    return clean(scrub(lines[-1]), 300) if lines else f"it ended with status {done.rc}"


def look(host: str, token: str, python: str) -> Ground:
    """Return where on a host a demo can run; raises ``CannotError`` if it cannot."""
    done = asked(host, look_script(python))
    if done.rc == NO_HOME:
        raise CannotError(f"{host}: the home folder there cannot be entered: {said(done)}")
    if not done.ok:
        text = f"{host}: {clean(python, 200)} cannot be used there: {said(done)}"
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
        raise CannotError(f"{ground.host}:{ground.folder} cannot be written: {said(done)}")


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
        raise CannotError(f"{ground.host}:{ground.folder} could not be removed: {said(done)}")


def python_of(host: str | None, given: str | None) -> str:
    """Return the Python that trains: the one that was named, else this one here, theirs there."""
    return given or (sys.executable if host is None else "python3")
