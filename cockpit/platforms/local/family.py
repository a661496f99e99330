"""Which processes are one job: ancestors and descendants, ranks, pipelines (SPEC J, C-25).

Two processes that both write to a run are one job where one descends from the other, where they
carry one launch id, where they are ranks of one distributed training, or where one reads what
the other writes to a pipe. A session manager above both (a terminal, tmux, systemd) makes
nothing one, and neither does a shell that has started several.

``starts_again`` finds a person's own loop above a job: ``while true; do python train.py; done``
outlives whatever is stopped below it. Only a loop in which the job's own program stands is one, so
that no other loop of a script is taken for it. Blocking.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from cockpit.model.jobs import LiveJob
from cockpit.platforms.local.belonging import LAUNCH_ID, WRITES, Files, Mark
from cockpit.platforms.local.census import Census, Children, Process, descendants, lineage_up
from cockpit.platforms.local.marks import begin_of, code_of
from cockpit.platforms.local.programs import (
    inner,
    is_cockpit,
    is_helper,
    is_shell,
    is_supervisor,
    is_tool,
    is_wrapper,
    program,
    serves,
    starts_the_next,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_RANKS: Final = (
    ("RANK", ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")),
    ("OMPI_COMM_WORLD_RANK", ("PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE")),
    ("PMI_RANK", ("PMI_PORT", "PMI_SIZE")),
    ("SLURM_PROCID", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
)
"""How a rank knows itself, and what all ranks of one training have in common."""


class Family(NamedTuple):
    """One job: the process that stands for it, its mark, and every process that is marked."""

    pid: int
    mark: Mark
    members: frozenset[int]


class _Groups:
    """Sets of processes that are merged as reasons are found."""

    def __init__(self, pids: Collection[int]) -> None:
        self._of = {pid: frozenset((pid,)) for pid in pids}

    def merge(self, one: int, other: int) -> None:
        both = self._of[one] | self._of[other]
        self._of.update(dict.fromkeys(both, both))

    def drop(self, pid: int) -> None:
        rest = self._of.pop(pid) - {pid}
        self._of.update(dict.fromkeys(rest, rest))

    def of(self, pid: int) -> frozenset[int]:
        return self._of[pid]

    def __contains__(self, pid: int) -> bool:
        return pid in self._of

    def all(self) -> list[frozenset[int]]:
        return list(dict.fromkeys(self._of.values()))


def families(
    processes: Census,
    marks: Mapping[int, Mark],
    recorded: int | None,
    files: Files,
    own: set[int],
    inside: Mapping[int, int],
) -> list[Family]:
    """Return the jobs among the marked processes, the recorded one first, then by age.

    ``inside`` tells of what runs in a container who has asked for that.
    """
    groups = _Groups(marks)
    above = {
        pid: [one.pid for one in lineage_up(processes, processes[pid].ppid) if one.pid in marks]
        for pid in marks
    }
    plain = {pid for pid in marks if pid == recorded or not is_shell(processes[pid].argv)}
    for pid in marks:
        for parent in above[pid]:
            if parent in plain or pid == recorded:
                groups.merge(pid, parent)
    for pid, client in inside.items():
        groups.merge(pid, client)
    _merge_related(processes, marks, recorded, files, groups)
    _settle_shells(marks.keys() - plain, above, groups)
    found = [_family(processes, marks, group, recorded, own) for group in groups.all()]
    return sorted(
        found,
        key=lambda each: (recorded not in each.members, processes[each.pid].ticks, each.pid),
    )


def _merge_related(
    processes: Census,
    marks: Mapping[int, Mark],
    recorded: int | None,
    files: Files,
    groups: _Groups,
) -> None:
    """Merge by launch id, by ranks, by what the recorded one leads, and by pipes."""
    seen: dict[object, int] = {}
    for pid, mark in marks.items():
        one = processes[pid]
        ranks = _rendezvous(one)
        for key in (("launch", mark.launch_id) if mark.launch_id else None, ranks):
            if key is not None:
                groups.merge(pid, seen.setdefault(key, pid))
        if recorded is not None and recorded in (one.pgid, one.sid):
            groups.merge(pid, recorded)
    if len(groups.all()) > 1:
        # One pipeline: one reads what the other writes.
        piped = {pid: files.piped(processes[pid]) for pid in marks}
        for pid, (reads, _) in piped.items():
            for other, (_, writes) in piped.items():
                if pid != other and reads & writes:
                    groups.merge(pid, other)


def _rendezvous(process: Process) -> tuple[str | None, ...] | None:
    """Return what a rank has in common with the other ranks of its training, if it is one."""
    for rank, shared in _RANKS:
        if process.variable(rank) is not None:
            values = tuple(process.variable(name) for name in shared)
            if all(values) and values[-1] != "1":
                return (rank, *values)
    return None


def _settle_shells(
    shells: Collection[int], above: Mapping[int, list[int]], groups: _Groups
) -> None:
    """Make a shell part of the one job that it waits for; of several it is none.

    From the innermost shell outwards.
    """
    for shell in sorted(shells, key=lambda pid: -len(above[pid])):
        if len(groups.of(shell)) > 1:
            continue
        below = {
            groups.of(pid) for pid, parents in above.items() if shell in parents and pid in groups
        }
        if len(below) == 1:
            groups.merge(shell, min(next(iter(below))))
        elif below:
            groups.drop(shell)


def _family(
    processes: Census,
    marks: Mapping[int, Mark],
    group: frozenset[int],
    recorded: int | None,
    own: set[int],
) -> Family:
    """Return a group as a job: by its recorded process, else by the topmost that is its own."""
    if recorded is not None and recorded in group:
        return Family(recorded, marks[recorded], group)
    tops = [pid for pid in group if not group & set(_parents(processes, pid))]
    first = min(tops, key=lambda pid: (processes[pid].ticks, pid))
    others = marks.keys() - group
    through = marks[first].why.startswith(WRITES)
    top = _whole(processes, processes[first], group, others, own, through=through)
    return Family(top.pid, marks[first], group)


def _parents(processes: Census, pid: int) -> list[int]:
    return [one.pid for one in lineage_up(processes, processes[pid].ppid)]


def _whole(
    processes: Census,
    process: Process,
    group: frozenset[int],
    others: Collection[int],
    own: set[int],
    *,
    through: bool,
) -> Process:
    """Return the topmost parent that belongs to the same job and to no other.

    Wrappers and shells that wait for it alone; with ``through`` also a program whose helper
    writes for it, or whose only work it is. What starts it anew is no part of it.
    """
    top = process
    for parent in lineage_up(processes, process.ppid):
        foreign = parent.pid in own or parent.pid == 1 or parent.uid != process.uid
        if foreign or is_tool(parent.argv) or is_supervisor(parent) or is_cockpit(parent.argv):
            break
        if starts_the_next(parent.argv):
            break
        if descendants(processes, (parent.pid,)) & set(others):
            break
        if is_shell(parent.argv):
            if _has_more(processes, parent, top, group):
                break
        elif not is_wrapper(parent.argv) and not (
            through and _works_for_it(processes, parent, top, group)
        ):
            break
        top = parent
    return top


def _works_for_it(processes: Census, parent: Process, top: Process, group: frozenset[int]) -> bool:
    """Tell whether a program that has started a job runs nothing else beside it.

    Of a helper it is the trainer, which may have workers; of a rank it may have started the others.
    """
    if is_helper(top.argv):
        return True
    own = [_without_rank(processes[pid]) for pid in (top.pid, *group)]
    return not any(
        one.ppid == parent.pid
        and not (is_tool(one.argv) or is_helper(one.argv) or one.pid in group)
        and group.isdisjoint(descendants(processes, (one.pid,)))
        and _without_rank(one) not in own
        for one in processes.values()
    )


def _without_rank(process: Process) -> list[str]:
    """Return a command line without what tells a rank of a training from its others."""
    return _TELLS_RANK.sub("", "\n".join(process.argv)).split("\n")


_TELLS_RANK: Final = re.compile(
    r"\n--?(?:(?:(?:local|global|node|machine|worker)[-_])?rank|process[-_](?:id|index)|worker[-_]id)"
    r"[=\n]\d+(?=\n|\Z)"
    r"|(?<=\bpipe_handle=)\d+"
)
"""How a launcher tells each of its processes which one it is: ``--local_rank=3``, ``--rank 3``, and
the pipe that ``multiprocessing`` has for one that it spawns."""


def _has_more(processes: Census, shell: Process, top: Process, group: frozenset[int]) -> bool:
    """Tell whether a shell runs another program beside this job: then it is not the job's alone."""
    children = (one for one in processes.values() if one.ppid == shell.pid and one.pid != top.pid)
    return any(
        not is_tool(one.argv)
        and one.pid not in group
        and group.isdisjoint(descendants(processes, (one.pid,)))
        for one in children
    )


