"""What the other runs of the run file need of a run's saves: none of that is deleted."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from cockpit.actions.core.action import ActionContext
from cockpit.hosts.here import ask_host, host_of
from cockpit.hosts.link import ask
from cockpit.model.facet import Problem
from cockpit.model.place import SSH, Place, on_host, place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import recorded_commands
from cockpit.platforms.local.programs import arguments

DEADLINE: Final = 10.0
_OPEN: Final = re.compile(r"[{$]")
"""A placeholder or a variable in a recorded word: it may stand for any path."""


class NeededPlace(NamedTuple):
    """A place that a run of the run file begins from, or has for its own, and why it stays."""

    place: Place
    why: str


async def needed_by_others(context: ActionContext) -> dict[str, str]:
    """Return the places that runs need, each with why.

    Each is as it is written, and as it is listed below a root to which links lead: links are
    followed on the machines on which the run's own roots lie. Raises ``OSError`` where one of
    these cannot tell.
    """
    spec, runs = context.spec.checkpoints, context.file.runs
    roots = spec.path if spec is not None else ()
    named = [each for run in runs for each in _named_by(run)]
    found = {_whole(place): why for place, why in named}
    for host in dict.fromkeys(host_of(root) for root in _of_machines(roots)):
        mine = _on(host, roots)
        folders = {root: run.name for run in runs for root in _on(host, _roots_of(run))}
        there = [each for each in named if each.place in _on(host, [each.place])]
        places = dict.fromkeys((*mine, *(each.place for each in there)))
        real, links = await _followed(host, [*places], [*folders])
        led = [NeededPlace(on_host(host, real[each.place]), each.why) for each in there]
        for root, name in folders.items():
            why = f"a link of {name} leads to it"
            led += [NeededPlace(on_host(host, path), why) for path in links[root]]
        for place, why in led:
            found |= dict.fromkeys(_below(place.path, mine, real), why)
    return found


def _of_machines(places: Iterable[Place]) -> list[Place]:
    return [place for place in places if place.here or place.scheme == SSH]


def _on(host: str | None, places: Iterable[Place]) -> list[Place]:
    return [place for place in _of_machines(places) if host_of(place) == host]


async def _followed(
    host: str | None, places: Sequence[Place], folders: Sequence[Place]
) -> tuple[dict[Place, str], dict[Place, list[str]]]:
    """Return places with their links followed, and what the links in folders lead to."""
    asked = ask(
        "links to the saves", "led_to",
        paths=[place.path for place in places], folders=[folder.path for folder in folders],
    )  # fmt: skip
    answer = (await ask_host(host, [asked], DEADLINE))[asked]
    if isinstance(answer, Problem):
        raise OSError(f"what links lead to the saves: {answer.message}")
    real, links = answer
    return dict(zip(places, real, strict=True)), dict(zip(folders, links, strict=True))


def _below(path: str, roots: Sequence[Place], real: dict[Place, str]) -> Iterator[str]:
    """Yield a real path as it is listed below the roots in which it lies."""
    for root in roots:
        whole = real[root].rstrip("/")
        if path == whole or path.startswith(f"{whole}/"):
            yield f"{_whole(root)}{path[len(whole) :]}"


def _whole(place: Place) -> str:
    return str(place.normal()).rstrip("/")


def _roots_of(run: RunSpec) -> list[Place]:
    spec = run.checkpoints
    roots = (run.output_root, *(spec.path if spec is not None else ()))
    return [root for root in roots if root is not None]


def _named_by(run: RunSpec) -> Iterator[NeededPlace]:
    """Yield what a run names.

    A fine-tune begins from another run's save, or writes its own outputs inside one.
    """
    job, spec = run.job, run.checkpoints
    files = [] if job is None else [job.log, job.pid_file, job.workdir]
    for place in filter(None, (*_roots_of(run), *files)):
        yield NeededPlace(place, f"{run.name} has its own files in it")
    if spec is not None and spec.initialize_from:
        yield NeededPlace(spec.initialize_from, f"initialize_from of {run.name}")
    for place in _in_commands(run):
        yield NeededPlace(place, f"the command of {run.name} names it")


def _in_commands(run: RunSpec) -> Iterator[Place]:
    """Yield the paths that the recorded commands of a run are given, as its job sees them."""
    folder = (None if run.job is None else run.job.workdir) or run.workdir
    for words in recorded_commands(run):
        for _, word in arguments(["", *words]):
            if not word or word.isdigit() or _OPEN.search(word):  # a step names no path
                continue
            with suppress(ValueError):
                whole = place_of(word)
                if folder is None or "://" in word:
                    yield whole
                else:
                    yield replace(folder, path=posixpath.join(folder.path, whole.path))
