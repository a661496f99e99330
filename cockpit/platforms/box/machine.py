"""A host as its agent describes it: its clock and boot, its processes, its sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import Ask, ask
from cockpit.platforms.local.belonging import Files
from cockpit.platforms.local.census import (
    Census,
    Children,
    OpenFile,
    Process,
    children,
    descendants,
    lineage_up,
)
from cockpit.runtime.process import Machine
from cockpit.runtime.ssh import ASKING

_SCREEN: Final = re.compile(r"\s+(\d+)\.([^\t]+)\t\((?!.*Dead \?)")
SKEW: Final = 2.0
"""Seconds by which a host's clock may differ from ours and count as the same."""


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
    about: Mapping[str, Any]
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
        return int(self.about["uid"])

    @cached_property
    def ahead(self) -> float:
        """Seconds by which its clock is ahead of ours; 0 where nobody could tell the difference.

        It was read somewhere between sending and getting.
        """
        now = self.about["now"]
        off = float(min(0.0, now - self.sent) + max(0.0, now - self.got))
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
        boot, hertz = self.about["btime"], self.about["hz"]
        return None if boot is None or not hertz else float(boot + process.ticks / hertz)

    @cached_property
    def children(self) -> Children:
        """Whom each process has started."""
        return children(self.processes)

    def below(self, pid: int) -> list[Process]:
        """Return a process and all that descends from it, itself first."""
        found = [self.processes[pid]] if pid in self.processes else []
        rest = sorted(descendants(self.processes, (pid,), self.children))
        return [*found, *(self.processes[each] for each in rest)]


ABOUT: Final = ask("its own facts", "about")


def processes_ask(environments: Iterable[str], files: Iterable[str] = ()) -> Ask:
    """Return what asks for all processes.

    Their environments come where they hold one of these words, and the open files whose paths
    hold one of ``files``.
    """
    words, paths = (sorted({each for each in given if each}) for given in (environments, files))
    return ask("its processes", "processes", environments=words, files=paths)


def host_of(about: Mapping[str, Any], processes: Sequence[Any], sent: float, got: float) -> Host:
    """Return a host from the agent's answers, asked and answered at these times (ours)."""
    found = {
        pid: Process(
            pid, ppid, pgid, sid, uid, state, ticks, tuple(argv),
            None if env is None else env.encode("utf-8", "surrogateescape"), cwd,
        )
        for pid, ppid, pgid, sid, uid, state, ticks, argv, cwd, env, _ in processes
    }  # fmt: skip
    held = {each[0]: tuple(OpenFile(*file) for file in each[-1]) for each in processes}
    files = Files(Path("/nowhere"), about["uid"], held)
    return Host(sent, got, about, found, files, _own(found, about["pid"]))


def _own(processes: Census, agent: int) -> set[int]:
    """Return the agent that was asked, what it descends from, and all that asks a question."""
    asking = {pid for pid, one in processes.items() if any(ASKING in word for word in one.argv)}
    asking.add(agent)
    above = {one.pid for one in lineage_up(processes, agent)}
    return above | asking | descendants(processes, asking)


TMUX: Final = ask(
    "tmux", "run",
    argv=[
        "tmux", "-u", "list-panes", "-a", "-F",
        "#{session_created}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}"
        "|#{session_name}",
    ],
)  # fmt: skip
SCREEN: Final = ask("screen", "run", argv=["screen", "-ls"])


def sessions(out: str) -> list[Session]:
    """Return the panes that tmux lists."""
    found = []
    for line in out.splitlines():
        created, pid, dead, status, signal, name = (*line.split("|", 5), *[""] * 6)[:6]
        number = _integer(pid)
        if name and number is not None:
            at = _integer(created)
            since = None if at is None else float(at)
            by = _integer(signal)
            code = _integer(status) if by is None else -by
            found.append(Session(name, number, since, dead == "1", code))
    return found


def screens(out: str) -> list[Session]:
    """Return the sessions that screen lists."""
    matches = (_SCREEN.match(line) for line in out.splitlines())
    return [Session(found[2], int(found[1])) for found in matches if found]


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
