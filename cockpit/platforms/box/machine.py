"""What a host's own words say of it: its clock and boot, its processes, its sessions. Pure.

The texts come from the kernel and from users' processes; whatever cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.platforms.box import words
from cockpit.platforms.box.probe import MARK
from cockpit.platforms.local.belonging import Files
from cockpit.platforms.local.census import (
    Census,
    Children,
    OpenFile,
    Process,
    children,
    descendants,
    lineage_up,
    read_ps,
)
from cockpit.runtime.process import Machine

_HEADER: Final = re.compile(rb"(?:^|\n)==> (/\S*) <==\n")
_CWD: Final = re.compile(r"/proc/(\d+)/cwd -> (.*)$")
_FD_OF: Final = re.compile(r"/proc/(\d+)/fd:$")
_FD: Final = re.compile(r"l(\S{9}).*? \d+ -> (.*)$")
_SCREEN: Final = re.compile(r"\s+(\d+)\.([^\t]+)\t\((?!.*Dead \?)")
_ENDED: Final = "ZX"
SKEW: Final = 2.0
"""Seconds by which a host's clock may differ from ours and count as the same."""


def sections(out: bytes) -> dict[str, bytes]:
    """Return the files that ``head`` printed, by path."""
    found = list(_HEADER.finditer(out))
    ends = [*(each.start() for each in found[1:]), len(out)]
    return {
        each[1].decode("utf-8", "replace"): out[each.end() : end]
        for each, end in zip(found, ends, strict=False)  # none: no header
    }


class Session(NamedTuple):
    """A pane of a tmux session, or a screen session; ``status`` is that of a dead pane's program.

    ``created`` is by the host's clock.
    """

    name: str
    pid: int
    created: float | None = None
    dead: bool = False
    status: int | None = None


@dataclass
class Host:
    """A host at the moment of a probe: between ``sent`` and ``got`` (our clock, epoch seconds)."""

    sent: float
    got: float
    about: Mapping[str, str]
    processes: Census
    files: Files
    own: set[int] = field(default_factory=set)
    """The probe itself, what started it and what it has started: nobody's job."""

    @property
    def machine(self) -> Machine:
        """Where its process ids count."""
        told = (self.about.get(name) or None for name in ("machine", "boot", "space"))
        return Machine(None, *told)

    @property
    def uid(self) -> int:
        """Who we are there."""
        return _integer(self.about.get("uid")) or 0

    @cached_property
    def ahead(self) -> float:
        """Seconds by which its clock is ahead of ours; 0 where nobody could tell the difference.

        It was read in whole seconds, somewhere between sending and getting.
        """
        now = _integer(self.about.get("now"))
        off = 0.0 if now is None else min(0.0, now + 1 - self.sent) + max(0.0, now - self.got)
        return off if abs(off) > SKEW else 0.0

    @property
    def now(self) -> float:
        """Its own clock."""
        return self.got + self.ahead

    def ours(self, at: float | None) -> float | None:
        """Return a time of its clock by ours."""
        return None if at is None else at - self.ahead

    def started_at(self, process: Process) -> float | None:
        """Return when a process started, by the host's clock."""
        boot, hertz = (_integer(self.about.get(name)) for name in ("btime", "hz"))
        if boot is None or not hertz or process.ticks < 0:
            return None
        return boot + process.ticks / hertz

    @cached_property
    def children(self) -> Children:
        """Whom each process has started."""
        return children(self.processes)

    def below(self, pid: int) -> list[Process]:
        """Return a process and all that descends from it, itself first."""
        found = [self.processes[pid]] if pid in self.processes else []
        rest = sorted(descendants(self.processes, (pid,), self.children))
        return [*found, *(self.processes[each] for each in rest)]


def host_of(told: Mapping[str, bytes], sent: float, got: float) -> Host | None:
    """Return a host from what the pieces said, by their names; ``None`` if it told no processes."""
    lines = _lines(told.get(words.ABOUT.name, b""))
    about = {name: value.strip() for name, _, value in (line.partition(" ") for line in lines)}
    processes = _census(told)
    if not processes:
        return None
    uid = _integer(about.get("uid")) or 0
    files = Files(Path("/nowhere"), uid, _open_files(told, processes))
    own = _own(processes, _integer(about.get("self")))
    return Host(sent, got, about, processes, files, own)