def relatives(processes: Census, found: Collection[Family]) -> set[int]:
    """Return every process that is part of a job, or only waits for one."""
    pids = {pid for each in found for pid in (each.pid, *each.members)}
    below = descendants(processes, pids)
    above = {
        parent
        for pid in pids
        for parent in _parents(processes, pid)
        if not is_tool(processes[parent].argv)
    }
    return pids | below | above


def is_leftover(processes: Census, found: Family, recorded: int | None) -> bool:
    """Tell whether a job is nothing but helpers whose trainer has gone (W&B's, for one).

    Whoever may train keeps it a job: another program among them, or one that they serve and
    that lives. One that was told to outlive its trainers is not ending.
    """
    pids = {found.pid, *found.members}
    if recorded in pids or not all(is_helper(processes[pid].argv) for pid in pids):
        return False
    return not any(_serves_somebody(processes, processes[pid]) for pid in pids)


def _serves_somebody(processes: Census, helper: Process) -> bool:
    """Tell whether a helper has somebody to work for: whom it names, else its parent.

    The parent of one that carries a launch carries it too, and is marked by itself.
    """
    if "--detached" in helper.argv:
        return True
    named = serves(helper.argv)
    if named is None and helper.variable(LAUNCH_ID) is not None:
        return False
    master = processes.get(helper.ppid if named is None else named)
    if master is None or is_helper(master.argv) or master.ticks > helper.ticks:
        return False
    waits = _only_minds(master) or is_shell(master.argv) or is_wrapper(master.argv)
    return named is not None or not waits


