"""C-22, host pressure: memory, disks and accelerators of the job's host, and a box that idles.

Each has its own identity. A share opens above its limit and closes ``SLACK`` below it, so that a
figure at the limit is one alert. What an answer does not contain neither opens nor closes an alert.

The fold remembers what one answer alone cannot show: a kernel counter matters only when it rises, a
list of accelerators only when it shrinks, and 0 % once is a pause between two steps. It is bounded
and takes constant time for each answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.facet import Facet
from cockpit.model.history import History, HostMark
from cockpit.model.lineage import newest_of
from cockpit.model.observed import Checkpoint, Disk, HostValue, JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.stall import step_stalled
from cockpit.rules.present import (
    CADENCES,
    phase_of,
    phase_since,
    seen_after_end,
    seen_at,
    still_open,
)


def of_job(mark: HostMark, job: JobValue | None) -> HostMark:
    """Return the mark of a job: what the one before it did to its host is no sign of this one."""
    whose = None if job is None else f"{job.id}@{job.started_at or 0:.0f}"
    return mark if mark.job == whose else HostMark(job=whose)


def recalled(job: JobValue | None, value: HostValue | None) -> HostMark:
    """Return the mark from what a cockpit before this one saw last: a job, and its host."""
    mark = of_job(HostMark(), job)
    seen = {} if value is None else {"oom_kills": value.oom_kills, "gpus": listed(value)}
    return mark.model_copy(update=seen)


def looked_at(mark: HostMark, seen: Facet[HostValue]) -> HostMark:
    """Return the mark after one more look; what it does not tell is as it was."""
    value, at = seen.value, seen.observed_at
    if value is None or at is None:
        return mark
    return mark.model_copy(update={**_kills(mark, value, at), **_accelerators(mark, value, at)})


def _kills(mark: HostMark, value: HostValue, at: float) -> dict[str, Any]:
    if value.oom_kills is None:
        return {}
    known = mark.oom_kills
    rose = known is not None and value.oom_kills > known
    return {"oom_kills": value.oom_kills, **({"oom_from": known, "oom_at": at} if rose else {})}


def _accelerators(mark: HostMark, value: HostValue, at: float) -> dict[str, Any]:
    if not answered(value):
        return {}
    used = [gpu.util_frac for gpu in value.gpus]
    idle = bool(used) and all(share == 0.0 for share in used)
    fewer = len(value.gpus) < max(mark.gpus, listed(value))
    return {
        "gpus": max(mark.gpus, listed(value)),
        "fewer_since": (mark.fewer_since or at) if fewer else None,
        "idle_since": (mark.idle_since or at) if idle else None,
    }


def listed(value: HostValue) -> int:
    """Return how many accelerators a look has found, with those that do not answer."""
    return len(value.gpus) + (value.gpus_lost or 0)


def answered(value: HostValue) -> bool:
    """Tell whether a look has counted the accelerators: also where it found none.

    One that took too long, or a machine without a program that lists them, has counted nothing.
    """
    return bool(value.gpus) or value.gpus_lost is not None


SLACK: Final = 0.02
"""How far (a share) a figure must come back below its limit before its alert closes."""
ROOM_AGAIN: Final = 1.1
"""How many times the room that is needed must be free again."""
NEAR: Final = 0.05
"""How near to its limit (a share) a figure is judged as soon as it moves."""
WORKS: Final = 0.05
"""The share of an accelerator from which on somebody uses it."""


def host_pressure(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-22: what presses on a living job; of one that is over only a rented box that bills."""
    value, phase = history.facets.host.value, phase_of(history)
    if value is None:
        own = (each for each in history.open if each.key.startswith(f"C-22:{run.name}:"))
        yield from () if phase.terminal else own
        return
    if phase.terminal:
        yield from _billed(run, history, value)
        return
    yield from _memory(run, history, value)
    yield from _disks(run, history, value)
    yield from _out_of_service(run, history, value)
    if phase is Phase.RUNNING:
        yield from _killed(run, history)
        yield from _lost(run, history, value)
        yield from _idle(run, history, value)


def at_ease(run: RunSpec, old: HostValue | None, new: HostValue | None) -> bool:
    """Tell whether two looks differ only in figures that are far from their limits (C-22)."""
    if old is None or new is None or _counts(old) != _counts(new):
        return False
    places = [[(each.mount, each.shared, each.holds) for each in one.disks] for one in (old, new)]
    return places[0] == places[1] and all(_far(run, each) for each in (old, new))


