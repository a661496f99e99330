"""``cockpit checkpoints``: what lies under one or several roots of one run (SPEC K)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.lineage import Stray, named, with_lineages, with_suspects
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.place import Place, place_of
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, CustomLayout, RunSpec
from cockpit.model.wording import age, size, steps
from cockpit.sources.checkpoints.assembly import DEPTH, plain
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.judge import NAMES
from cockpit.sources.checkpoints.source import list_anywhere, list_checkpoints
from cockpit.text.safe import clean
from cockpit.verbs.check import checked
from cockpit.verbs.common import BLIND, OK, UsageError, helps, put_answer, run_file, say
from cockpit.verbs.reading import run_meant

_HEAD: Final = ("", "step", "state", "kind", "size", "age", "path", "")


HELP = f"""
Lists the checkpoints of one run: step, complete or torn, size, age, and which one a relaunch would
take. Name a run of the run file, or its roots, the permanent one first: paths, ssh://host/path,
s3://bucket/prefix or gs://bucket/prefix. Where runs of the run file have roots there, their rows
tell which are suspect. What exists as a path is one, else it is a run's name. Exit code: 0 listed,
2 no such path, 3 it cannot be read.

paths RUN|PATH: a run, a root or a checkpoint; an address
--layout L: one of {", ".join(NAMES)} (default: auto)
--pattern PATTERN: custom layout: names; one group is the step
--marker MARKER: custom layout: the file that makes one complete
--config --json

example: cockpit checkpoints runs/a/checkpoints /tmp/runs/a/checkpoints --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``checkpoints`` takes."""
    helps(parser, HELP, paths={"nargs": "+"}, layout={"default": "auto"})


def run(args: argparse.Namespace) -> int:
    """List and print; return 0, or 3 for a path that cannot be read.

    Raises ``UsageError`` for a path that does not exist and a layout that is not known.
    """
    now = SystemClock().now()
    paths = _paths(args.paths, args.config)
    known = _runs_of(paths, args.config)
    try:
        value = _listed(paths, *_layout(args, known))
    except ValueError as error:
        raise UsageError(clean(error)) from error
    except ListingError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            text = f"{clean(error, 4096)}; expected a run, or a folder that holds checkpoints"
            raise UsageError(text) from error
        if error.kind is ErrorKind.UNSUPPORTED:
            raise UsageError(clean(error, 4096)) from error
        say(clean(error, 4096))
        return BLIND
    except TimeoutError as error:
        say(f"a root cannot be listed: {error}")
        return BLIND
    if known is not None:
        value = _marked(value, known)
    runs = 1 if known is None else len(known.runs)
    document = {"schema": 1, **value.to_json()}
    put_answer(args.json, lambda: document, lambda: table(value, now, runs=runs))
    return OK


def _paths(named: Sequence[str], config: Path | None) -> list[str]:
    """Return the addresses that are meant: for a run's name those of its roots."""
    found: list[str] = []
    for each in named:
        meant = run_meant(each, config)
        roots = () if meant is None else _roots(meant[1])
        if meant is not None and not roots:
            raise UsageError(f"{each} has no checkpoints in {meant[0].path} (checkpoints.path)")
        found += [str(root) for root in roots] or [each]
    return found


def _listed(paths: Sequence[str], layout: str, custom: CustomLayout | None) -> CheckpointsValue:
    """Return what lies there; a disk or a server is waited for as long as a look may take."""
    clock = SystemClock()
    if all(place_of(path).here for path in paths):
        return list_checkpoints(paths, layout, custom, now=clock.now())
    return asyncio.run(list_anywhere(paths, layout, custom, clock=clock))


class _RunsOfPlaces(NamedTuple):
    """The runs that ``places`` have to do with; ``above``: they hold roots, and are none."""

    file: CockpitFile
    runs: tuple[RunSpec, ...]
    places: Sequence[Place]
    above: bool


def _runs_of(paths: Sequence[str], config: Path | None) -> _RunsOfPlaces | None:
    """Return the run whose roots hold all ``paths``, else every run that has a root under one.

    None: no run of the run file has to do with them. Raises ``UsageError`` only for a run file
    that was named.
    """
    try:
        file = run_file(config)
    except UsageError:
        if config is not None:
            raise
        return None
    places = [place_of(path) for path in paths]
    places = [place_of(plain(each.path)) if each.here else each for each in places]
    for each in file.runs:
        roots = _roots(each)
        if roots and all(any(root.contains(place) for root in roots) for place in places):
            return _RunsOfPlaces(file, (each,), places, above=False)
    under = tuple(
        each
        for each in file.runs
        if any(place.contains(root) for place in places for root in _roots(each))
    )
    return _RunsOfPlaces(file, under, places, above=True) if under else None


def _roots(spec: RunSpec) -> tuple[Place, ...]:
    return spec.checkpoints.path if spec.checkpoints is not None else ()


def _layout(
    args: argparse.Namespace, known: _RunsOfPlaces | None
) -> tuple[str, CustomLayout | None]:
    """Return the layout that was asked for, else that of the run, if it is one."""
    custom = _custom(args)
    spec = known.runs[0].checkpoints if known is not None and len(known.runs) == 1 else None
    if custom is None and args.layout == "auto" and spec is not None:
        return spec.layout, spec.custom
    return args.layout, custom