def _only_minds(process: Process) -> bool:
    """Tell whether a process is a session's, the machine's or ours, and starts nothing again."""
    ours = is_supervisor(process) or is_cockpit(process.argv)
    return process.pid == 1 or ours or is_tool(process.argv)


_LOOP = re.compile(r"(?:^|[\s;&|({])(?:while|until|for)\s.*?\bdone\b", re.DOTALL)
_COMMENT = re.compile(r"(?m)(?:^|\s)#.*$")
_ANY_COMMAND = re.compile(r"\$[@*]|\$\{[@*]\}")


Known = dict[tuple[int, int], tuple[LiveJob, ...]]
"""What was found from a process and its child on upwards: jobs beside one another have that in
common."""


def starts_again(
    processes: Census, pid: int, started: Children, *, here: bool = True, known: Known | None = None
) -> tuple[LiveJob, ...]:
    """Return the loop that starts the job anew once it is over, if a shell above it runs one.

    ``started`` tells whom each process has started, ``known`` what was found of these processes.
    Not ``here``: the processes are another machine's, whose scripts are not read; ``sh -c`` tells.
    """
    known = {} if known is None else known
    below = processes.get(pid)
    if below is None:
        return ()
    passed: list[tuple[int, int]] = []
    found: tuple[LiveJob, ...] = ()
    for parent in lineage_up(processes, below.ppid):
        at = (parent.pid, below.pid)
        if at in known:
            found = known[at]
            break
        passed.append(at)
        loop = _loop_of(processes, parent, below, started, here)
        if loop is not None:
            found = loop
            break
        below = parent
    known.update(dict.fromkeys(passed, found))
    return found