def _counts(value: HostValue) -> tuple[object, ...]:
    return value.oom_kills, value.out_of_service, value.gpus, value.gpus_lost, value.gpus_error


def _far(run: RunSpec, value: HostValue) -> bool:
    limit = run.thresholds.disk_frac - NEAR
    memory = value.mem_frac is not None and value.mem_frac < run.thresholds.mem_frac - NEAR
    return memory and not any(text for disk in value.disks for text in beyond(disk, limit))


def _memory(run: RunSpec, history: History, value: HostValue) -> Iterator[Alert]:
    key, limit, used = f"C-22:{run.name}:memory", run.thresholds.mem_frac, value.mem_frac
    former = still_open(history, key)
    if used is None:
        yield from () if former is None else (former,)
    elif used > limit - (0.0 if former is None else SLACK):
        text = f"{wording.percent(used)} of the limit used, caches not counted"
        text += f"; alert above {wording.percent(limit)}"
        yield _alert(
            history, key, "Job memory nearly full", text,
            next_action="reduce memory use (workers, prefetch, cache) before the kernel kills it",
        )  # fmt: skip


def _killed(run: RunSpec, history: History) -> Iterator[Alert]:
    """Yield for two cadences after the counter last rose: what was killed may be a worker of it."""
    mark, key = history.host, f"C-22:{run.name}:oom"
    if mark.oom_at is None or mark.oom_from is None or mark.oom_kills is None:
        former = still_open(history, key)
        yield from () if former is None or mark.oom_kills is not None else (former,)
        return
    if seen_at(history.facets.host, history.now) - mark.oom_at > CADENCES * run.cadence:
        return
    text = f"oom_kill counter {mark.oom_from} → {mark.oom_kills}"
    yield _alert(
        history, key, "OOM kill: the kernel killed a process",
        f"{text}, seen at {wording.moment(mark.oom_at)}", since=mark.oom_at,
        next_action="check which process is gone (dmesg, the log) and how much memory the job uses",
    )  # fmt: skip


def _disks(run: RunSpec, history: History, value: HostValue) -> Iterator[Alert]:
    """Yield one alert a disk, whatever it runs out of; a disk not in the answer keeps its state.

    A look that tells of no disk at all tells of none. Where several runs find the same disk of a
    machine full, one of them tells of it and names them; what the others say follows from that.
    """
    for disk in value.disks:
        key = disk_key(run, disk.mount)
        texts = tuple(_short_of(run, history, disk, still_open(history, key) is not None))
        if texts:
            found = _alert(
                history, key, f"Disk {disk.mount} nearly full", *texts,
                next_action=f"free space on {disk.mount}: old checkpoints first (retain "
                f"{run.name} lists them), before the next save is torn",
            )  # fmt: skip
            yield _among(found, history, disk.mount)
    told = {disk_key(run, disk.mount) for disk in value.disks}
    former = (each for each in history.open if each.key.startswith(disk_key(run, "")))
    yield from () if value.disks else (each for each in former if each.key not in told)


def disk_key(run: RunSpec, mount: str) -> str:
    """Return the identity of a run's alert about a disk of its machine."""
    return f"C-22:{run.name}:disk:{mount}"


def _among(found: Alert, history: History, mount: str) -> Alert:
    """Return the alert with the runs that have the same trouble, or with the one that tells it."""
    shared = next((each for each in history.full_disks if each.mount == mount), None)
    if shared is None:
        return found
    if shared.key != found.key:
        return found.model_copy(update={"caused_by": shared.key})
    title = f"Disk {mount} of {shared.machine} nearly full, used by {len(shared.runs)} runs"
    return found.model_copy(update={"title": title, "runs": shared.runs})


def beyond(disk: Disk, limit: float) -> Iterator[str]:
    """Yield what of a disk is used beyond a share of it: its bytes, its inodes."""
    if disk.used_frac > limit:
        yield f"{wording.percent(disk.used_frac)} used, {wording.size(disk.free)} free"
    if disk.inodes_frac is not None and disk.inodes_frac > limit:
        yield f"{wording.percent(disk.inodes_frac)} of inodes used"


