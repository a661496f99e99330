"""Which objects and pods of a namespace are a run's: its current job, and what lives beside it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.jobs import Live, LiveJob, OwnJob
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms import lineage
from cockpit.platforms.alike import Started, program_of
from cockpit.platforms.kubernetes.api import document_of, mapping
from cockpit.platforms.kubernetes.objects import LINEAGE, Object, is_held, part, pod_templates
from cockpit.platforms.kubernetes.states import Job, Top, owner_of
from cockpit.platforms.kubernetes.view import Look
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub, shown

FITS: Final = "its name or labels fit the run file"


def by_id(tops: Iterable[Top], job_id: str | None) -> Top | None:
    """Return the newest object of an id."""
    found = (top for top in tops if top.id == job_id)
    return max(found, key=lambda top: top.created, default=None)


def current_of(run: RunSpec, look: Look) -> Top | None:
    """Return the run's current object: the recorded one, else the newest that is its own.

    A launch that is newer than the recorded one, which is over or gone, goes before it: a cockpit
    that was killed between a start and its records leaves the old one recorded.
    """
    tops = [top for top in look.tops if not is_held(top.row, top.body)]
    launches = [(number, top) for top in tops if (number := _number(run, top)) is not None]
    newest = max(launches, key=lambda each: each[0], default=(0, None))[1]
    job = run.job
    fits = [top for top in tops if job is not None and _fits(run, job, top)]
    matched = max(fits, key=lambda top: top.created, default=None)
    newest = max(filter(None, (newest, matched)), key=lambda top: top.created, default=None)
    named = by_id(tops, job.id if job else None)
    if named is None:
        recorded = number_of(run.name, (job.id or "").partition("/")[2]) if job else None
        later = newest and (_number(run, newest) or 0) >= (recorded or 0)
        return newest if later and (job is None or job.id is None or recorded is not None) else None
    over = not look.job(named).state.phase.lives
    newer = newest is not None and newest.created > named.created
    return newest if newer and (over or matched is newest) else named


def _number(run: RunSpec, top: Top) -> int | None:
    return number_of(run.name, top.launch_id) if top.launch_id else None


def _fits(run: RunSpec, job: JobSpec, top: Top) -> bool:
    """Tell whether an object has the name or the labels, and is no launch of another run."""
    if top.launch_id and _number(run, top) is None:
        return False
    pairs = [
        each.strip().partition("=") for each in (job.selector or "").split(",") if each.strip()
    ]
    labels = mapping(top.meta.get("labels"))
    by_labels = bool(pairs) and all(labels.get(key) == value for key, _, value in pairs)
    return by_labels or (
        job.match is not None and fnmatch.fnmatchcase(str(top.meta["name"]), job.match)
    )


def started(body: Object) -> tuple[Started, tuple[tuple[str, str], ...], str]:
    """Return what an object starts: its program, its arguments and its lineage."""
    words: list[str] = lineage.words_of(str(part(body, "spec.entrypoint") or ""))
    env: dict[str, str] = {}
    with suppress(ValueError):
        told = mapping(document_of(str(part(body, "spec.runtimeEnvYAML") or "")).get("env_vars"))
        env |= {str(name): str(value) for name, value in told.items()}
    containers = [mapping(part(body, "spec.trainer"))]
    templates = [body] if part(body, "spec.containers") else pod_templates(body.get("spec"))
    containers += [each for one in templates for each in one["spec"]["containers"]]
    for each in containers:
        for word in (*(each.get("command") or ()), *(each.get("args") or ())):
            words += lineage.words_of(str(word)) if " " in str(word) else [str(word)]
        env |= {one["name"]: str(one["value"]) for one in each.get("env") or () if one.get("value")}
    program, args = program_of(words)
    meta = body["metadata"]
    tag = (meta.get("annotations") or {}).get(LINEAGE) or env.get("COCKPIT_LINEAGE") or ""
    return Started(program, args, name=meta["name"], variables=env), lineage.told_by(words), tag


def _candidate(
    body: Object, job_id: str, path: str, launch_id: str | None = None
) -> lineage.Candidate:
    start, told, tag = started(body)
    owner, meta = owner_of(body), body["metadata"]
    beyond = None
    if owner is not None:
        what = f"{clean(owner.get('kind'), 60)} {clean(owner.get('name'), 120)}"
        beyond = f"its owner, the {what}, would make it again: stop that"
    job = LiveJob(
        id=job_id,
        name=clean(scrub(" ".join((start.program, *start.args))), 120) or job_id,
        why="",
        launch_id=launch_id,
        beyond=beyond,
        handle={} if beyond else {"path": path, "uid": str(meta["uid"])},
    )
    return lineage.Candidate(job, (job_id,), told, start, tag)


def lives(look: Look, runs: Sequence[RunSpec]) -> dict[str, Live]:
    """Return what lives of each run's lineage: objects, and pods that no known object has made."""
    found: dict[str, Live] = {}
    jobs = [look.job(top) for top in look.tops]
    living = [job for job in jobs if not job.state.phase.terminal]
    held = {job.top.uid for job in living if is_held(job.top.row, job.top.body) and not job.pods}
    candidates = [_of_top(job.top) for job in living if job.top.uid not in held]
    candidates += [_of_top(job.top) for job in jobs if job.state.phase.terminal and _busy(job)]
    for body in look.pods[""]:
        if (body.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            meta = body["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            candidates.append(_candidate(body, f"pod/{meta['name']}", path))
    mine = {run.name: current_of(run, look) for run in runs}
    for run in runs:
        own = mine[run.name]
        others = {top.id for name, top in mine.items() if top is not None and name != run.name}
        live = lineage.live_of(run, candidates, own and started(own.body)[0], others)
        if own is not None and all(each.id != own.id for each in live.jobs):
            there = next((each for each in candidates if own.id in each.names), None)
            if there is not None:
                left = tuple(each for each in live.possible if each.id != own.id)
                jobs_now = (there.live(run, lineage.LineageSign(FITS)), *live.jobs)
                live = live.model_copy(update={"jobs": jobs_now, "possible": left})
        waiting = [job.top for job in living if job.top.uid in held]
        kept = tuple(
            _of_top(top).live(run, lineage.LineageSign("accepted, and never let go"))
            for top in waiting
            if _number(run, top) is not None
        )
        wrong = "; ".join(clean(error, 200) for error in look.errors.values())
        found[run.name] = live.model_copy(update={"held": kept, "unknown": wrong or None})
    return found


def _busy(job: Job) -> bool:
    """Tell whether a job that is over still has pods that write: they end, or were left behind."""
    return any(pod.runs for pod in job.pods) and "ray.io" not in job.top.row.group


def _of_top(top: Top) -> lineage.Candidate:
    space = str(top.meta["namespace"])
    path = top.row.path(space, str(top.meta["name"]))
    return _candidate(top.body, top.id, path, top.launch_id)


def own_job(job: Job) -> OwnJob:
    """Return a job as a new run file may begin from it."""
    start, told, _ = started(job.top.body)
    settings = {"job.name": job.top.id, "job.namespace": str(job.top.meta["namespace"])}
    text = f"{job.state.word}: {shown(' '.join((start.program, *start.args)), 120)}"
    return OwnJob(
        id=job.top.id,
        name=str(job.top.meta["name"]),
        text=text,
        settings={**settings, **dict(lineage.settings_of(start.variables, told))},
    )
