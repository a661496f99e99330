"""C-16, wrong output path while a job runs: somebody writes elsewhere than the record says.

A path of a bucket is what it says. One of a file system may be another name of the same folder (a
link, a mount inside a container): it counts only while no checkpoint of this job has come to the
run's own roots, and never where it ends as the root does. What the logbook's run contract records
is held against the run file in the same way.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History, Settings
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.rules.artifacts.checkpoints import present_since
from cockpit.rules.lineage.memo import Memo
from cockpit.rules.lineage.output_root import (
    Elsewhere,
    StatedOutput,
    elsewhere,
    said_by_command,
    said_by_config,
    said_by_record,
)
from cockpit.rules.lineage.regions import named_in, of_command
from cockpit.rules.present import job_of, phase_of, phase_since, still_open


def output_elsewhere(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-16: one alert of a living job: other places than the run's, and other regions."""
    if not phase_of(history).lives or run.output_root is None:
        return
    key = f"C-16:{run.name}"
    stated = list(stated_outputs(history))
    other = [each for each in elsewhere(run, stated, {}) if not _same_folder(each, run, history)]
    apart = [*_regions(run, run.output_root, history)]
    book = list(_recorded(run, history))
    recorded = [each for each in elsewhere(run, book, {}) if not _same_folder(each, run, history)]
    if other or apart or recorded:
        yield _alert(run, history, key, other, recorded, apart)
    elif not stated or (run.records.logbook and history.facets.records.value is None):
        former = still_open(history, key)
        yield from () if former is None else (former,)


def stated_outputs(history: History) -> Iterator[StatedOutput]:
    """Yield who names the output: the launch as it was recorded, and the config that runs."""
    used, settings, job = history.used, history.settings, job_of(history)
    if used is not None and (job is None or job.launch_id in (None, used.launch_id)):
        yield from said_by_command(used.command)
        if used.output_root is not None:
            yield StatedOutput(f"launch {used.launch_id}", used.output_root)
    if settings is not None:
        yield from _BY_CONFIG(settings)


def _recorded(run: RunSpec, history: History) -> Iterator[StatedOutput]:
    """Yield what the logbook's run contract says of the output root, where it names one."""
    records = history.facets.records.value
    if records is not None and run.output_root is not None:
        own = run.output_root.seen_from(run.job)
        yield from said_by_record("the logbook", records.output_root, own)


def _by_config(settings: Settings) -> list[StatedOutput]:
    return list(said_by_config(settings.source, settings.values))


_BY_CONFIG: Final[Memo[list[StatedOutput]]] = Memo(_by_config)


def _same_folder(found: Elsewhere, run: RunSpec, history: History) -> bool:
    """Tell whether both may be one folder of a file system, by another name."""
    if "://" in found.path or "://" in found.root:
        return False
    alike = posixpath.basename(found.root) in found.path.split("/")
    return alike or _lands(run, history)


def _lands(run: RunSpec, history: History) -> bool:
    """Tell whether the present job's saves come to the run's own roots."""
    value, began = history.facets.checkpoints.value, present_since(history)
    items = () if value is None else value.items
    return began is not None and any(
        item.complete and item.saved_at is not None and item.saved_at > began for item in items
    )


def _regions(run: RunSpec, root: Place, history: History) -> Iterator[Evidence]:
    """Yield the places whose bucket is named after another region than the job asks for."""
    used = history.used
    asked, flag = of_command(()) if used is None else of_command(used.command)
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    base = asked or named_in(root)
    whose = f"the job's {flag}" if asked is not None else f"the output root {root}"
    for place in dict.fromkeys((root, *roots)):
        region = named_in(place)
        if base is not None and region is not None and region != base:
            text = f"{place} is in {region}, {whose} says {base}"
            yield Evidence(text=text, source="run file" if used is None else used.launch_id)


def _alert(
    run: RunSpec,
    history: History,
    key: str,
    other: list[Elsewhere],
    recorded: list[Elsewhere],
    apart: list[Evidence],
) -> Alert:
    title = "The job writes to another place than recorded" if other else "Output in another region"
    advice = (
        "its checkpoints are not where a relaunch looks"
        if other
        else "cross-region traffic is slow and billed"
    )
    if recorded and not other:
        title = "The logbook names another output root than cockpit.toml"
        advice = "whoever follows the logbook looks for checkpoints in the wrong place"
    return Alert(
        id="C-16",
        key=key,
        severity=Severity.ALERT,
        title=title,
        since=phase_since(history),
        evidence=(
            *(_line(run, each, "writes to") for each in other),
            *(_line(run, each, "records") for each in recorded),
            *apart,
        ),
        confidence="likely",
        next_action=f"ask {wording.person(run)} which place is right: {advice}; do not"
        " relaunch before that is settled",
    )


def _line(run: RunSpec, found: Elsewhere, does: str) -> Evidence:
    who, bucket = found.stated.who, " (another bucket)" if found.other_bucket else ""
    text = f"{who} {does} {found.stated.path}, cockpit.toml says {run.output_root}{bucket}"
    return Evidence(text=text, source=who)