def _short_of(run: RunSpec, history: History, disk: Disk, is_open: bool) -> Iterator[str]:
    limit = run.thresholds.disk_frac
    above = limit - (SLACK if is_open else 0.0)
    for text in beyond(disk, above):
        yield f"{disk.mount}: {text}; alert above {wording.percent(limit)}"
    newest, times = _newest_on(run, history, disk), run.thresholds.free_saves
    if newest is not None and newest.size:
        needed = times * newest.size * (ROOM_AGAIN if is_open else 1.0)
        if disk.free < needed:
            one = f"step {wording.step(newest.step)} is {wording.size(newest.size)}"
            yield f"{disk.mount}: {wording.size(disk.free)} free for {times:g} saves; {one}"


def _newest_on(run: RunSpec, history: History, disk: Disk) -> Checkpoint | None:
    """Return the newest complete checkpoint of those whose root lies on the disk."""
    value = history.facets.checkpoints.value
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    held = {str(root) for root in roots if {str(root), root.path} & set(disk.holds)}
    items = () if value is None else value.items
    return newest_of(item for item in items if item.complete and item.root in held)


def _out_of_service(run: RunSpec, history: History, value: HostValue) -> Iterator[Alert]:
    """Yield where the scheduler has taken the job's machine out of service (drain, down)."""
    if value.out_of_service is not None:
        yield _alert(
            history, f"C-22:{run.name}:node", "The job's node is being taken out of service",
            value.out_of_service,
            next_action=f"{wording.escalate(run)} with the reason: the job may run on,"
            " but nothing new starts on that node, and it may be rebooted after the job",
        )  # fmt: skip


def _lost(run: RunSpec, history: History, value: HostValue) -> Iterator[Alert]:
    mark, key = history.host, f"C-22:{run.name}:gpu-lost"
    if not answered(value):
        former = still_open(history, key)
        yield from () if former is None else (former,)
    elif mark.fewer_since is not None:
        there = ", ".join(str(gpu.index) for gpu in value.gpus) or "none"
        texts = [f"{len(value.gpus)} of {mark.gpus} accelerators listed: {there}"]
        if value.gpus_error is not None:
            texts.append(value.gpus_error.message)
        yield _alert(
            history, key, f"{mark.gpus - len(value.gpus)} of {mark.gpus} accelerators lost", *texts,
            since=mark.fewer_since,
            next_action=f"{wording.escalate(run)} with the host's name: the node needs"
            " a look (Xid in its kernel log) before anything is started on it",
        )  # fmt: skip


def _idle(run: RunSpec, history: History, value: HostValue) -> Iterator[Alert]:
    """Yield where all are at 0 % look after look, and no step comes (C-06 says since when)."""
    since, key = history.host.idle_since, f"C-22:{run.name}:gpu-idle"
    if not value.gpus:
        former = still_open(history, key)
        yield from () if former is None else (former,)
        return
    seen = seen_at(history.facets.host, history.now)
    if since is None or seen - since < run.cadence or not any(step_stalled(run, history)):
        return
    count = len(value.gpus)
    text = f"{count} of {count} accelerators at 0 % since {wording.moment(since)}, and no step"
    yield _alert(
        history, key, "Accelerators idle and steps stalled", text, since=since,
        next_action="dump the stacks (py-spy) to see what it waits for: data, a lock, another rank",
    )  # fmt: skip


def _billed(run: RunSpec, history: History, value: HostValue) -> Iterator[Alert]:
    """Yield for a rented box (``[run.teardown]``) that answers long after its job has ended.

    One whose accelerators work is used for something else.
    """
    host, rented = history.facets.host, run.teardown
    if rented is None or not rented.stops_meter or not seen_after_end(host, history):
        return
    ended, limit = phase_since(history), run.thresholds.billed_after
    busy = any((gpu.util_frac or 0.0) > WORKS for gpu in value.gpus)
    if busy or host.observed_at is None or host.observed_at - ended <= limit:
        return
    text = f"the job ended at {wording.moment(ended)}, and the box still answers;"
    yield _alert(
        history, f"C-22:{run.name}:billed", "Job over, box still billed",
        f"{text} limit {wording.span(limit)}", since=ended + limit, confidence="likely",
        next_action=f"pull and verify its files, then teardown {run.name}",
    )  # fmt: skip


def _alert(
    history: History,
    key: str,
    title: str,
    *texts: str,
    next_action: str,
    since: float | None = None,
    confidence: Literal["sure", "likely"] = "sure",
) -> Alert:
    host = history.facets.host
    return Alert(
        key=key,
        title=title,
        since=seen_at(host, history.now) if since is None else since,
        evidence=present.evidence(host.source, *texts),
        confidence=confidence,
        next_action=next_action,
    )