def _census(told: Mapping[str, bytes]) -> Census:
    stats = [line.split() for line in _lines(told.get(words.STATS.name, b""))]
    if not stats:
        return read_ps(_text(told.get(words.PS.name, b"")))
    argv = sections(told.get(words.ARGV.name, b""))
    env = sections(told.get(ENVIRONMENTS, b""))
    owners = dict(_owners(told.get(words.OWNERS.name, b"")))
    folders = dict(_folders(told.get(words.FOLDERS.name, b"")))
    found: dict[int, Process] = {}
    for fields in stats:
        if owners and _integer(fields[0]) not in owners:
            continue  # it has ended while we looked
        if len(fields) != len(("pid", "state", "ppid", "pgid", "sid", "ticks")):
            continue
        numbers = [_integer(each) for each in (fields[0], *fields[2:])]
        pid, ppid, pgid, sid, ticks = numbers
        line = argv.get(f"/proc/{pid}/cmdline", b"").strip(b"\n").removesuffix(b"\0")
        gone = fields[1][0] in _ENDED or not line
        if pid is None or ppid is None or pgid is None or sid is None or ticks is None or gone:
            continue
        parts = tuple(part.decode("utf-8", "replace") for part in line.split(b"\0"))
        own_env = env.get(f"/proc/{pid}/environ")
        found[pid] = Process(
            pid, ppid, pgid, sid, owners.get(pid, -1), fields[1][0], ticks, parts,
            None if own_env is None else own_env.removesuffix(b"\n"), folders.get(pid),
        )  # fmt: skip
    return found


ENVIRONMENTS: Final = words.environments(()).name
OPEN_FILES: Final = words.open_files(()).name


def _owners(out: bytes) -> Iterator[tuple[int, int]]:
    for line in _lines(out):
        path, _, uid = line.rpartition(" ")
        pid, owner = _integer(path.removeprefix("/proc/")), _integer(uid)
        if pid is not None and owner is not None:
            yield pid, owner


def _folders(out: bytes) -> Iterator[tuple[int, str]]:
    for line in _lines(out):
        if found := _CWD.search(line):
            yield int(found[1]), found[2].removesuffix(" (deleted)")


def _open_files(told: Mapping[str, bytes], processes: Census) -> dict[int, tuple[OpenFile, ...]]:
    """Return the open files that name a run of ours; of the others nothing is known to be open."""
    found: dict[int, list[OpenFile]] = {pid: [] for pid in processes}
    pid = None
    for line in _lines(told.get(OPEN_FILES, b"")):
        if head := _FD_OF.match(line):
            pid = int(head[1])
        elif (one := _FD.match(line)) and pid in found:
            path = one[2].removesuffix(" (deleted)")
            if path.startswith(("/", "pipe:")) and not path.startswith("/dev/"):
                found[pid].append(OpenFile(path, one[1][0] == "r", one[1][1] == "w"))
    return {each: tuple(files) for each, files in found.items()}


def _own(processes: Census, shell: int | None) -> set[int]:
    """Return the shell that was asked, what it descends from, and every probe under way."""
    probes = {pid for pid, one in processes.items() if any(MARK in word for word in one.argv)}
    if shell is not None:
        probes.add(shell)
    above = {one.pid for one in lineage_up(processes, shell)} if shell is not None else set()
    return above | probes | descendants(processes, probes)


def sessions(out: bytes) -> list[Session] | None:
    """Return the panes that tmux tells; ``None`` where there is no tmux."""
    lines = _lines(out)
    if words.ABSENT in lines:
        return None
    found = []
    for line in lines:
        created, pid, dead, status, signal, name = (*line.split("|", 5), *[""] * 6)[:6]
        number = _integer(pid)
        if name and number is not None:
            at = _integer(created)
            since = None if at is None else float(at)
            by = _integer(signal)
            code = _integer(status) if by is None else -by
            found.append(Session(name, number, since, dead == "1", code))
    return found


def screens(out: bytes) -> list[Session] | None:
    """Return the sessions that screen tells; ``None`` where there is no screen."""
    lines = _lines(out)
    if words.ABSENT in lines:
        return None
    matches = (_SCREEN.match(line) for line in lines)
    return [Session(found[2], int(found[1])) for found in matches if found]


def _integer(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _lines(out: bytes) -> list[str]:
    return _text(out).splitlines()


def _text(out: bytes) -> str:
    return out.decode("utf-8", "replace").strip("\n")