_SERVICE: Final = "SYSTEMD_EXEC_PID"
"""In the environment of a service and of all that it has started: the service's own process."""


def starter_of(
    processes: Census, pid: int, started: Children, *, here: bool = True, known: Known | None = None
) -> str | None:
    """Return the program that has started a job and waits for it: it may start the next.

    ``here`` and ``known`` are as in ``starts_again``. It is ``None`` for a session's manager, for
    the cockpit's supervisor, and for a program that runs others beside it, unless it is known to
    start the next of several.
    """
    below = processes.get(pid)
    if below is None:
        return None
    loop = starts_again(processes, pid, started, here=here, known=known)
    if loop:
        return loop[0].why.removeprefix("run again by ")
    for parent in lineage_up(processes, below.ppid):
        if below.variable(_SERVICE) == str(below.pid):
            return f"systemd, as a service (pid {below.pid})"
        if starts_the_next(parent.argv):
            return f"pid {parent.pid}: {_short(parent)}"
        if _only_minds(parent):
            return None
        if not (is_wrapper(parent.argv) or is_shell(parent.argv)):
            alone = not _runs_others(processes, parent, below, started)
            return f"pid {parent.pid}: {_short(parent)}" if alone else None
        below = parent
    return None


def _loop_of(
    processes: Census, parent: Process, below: Process, started: Children, here: bool
) -> tuple[LiveJob, ...] | None:
    """Return the loop that a parent runs; empty: none above it matters; ``None``: look there."""
    if is_supervisor(parent) or is_cockpit(parent.argv):
        return ()
    if _runs_others(processes, parent, below, started):
        return ()  # a session's manager, a CI runner, a test: over or not, it goes on without it
    if not (is_shell(parent.argv) and _loops(parent, below, here)):
        return None
    why = f"run again by the loop of pid {parent.pid}: {_short(parent)}"
    ends = f"it is a shell, and may do more than this: end it yourself (kill {parent.pid})"
    return (LiveJob(id=f"pid:{parent.pid}", name=_short(below), why=why, beyond=ends),)


def _runs_others(processes: Census, parent: Process, child: Process, started: Children) -> bool:
    """Tell whether a program runs more than this job; a shell or a wrapper waits for it."""
    if is_shell(parent.argv) or is_wrapper(parent.argv):
        return False
    others = (processes[pid] for pid in started.get(parent.pid, ()) if pid != child.pid)
    return not all(is_tool(one.argv) or is_helper(one.argv) for one in others)


def _short(process: Process) -> str:
    return clean(scrub(" ".join(process.argv)), 80)


def _loops(shell: Process, child: Process, here: bool) -> bool:
    """Tell whether a shell's text has a loop in which its child's command stands."""
    text, names = _COMMENT.sub("", _text(shell, here)), _names(child)
    loops = [found[0] for found in _LOOP.finditer(text)]
    return any(
        _ANY_COMMAND.search(loop) or (names and all(_names_it(name, loop) for name in names))
        for loop in loops
    )


def _names(child: Process) -> set[str]:
    """Return the words by which a loop would name a command: of a script its own name alone.

    A wrapper counts beside what it runs: a target "test" alone stands in many a loop.
    """
    words = inner(child.argv)
    if is_shell(words) and "-c" not in words and len(words) > 1:
        told = next((word for word in words[1:] if not word.startswith("-")), words[0])
    else:
        told = program(words or [""])
    names = {told, child.argv[0]} if is_wrapper(child.argv) else {told}
    return {name.rpartition("/")[2] for name in names} - {""}


def _names_it(name: str, loop: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", loop) is not None


def _text(shell: Process, here: bool) -> str:
    """Return what a shell was given to run; nothing where that cannot be read."""
    code = code_of(shell.argv)
    script = next((word for word in shell.argv[1:] if not word.startswith("-")), "")
    if code is not None or not script or not here:
        return code or ""
    return begin_of(posixpath.join(shell.cwd or "/", script))
