"""What other runs and living programs need of a run's saves: none of that is deleted.

An evaluation, an export or a server reads a save for hours, and an upload copies it.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from cockpit.actions.core.action import ActionContext
from cockpit.hosts.here import ask_host, host_of
from cockpit.hosts.link import ask
from cockpit.model.facet import Problem
from cockpit.model.place import FILE, SSH, Place, on_host, place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import recorded_commands
from cockpit.platforms.local.census import census_of, descendants
from cockpit.platforms.local.programs import SHIMS, below, is_cockpit, may_load, program
from cockpit.text.safe import clean

DEADLINE: Final = 10.0
ANYWHERE: Final = "*"
"""Stands for the folders in which a path lies that begins with a variable."""
_OPEN: Final = re.compile(r".*[{}$][^/]*/?")
"""Up to a placeholder or a variable in a recorded word: that may stand for any path."""
_MARKED: Final = re.compile(r"[@#]")
"""What stands behind a path and is no part of it: ``PATH@revision``."""
PATH_MAX: Final = 4096
"""Bytes of the longest path that Linux takes."""
_BETWEEN: Final = re.compile(r"[\s'\"`,;|&()<>\[\]]+|:(?!//)")
"""What stands between the words that are recorded as one: ``bash -c '…'``, a list of paths."""


class NeededPlace(NamedTuple):
    """A place that a run of the run file begins from or has for its own, or that a program uses.

    ``why`` is why it stays.
    """

    place: Place
    why: str


class Needs(NamedTuple):
    """What keeps saves: places, each with why, and the programs that may read any save there."""

    places: dict[str, str]
    readers: tuple[str, ...]


async def needed_by_others(context: ActionContext) -> Needs:
    """Return the places that runs and living programs need.

    Each is as it is written, and as it is listed below a root to which links lead: links are
    followed on the machines on which the run's own roots lie. Raises ``OSError`` where one of
    these cannot tell.
    """
    spec, runs = context.spec.checkpoints, context.file.runs
    roots = spec.path if spec is not None else ()
    named = [each for run in runs for each in _named_by(run)]
    listed = context.report.facets.checkpoints.value
    items = () if listed is None else listed.items
    saves = frozenset(posixpath.basename(item.path) for item in items)
    found = {_whole(place): why for place, why in named}
    readers: dict[str, None] = {}
    for host in dict.fromkeys(host_of(root) for root in _of_machines(roots)):
        mine = _on(host, roots)
        folders = {root: run.name for run in runs for root in _on(host, _roots_of(run))}
        there = [each for each in named if each.place in _on(host, [each.place])]
        holders = dict.fromkeys((*mine, *_on(host, (place_of(item.root) for item in items))))
        lie, _ = await _followed(host, [*holders], ())  # an open file is told by where it lies
        used, there_read = await _in_use(host, saves, [*lie.values()])
        readers |= dict.fromkeys(there_read)
        found |= {_whole(place): why for place, why in used}
        there += used
        places = dict.fromkeys(each.place for each in there)
        real, links = await _followed(host, [*places], [*folders])
        real |= lie
        led = [NeededPlace(on_host(host, real[each.place]), each.why) for each in there]
        for root, name in folders.items():
            why = f"a link of {name} leads to it"
            led += [NeededPlace(on_host(host, path), why) for path in links[root]]
        for place, why in led:
            found |= dict.fromkeys(_below(place.path, mine, real), why)
    return Needs(found, tuple(readers))


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


async def _in_use(
    host: str | None, saves: frozenset[str], roots: Sequence[str]
) -> tuple[list[NeededPlace], list[str]]:
    """Return what programs of a machine have open, or were told, of saves with these names.

    And which of them were told a folder above the saves, and may read any of these.
    """
    if host is None and sys.platform != "linux":
        return [], []
    asked = ask("who uses the saves", "processes", files=roots)
    answer = (await ask_host(host, [asked], DEADLINE))[asked]
    if isinstance(answer, Problem):
        raise OSError(f"who uses the saves: {answer.message}")
    found: dict[str, str] = {}
    folders: dict[str, str] = {}
    processes = census_of(answer)
    shims = [one.pid for one in processes.values() if posixpath.basename(one.argv[0]) in SHIMS]
    contained = descendants(processes, shims)
    for pid, *_, argv, folder, _, _, files in answer:
        if is_cockpit(argv):
            continue
        who = f"pid {pid} ({clean(program(argv), 60)})"
        for path, names in _told(argv, folder, saves, contained=pid in contained):
            found[path] = f"the command of {who} {names} it"
            if names == NAMES and may_load(argv):
                folders[path] = f"{who} was told {clean(path, 200)}"
        found |= {path: f"{who} has it open" for path, *_ in files}
    told = [on_host(host, path) for path in found if _may_be_a_link(path)]
    real, _ = await _followed(host, told, ())
    led = {place.path: path for place, path in real.items()}
    needed = [
        NeededPlace(Place(FILE, "", path) if path[0] == ANYWHERE else on_host(host, path), why)
        for path, why in found.items()
        if not saves.isdisjoint(f"{path}/{led.get(path, '')}".split("/"))
    ]
    above = (
        why
        for path, why in folders.items()
        if any(below(led.get(path, path), root) for root in roots)
    )
    return needed, list(above)


NAMES: Final = "names"


def _told(
    argv: Sequence[str], folder: str | None, saves: frozenset[str], *, contained: bool
) -> Iterator[tuple[str, str]]:
    """Yield the paths that a program was told, and whether it ``names`` or ``may name`` each.

    What was told to a program in a container, or to another user's, whose work folder is not to be
    had, may lie anywhere.
    """
    for word in _words(argv):
        path = posixpath.normpath(posixpath.join(folder or "/", word))
        if contained:
            may = f"{ANYWHERE}/{_from_save(path, saves)}"
        elif word.startswith("~"):  # a program may complete it itself, by its own user's home
            may = f"{ANYWHERE}/{word.partition('/')[2]}"
        elif folder is None and not word.startswith("/"):
            may = f"{ANYWHERE}{path}"
        else:
            yield path, NAMES
            continue
        if not word.isdigit():  # a step names no path
            yield may, "may name"


def _may_be_a_link(path: str) -> bool:
    """Tell whether a told path may be one that leads to a save: no option, none of the system's."""
    option = posixpath.basename(path).startswith("-")
    return not (option or path.startswith((ANYWHERE, "/proc/", "/sys/", "/dev/")))


