"""Everything that the checks look at besides the report: read once, changing nothing."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cockpit.actions.checks.code import BUNDLE, bundled_commit
from cockpit.actions.checks.config_file import (
    ConfigReadError,
    ResolvedConfig,
    flattened,
    read_config,
)
from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.context import ActionContext
from cockpit.model.history import FormerFailure
from cockpit.model.report import Facets
from cockpit.records.logbook.reading import Instance, Logbook, read_logbook, value_of
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text
from cockpit.sources.git.code import Changes, changes_since
from cockpit.store.launches import Failures
from cockpit.store.memory import Snapshot, Snapshots
from cockpit.store.store import StoreError
from cockpit.text.safe import clean

DEADLINE = 10.0
_SAME_TIME = 120.0
"""Seconds by which a snapshot's and a logbook entry's time of one launch may differ."""


class Read(NamedTuple):
    """What was read of files and store; each part may be missing, with its reason."""

    prior: Snapshot | None
    failures: tuple[FormerFailure, ...]
    book: Logbook | None
    book_trouble: str | None
    config: ResolvedConfig | None
    same: dict[str, str]
    store_trouble: str | None


class Material(NamedTuple):
    """What was read, and what follows from it: the last launch's code, command and config."""

    read: Read
    changes: Changes
    instance: Instance | None
    config_was: ResolvedConfig | None
    recorded_by: str

    @property
    def prior(self) -> Snapshot | None:
        """Return what the last launch used, if this store has seen it."""
        return self.read.prior


async def gather(context: ActionContext) -> Material:
    """Read everything once; raises ``RefuseError`` where a file system does not answer."""
    try:
        read = await offload(_read, context, deadline=DEADLINE)
    except TimeoutError as error:
        raise RefuseError(f"the run's files did not answer within {DEADLINE:g} s") from error
    instance = newest_instance(read.book)
    prior = read.prior
    if (
        prior is not None
        and instance is not None
        and prior.launch_id not in instance.entry.title
        and (instance.entry.at or 0.0) > prior.at + _SAME_TIME
    ):
        prior = None  # another machine has launched since, and only the logbook knows
        read = read._replace(prior=None)
    return Material(
        read=read,
        changes=await _changes(context, prior),
        instance=instance,
        config_was=_config_was(prior, context.report.facets),
        recorded_by=f"launch {prior.launch_id}" if prior is not None else "the last launch",
    )


async def _changes(context: ActionContext, prior: Snapshot | None) -> Changes:
    """Return what changed since the code that ran: the job's own bundle tells it, or the record."""
    facets, spec = context.report.facets, context.spec.code
    code, by = facets.code.value, "the logbook"
    base = code.record_sha if code is not None else None
    if prior is not None and prior.sha:
        base, by = prior.sha, prior.launch_id
    recorded = {"recorded": base, "recorded_by": by}
    ran = bundled_commit(facets.job.value, prior)
    base, source = (base, by) if ran is None else (ran, BUNDLE)
    changes = Changes(base=base, source=source)
    if spec is not None and spec.repo is not None:
        changes = await changes_since(spec.repo, code, base, source)
    return changes.model_copy(update=recorded)


def _read(context: ActionContext) -> Read:
    run, store = context.spec, context.parts.store
    prior: Snapshot | None = None
    failures: tuple[FormerFailure, ...] = ()
    trouble = None
    if store is not None:
        try:
            prior, failures = Snapshots(store).last(context.key), Failures(store).of(context.key)
        except StoreError as error:
            trouble = str(error)
    book, book_trouble = _book(run.records.logbook)
    config = None if run.config_file is None else read_config(run.config_file)
    return Read(prior, failures, book, book_trouble, config, _really(context), trouble)


def _book(path: str | None) -> tuple[Logbook | None, str | None]:
    if path is None:
        return None, None
    try:
        return read_logbook(read_text(Path(path))), None
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "cannot be read").lower()
        return None, f"{clean(path, 500)}: {why}"


def _really(context: ActionContext) -> dict[str, str]:
    """Return where the local paths that may be compared really lie (links resolved).

    Nothing for a job of another host: what its paths lead to is not ours to tell.
    """
    run, tracker = context.spec, context.report.facets.tracker.value
    if run.job is not None and run.job.host is not None:
        return {}
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    named = [place.path for place in (run.output_root, *roots) if place is not None and place.here]
    texts = [value for value in _strings(tracker.config if tracker is not None else {}, 0)]
    paths = {path for path in (*named, *texts) if path.startswith("/") and "\0" not in path}
    return {path: os.path.realpath(path) for path in sorted(paths)[:500]}


def _strings(value: object, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict) and depth < 12:
        return [text for each in value.values() for text in _strings(each, depth + 1)]
    return []


def newest_instance(book: Logbook | None) -> Instance | None:
    """Return the newest launched instance that a logbook records."""
    dated = [each for each in (book.instances if book is not None else ()) if each.entry.at]
    return max(dated, key=lambda each: (each.entry.at or 0.0, each.entry.line), default=None)


def logged_command(instance: Instance | None) -> tuple[str, ...] | None:
    """Return the words of the command that a logbook's instance records."""
    recorded = None if instance is None else value_of(instance.fields, "Command")
    if not recorded:
        return None
    try:
        return tuple(shlex.split(recorded.strip().strip("`"))) or None
    except ValueError:
        return None


def _config_was(prior: Snapshot | None, facets: Facets) -> ResolvedConfig | None:
    """Return the config of the last launch: as snapshotted, else as the job or tracker tells it."""
    if prior is not None and prior.config is not None:
        return ResolvedConfig(values=prior.config, source=f"launch {prior.launch_id}")
    job, tracker = facets.job.value, facets.tracker.value
    told = {
        "the config shown by the job": job.config if job is not None else {},
        "the tracker's config": tracker.config if tracker is not None else {},
    }
    for source, config in told.items():
        with suppress(ConfigReadError):
            if config:
                return ResolvedConfig(values=flattened(config), source=source)
    return None
