"""A process of a host that was started by hand becomes the run's own: its pid file there says so.

As on this machine (``platforms.local.adopting``): the note has the process's own start, compared
on the host in the moment of writing.
"""

from __future__ import annotations

from typing import Final

from cockpit.model.jobs import NamedJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.ending import TICKS, BoxEnding
from cockpit.platforms.box.launching import Script
from cockpit.platforms.box.sight import on_its_host
from cockpit.platforms.box.words import spelled
from cockpit.platforms.local import adopting as here
from cockpit.platforms.local.launcher.detached import LAUNCH_ID
from cockpit.platforms.local.naming import arguments
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

WITHIN: Final = 20.0
_VARIABLES: Final = "tr '\\0' '\\n' </proc/{pid}/environ 2>/dev/null | grep -E '^({names})='; true"
_NOTE: Final = """\
p={pid}; P={place}
t=$(ticks "$p") || t=
[ -n "$t" ] && [ "$t" = {ticks} ] || {{ echo 'no|gone'; exit; }}
note() {{
  echo "$p"
  printf 'start=%s\\nticks=%s\\n' "$(($(sed -n 's/^btime //p' /proc/stat) + \
t / $(getconf CLK_TCK 2>/dev/null || echo 100)))" "$t"
  printf 'boot=%s\\n' "$(cat /proc/sys/kernel/random/boot_id)"
  printf 'machine=%s\\nhost=%s\\n' "$(cat /etc/machine-id)" "$(uname -n)"
  printf 'space=%s\\n' "$(readlink /proc/self/ns/pid)"
}}
mkdir -p -- "$(dirname -- "$P")" 2>/dev/null
note 2>/dev/null >"$P.$$.new" && mv -f -- "$P.$$.new" "$P" && {{ echo 'ok|'; exit; }}
rm -f -- "$P.$$.new"; echo 'no|write'
"""


async def named(ending: BoxEnding, send: Script, host: str, job_id: str) -> NamedJob:
    """Return what a host's process table tells of a process; never raises."""
    pid = here.pid_of(job_id)
    if pid is None:
        text = f"{clean(job_id, 60)} is not a process id of {host}; expected 4711"
        return NamedJob(id=job_id, text=text, lives=False)
    names = "|".join(here.TOLD)
    try:
        seen = await ending.look()
        done = await send(host, _VARIABLES.format(pid=pid, names=names), deadline=WITHIN)
    except (LostError, RemoteError) as error:
        return NamedJob(id=f"pid:{pid}", text=scrub(clean(str(error), 300)))
    one = seen.processes.get(pid)
    if one is None:
        return NamedJob(id=f"pid:{pid}", text=f"no process {pid} lives on {host}", lives=False)
    lines = (line.partition("=") for line in done.text.splitlines())
    told = {name: value for name, _, value in lines if value}
    command = " ".join(one.argv)
    return NamedJob(
        id=f"pid:{pid}",
        text=scrub(clean(f"process {pid} is running on {host}: {command}", 300)),
        lives=True,
        launch_id=told.get(LAUNCH_ID),
        started_at=seen.started_at(one),
        values=(*arguments(one.argv), *told.items()),
        handle={} if one.ticks < 0 else {here.TICKS: str(one.ticks)},
    )


async def adopt(send: Script, run: RunSpec, job: NamedJob) -> None:
    """Write the pid file of a process that still is the named one; raises as ``Platform.adopt``."""
    pid, spec = here.pid_of(job.id), run.job
    place, ticks = (None if spec is None else spec.pid_file), job.handle.get(here.TICKS)
    if pid is None or spec is None or place is None or not on_its_host(run, place):
        raise CannotError("job.pid_file must be set: where would the process be noted?")
    if ticks is None:
        raise CannotError(f"{spec.host} does not tell when process {pid} began: nothing was noted")
    script = TICKS + _NOTE.format(pid=pid, place=spelled(place), ticks=quote(ticks))
    try:
        done = await send(spec.host, script, deadline=WITHIN)
    except RemoteError as error:
        noted = "cannot tell whether it was noted" if error.sent else "nothing was noted"
        raise CannotError(f"{error}; {noted}") from error
    said = done.text.strip().splitlines()[-1:]
    if said == ["no|gone"]:
        raise CannotError(f"process {pid} has ended meanwhile; nothing was noted")
    if said != ["ok|"]:
        why = clean(done.err.decode("utf-8", "replace").strip() or "nothing", 200)
        raise CannotError(f"{place}: cannot be written (the host said: {scrub(why)})")