def _marked(value: CheckpointsValue, known: _RunsOfPlaces) -> CheckpointsValue:
    """Return ``value`` with those marked that a look at the runs finds suspect, or doubts."""
    names = [each.name for each in known.runs]
    try:
        reports = asyncio.run(checked(known.file, names, SystemClock())).runs
    except (TimeoutError, OSError) as error:
        say(f"it is unknown which are suspect: {clean(error)}")
        return value
    items: list[Checkpoint] = []
    for report in reports:
        facets = report.facets
        for facet in (facets.checkpoints, facets.tracker, facets.log):
            if facet.error is not None and facet.configured:
                whose = f"{report.name}: " if len(reports) > 1 else ""
                say(f"it is not certain which are suspect: {whose}{facet.error.message}")
        items += () if facets.checkpoints.value is None else facets.checkpoints.value.items
    if known.above:
        return _from_above(value, items, known.places, reports)
    why = {each.path: each.suspect for each in items if each.suspect}
    found = with_suspects(value, why, {each.path: each.doubt for each in items if each.doubt})
    own = reports[0].facets.checkpoints.value
    strays = {each.path: Stray(each.whose, each.lineage) for each in items if each.lineage}
    if own is None:  # its look could not tell which of them are the run's: nor can this one
        roots = tuple(map(str, _roots(known.runs[0])))
        blind = {"relaunch_from": None, "trainer_would_load": None, "unlisted": roots}
        return found.model_copy(update=blind)
    found = with_lineages(found, strays, own.mixed)
    if all(root in known.places for root in _roots(known.runs[0])):
        return found
    # Of a part of its checkpoints nobody can tell what a relaunch takes: the run's own pick is it.
    picks = {"relaunch_from": own.relaunch_from, "trainer_would_load": own.trainer_would_load}
    return found.model_copy(update=picks)


def _from_above(
    value: CheckpointsValue,
    items: Sequence[Checkpoint],
    places: Sequence[Place],
    reports: Sequence[RunReport],
) -> CheckpointsValue:
    """Return ``value`` as each run judges its own ``items``, with those that lie deeper besides.

    Of several runs none is picked: a relaunch is of one run; of one it is its own pick.
    """
    known = {
        each.path: each
        for each in items
        if any(place.contains(place_of(each.path)) for place in places)
    }
    others = (
        each.model_copy(update={"protected": ()}) for each in value.items if each.path not in known
    )
    found = sorted([*known.values(), *others], key=lambda each: (each.step or 0, each.path))
    whole = [each.step for each in found if each.complete and each.step is not None]
    own = reports[0].facets.checkpoints.value if len(reports) == 1 else None
    blind = [each.spec for each in reports if each.facets.checkpoints.value is None]
    return value.model_copy(
        update={
            "items": tuple(found),
            "unlisted": tuple(str(root) for spec in blind for root in _roots(spec)),
            "latest_complete": max(whole, default=None),
            "relaunch_from": None if own is None else own.relaunch_from,
            "trainer_would_load": None if own is None else own.trainer_would_load,
        }
    )


def _custom(args: argparse.Namespace) -> CustomLayout | None:
    if args.pattern is None and args.marker is None:
        return None
    if args.pattern is None or args.marker is None:
        raise UsageError(
            'a custom layout needs both --pattern and --marker (--marker "": each is one file)'
        )
    return CustomLayout(pattern=args.pattern, marker=args.marker)


def table(value: CheckpointsValue, now: float, *, runs: int = 1) -> list[str]:
    """Return the lines of the table, and below it what a relaunch and the trainer would take.

    ``runs``: how many runs of the run file these are of.
    """
    return [*_listed_items(value, now, runs), *value.notes]


def _listed_items(value: CheckpointsValue, now: float, runs: int) -> list[str]:
    if not value.items:
        if runs > 1 or value.unlisted:
            return ["no checkpoint was found" + (" where it could be read" * bool(value.unlisted))]
        where = f"no checkpoint was found here or up to {DEPTH} folders below"
        return [f"{where}: what a relaunch would start from cannot be told"]
    chosen = value.relaunch_from.path if value.relaunch_from is not None else None
    rows = [_HEAD, *(_row(item, item.path == chosen, now) for item in value.items)]
    if runs > 1:
        several = f"checkpoints of {runs} runs: name one run's roots for what a relaunch would take"
        return [*_aligned(rows), several]
    return [*_aligned(rows), *_picks(value)]


def _row(item: Checkpoint, chosen: bool, now: float) -> tuple[str, ...]:
    since = item.saved_at if item.state is CheckpointState.COMPLETE else item.touched_at
    return (
        "▸" if chosen else "",
        "?" if item.step is None else steps(item.step),
        "suspect" if item.complete and item.suspect else item.state.value,
        {True: "perm", False: "temp", None: ""}[item.permanent],
        "?" if item.size is None else size(item.size),
        "?" if since is None else age(max(0.0, now - since)),
        item.path,
        "; ".join([*filter(None, (item.suspect,)), *item.protected, *filter(None, (item.note,))]),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = {1, 4, 5}
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


_NONE: Final = {
    True: "every complete checkpoint is suspect",
    False: "no checkpoint is known to be complete",
}


def _picks(value: CheckpointsValue) -> list[str]:
    if value.unlisted:
        return ["cannot tell what a relaunch would take: not all saves of this run are known"]
    pick, load = value.relaunch_from, value.trainer_would_load
    whole = any(item.complete and item.own for item in value.items)
    others = not whole and any(item.complete for item in value.items)
    none = "no complete checkpoint is surely this run's" if others else _NONE[whole]
    lines = [f"{none}: a relaunch would not pick any by itself"]
    if value.unrecognised and not whole:
        lines = []  # what is said of those says it
    if pick is not None:
        lines = [f"a relaunch would take {named(pick)} ({pick.why})"]
    if load is not None and (pick is None or load.path != pick.path):
        lines.append(f"the trainer itself would load {load.path} ({load.why})")
    if value.mixed is not None:
        lines.append(f"not all are surely this run's: {value.mixed}")
    return lines