def _from_save(path: str, saves: frozenset[str]) -> str:
    """Return a path from the part on that is a save's name: a container mounts what is above it."""
    parts = path.split("/")
    return "/".join(parts[next((at for at, part in enumerate(parts) if part in saves), 0) :])


def _words(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line, those that one word holds, and the values in them.

    A title is one word, and so are ``a=b,c=d`` and ``PATH@main``. A name may hold the same signs:
    ``--ckpt=out/epoch=2-step=200.ckpt``.
    """
    for word in argv:
        for part in dict.fromkeys((word, *_BETWEEN.split(word))):
            for each in dict.fromkeys((part, *_MARKED.split(part))):
                yield from (value for value in _values(each) if value)


def _values(word: str) -> Iterator[str]:
    """Yield a word and what stands behind each ``=`` in it, as far as that may be a path."""
    ends = (at for at, sign in enumerate(word) if sign == "=")
    for at in (-1, *ends):
        if len(word) - at <= PATH_MAX:
            yield word[at + 1 :].removeprefix("file://")


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
        names = "may name" if place.path.startswith(ANYWHERE) else "names"
        yield NeededPlace(place, f"the command of {run.name} {names} it")


def _in_commands(run: RunSpec) -> Iterator[Place]:
    """Yield the paths that the recorded commands of a run are given, as its job sees them.

    Of one that begins with a variable the rest may lie anywhere.
    """
    folder = (None if run.job is None else run.job.workdir) or run.workdir
    for words in recorded_commands(run):
        for word in _words(words):
            path = _OPEN.sub("", word)
            if not path or path.isdigit():  # a step names no path
                continue
            if path != word:
                yield Place(FILE, "", f"{ANYWHERE}/{path}")
                continue
            with suppress(ValueError):
                whole = place_of(word)
                if folder is None or "://" in word:
                    yield whole
                elif whole.path.startswith("~"):
                    yield replace(folder, path=whole.path)
                else:
                    yield replace(folder, path=posixpath.join(folder.path, whole.path))


def keeps(place: str, save: str) -> bool:
    """Tell whether a needed place is a save or lies in it; a shell may complete its parts."""
    parts, own = place.split("/"), save.split("/")
    if parts[0] != ANYWHERE:
        return _alike(own, parts[: len(own)])
    known = range(2, len(parts) + 1)
    return any(_alike(own[1 - n :], parts[1:n]) for n in known if parts[n - 1].strip("*"))


def _alike(names: Sequence[str], patterns: Sequence[str]) -> bool:
    pairs = zip(names, patterns, strict=False)
    return len(names) == len(patterns) and all(a == b or fnmatchcase(a, b) for a, b in pairs)
