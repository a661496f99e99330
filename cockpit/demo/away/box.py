"""The demo on an ssh host: processes of its own there, each with pid file, log and exit file."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.config.file import load
from cockpit.demo.away import hosts
from cockpit.demo.away.site import Ground, Site, is_own
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.model.lineage import tag_of
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, LINEAGE, RUN
from cockpit.text.safe import clean

_SCRIPT: Final = """\
#!/bin/sh
# Starts the training and waits for it: run.pid names its process, run.exit says how it ended.
cd {code} || exit
{launch_id}=${{1:?}} {run}={name} {lineage}={tag}
export {launch_id} {run} {lineage}
{command} </dev/null >>{folder}/run.log 2>&1 &
pid=$!
printf '%s\\n' "$pid" "launch_id=${launch_id}" >{folder}/run.pid.new
mv {folder}/run.pid.new {folder}/run.pid
wait "$pid"
echo "$?" >{folder}/run.exit.new && mv {folder}/run.exit.new {folder}/run.exit
"""
_START: Final = """\
cd {folder} || exit
mkdir .launched-{launch_id} || exit 76
start=nohup; command -v setsid >/dev/null && start=setsid
$start sh job.sh {launch_id} </dev/null >/dev/null 2>&1 &
n=0; while [ ! -s run.pid ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
head -n 1 run.pid
"""
_UNLOCK: Final = """\
cd "/tmp/cockpit-locks-$(id -u)" || exit 0
grep -ls -- {pattern} ./*.lock | while read -r f; do rm -f "$f"; done
"""
_LIVING: Final = 'LC_ALL=C ps -u "$(id -u)" -o pid= -o args='


class BoxSite(Site):
    """An ssh host, by the name that the user's own ssh knows it by."""

    kind: ClassVar[str] = "box"

    def __init__(self, host: str, python: str | None = None) -> None:
        self._host, self._python = host, python
        self.where = clean(host, 200)

    @property
    def settings(self) -> dict[str, Any]:
        """The host and its Python."""
        return {"host": self._host, "python": self._python}

    def look(self, layout: DemoLayout, token: str) -> Ground:
        """Ask the host for its Python."""
        return hosts.look(self._host, token, hosts.python_of(self._host, self._python))

    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Write the scripts that start the trainings, and send everything."""
        specs = {run.name: run for run in load(layout.run_file).runs}
        for situation in situations:
            text = _SCRIPT.format(
                code=shlex.quote(f"{ground.folder}/code"),
                folder=shlex.quote(_folder(situation, ground)),
                name=situation.name,
                tag=shlex.quote(tag_of(specs[situation.name])),
                command=shlex.join(ground.words(situation)),
                launch_id=LAUNCH_ID,
                run=RUN,
                lineage=LINEAGE,
            )
            (layout.run(situation.name).folder / hosts.SCRIPT).write_text(text, encoding="utf-8")
        hosts.send(layout, ground, situations)

    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return the files that tell of the training."""
        folder = _folder(situation, ground)
        files = {
            name: f"{folder}/run.{end}"
            for name, end in (("log", "log"), ("pid_file", "pid"), ("exit_file", "exit"))
        }
        words = {"workdir": f"{ground.folder}/code", "save_signal": "USR1"}
        return {"host": self._host, **files, **words}

    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the training command."""
        return list(ground.words(situation))

    def submit(self, situation: Situation, ground: Ground) -> str:
        """Start the training detached; return its process id there."""
        script = _START.format(
            folder=shlex.quote(_folder(situation, ground)), launch_id=situation.launch_id
        )
        done = hosts.ran(self._host, script)
        pid = done.text.strip()
        if done.ok and pid.isdecimal():
            return pid
        text = f"{self.where}: {situation.name} was not started: {hosts.said(done)}"
        raise LostError(text)

    def living(self, token: str) -> Mapping[str, str]:
        """Return our processes whose command line names a run of this demo, by process id."""
        done = hosts.asked(self._host, _LIVING)
        if not done.ok:
            raise CannotError(f"{self.where}: ps: {hosts.said(done)}")
        rows = (line.split() for line in done.text.splitlines())
        named = {words[0]: _run_of(words[1:]) for words in rows if words and words[0].isdecimal()}
        return {pid: name for pid, name in named.items() if is_own(name, token)}

    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Send a signal to exactly these processes."""
        number = signal.SIGTERM if gently else signal.SIGKILL
        hosts.ran(self._host, f"kill -{number} {shlex.join(ids)} 2>/dev/null; :")

    def forget(self, token: str) -> None:
        """Nothing is remembered but what lies in the folder."""

    def clear(self, ground: Ground) -> None:
        """Remove the folder from the host, and what its runs' locks have left."""
        hosts.remove(ground)
        pattern = f"^launch_id=demo-[a-z]*-{ground.folder.rpartition('-')[2]}-i"
        hosts.ran(self._host, _UNLOCK.format(pattern=shlex.quote(pattern)))


def _folder(situation: Situation, ground: Ground) -> str:
    return f"{ground.folder}/runs/{situation.name}"


def _run_of(words: Sequence[str]) -> str:
    """Return the run that a training's command line names, empty for any other process."""
    if "cockpit.demo.trainer" not in words or "--config" not in words[:-1]:
        return ""
    parts = words[words.index("--config") + 1].split("/")
    return parts[-2] if parts[-1] == "config.json" and len(parts) > 1 else ""
