"""Which processes of a machine are jobs of a run (SPEC J, "Which jobs belong to a run").

Each process is asked why it would belong to the run (``belonging``), the pid file whom it means
(``recorded``), and what belongs together is one job (``family``): the recorded process with its
ancestors and descendants is one, and stays the recorded one.
Blocking.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import AnyStr, Final, Generic, NamedTuple

from cockpit.model.jobs import Live, LiveJob
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local import programs
from cockpit.platforms.local.belonging import (
    LINEAGE,
    RUN,
    Candidate,
    Mark,
    Sure,
    belongs,
    fed,
    is_diagnostic,
)
from cockpit.platforms.local.census import Process, descendants, lineage_up
from cockpit.platforms.local.family import (
    Family,
    families,
    is_leftover,
    relatives,
    starter_of,
)
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.marks import RunMarks, runs_script
from cockpit.platforms.local.recorded import outputs_elsewhere
from cockpit.platforms.local.sight import Sight
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


def noted(process: Process, sight: Sight, now: float) -> PidNote:
    """Return a living process as a pid file would name it."""
    since = sight.started_at(process)
    return PidNote(process.pid, since, None, since or now, ticks=process.ticks)


def topmost(found: Sequence[Process], sight: Sight) -> list[Process]:
    """Return those among them that no other of them has started."""
    pids = {one.pid for one in found}
    return [
        one
        for one in found
        if not any(each.pid in pids for each in lineage_up(sight.processes, one.ppid))
    ]


SPAWNED: Final = ("--multiprocessing-fork", "from multiprocessing.forkserver import")
"""How a word begins in the command line of a worker that has no script of its own."""
RENAMED: Final = "a Python program in the work folder of the run's job, behind a title of its own"
ORPHAN: Final = "is a worker whose trainer has gone, in the work folder of the run's job"
SHARED_WORDS: Final = (
    "runs in a container as the run's job does, which another client may have asked for"
)
NAME_LENGTH: Final = 120
MOST_NAMES: Final = 2048
"""Commands whose names are kept: a job has the same one at each look."""


class Recorded(NamedTuple):
    """Whom the run file's way to find the job means, and why that cannot be told.

    ``pid_file`` is where it is noted; ``None`` for what a session or a match has found.
    """

    note: PidNote | None = None
    pid: int | None = None
    trouble: str | None = None
    pid_file: Place | None = None


def candidates_of(look: Sight) -> list[Candidate]:
    """Return every process that may be somebody's job."""
    return [
        look.candidate(process)
        for process in look.processes.values()
        if process.pid not in look.own
        and not programs.is_supervisor(process)
        and not programs.is_cockpit(process.argv)
    ]


class Joined(Generic[AnyStr]):
    """Texts that are searched as one, since most words stand in none of them."""

    def __init__(self, texts: Sequence[AnyStr], between: AnyStr) -> None:
        self._all: AnyStr = between.join(texts)
        lengths: list[int] = [len(text) + len(between) for text in texts]
        self._begins = [0, *accumulate(lengths)]

    def holding(self, words: Iterable[AnyStr]) -> Iterator[int]:
        """Yield the place of each text that holds one of these words."""
        for word in words:
            at = self._all.find(word)
            while at >= 0:
                behind = bisect_right(self._begins, at)
                yield behind - 1
                at = self._all.find(word, self._begins[behind])


class Launched:
    """Processes that carry a lineage, by what ties one to a run: of a fleet's jobs few do."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._lineages: dict[str, list[int]] = defaultdict(list)
        self._runs: dict[str, list[int]] = defaultdict(list)
        for each in candidates:
            for part in (each.tag or "").split(","):
                self._lineages[part].append(each.process.pid)
            if (run := each.process.variable(RUN)) is not None:
                self._runs[run].append(each.process.pid)
        self._names = sorted(self._runs)

    def of(self, watched: RunMarks) -> Iterator[int]:
        """Yield those of a run's lineage, and of runs whose name begins like its own."""
        for part in filter(None, watched.tag.split(",")):
            yield from self._lineages.get(part, ())
        name = watched.run.name
        for end in range(len(name)):
            yield from self._runs.get(name[:end], ())
        for longer in self._names[bisect_left(self._names, name) :]:
            if not longer.startswith(name):
                break
            yield from self._runs[longer]


class Around:
    """All candidates of one look, and what they tell together: most runs few of them name."""

    def __init__(self, candidates: Sequence[Candidate], look: Sight) -> None:
        self.all = candidates
        self._look = look
        plain = [each for each in candidates if each.tag is None and not each.client]
        launched = [each for each in candidates if each.tag and not each.client]
        held = [look.files.held(each.process) for each in plain]
        self._known = [each.process.pid for each in (*plain, *launched)]
        self._apart = {each.process.pid for each in candidates}.difference(self._known)
        for each, files in zip(plain, held, strict=True):
            if any(file.locked for file in files):  # a lock has names of many kinds
                self._apart.add(each.process.pid)
        self._launched = Launched(launched)
        self._told = Joined([each.told for each in (*plain, *launched)], "\n")
        self._env = Joined([each.process.env or b"" for each in plain], b"\0")
        self._held = Joined(["".join(f"\n{file.path}" for file in each) for each in held], "\n")

    def of(self, run: RunSpec, recorded: Recorded) -> Sequence[Candidate]:
        """Return those that may have to do with a run, in their order."""
        watched = self._look.marks(run, recorded.note)
        naming = chain(
            self._told.holding(watched.words),
            self._env.holding(watched.in_environment),
            self._held.holding(f"\n{place}" for place in watched.places),
        )
        named = {self._known[at] for at in naming}
        meant = {*named, *self._launched.of(watched), *self._apart, recorded.pid}
        return [each for each in self.all if each.process.pid in meant]


def live_of(run: RunSpec, look: Sight, candidates: Sequence[Candidate], recorded: Recorded) -> Live:
    """Return what lives of a run's lineage on the machine that is looked at."""
    watched = look.marks(run, recorded.note)
    marks: dict[Sure, dict[int, Mark]] = {sure: {} for sure in Sure}
    for candidate in candidates:
        pid = candidate.process.pid
        found = belongs(watched, candidate, look.files)
        if pid == recorded.pid and (found is None or found.sure is not Sure.YES):
            marks[Sure.YES][pid] = _as_recorded(watched, recorded.pid_file)
        elif found is not None:
            marks[found.sure][pid] = found.mark
    _mark_pipelines(watched, look, marks)
    _mark_hidden(watched, look, marks)
    inside = _mark_contained(look, marks)
    jobs = families(look.processes, marks[Sure.YES], recorded.pid, look.files, look.own, inside)
    others = marks[Sure.POSSIBLE] or marks[Sure.NO]
    related = relatives(look.processes, jobs) if others else set()
    left = [each for each in jobs if _left_over(watched, each, recorded.pid, look)]
    return Live(
        jobs=tuple(
            _whole_job(each, recorded.pid, watched, look) for each in jobs if each not in left
        ),
        leftovers=tuple(_job(each.pid, each.mark, look) for each in left),
        possible=_tops(marks[Sure.POSSIBLE], related, look),
        spared=_tops(marks[Sure.NO], related, look),
        unknown=recorded.trouble,
    )


def _mark_pipelines(watched: RunMarks, look: Sight, marks: Mapping[Sure, dict[int, Mark]]) -> None:
    """Mark whose output goes through a pipe into a file of the run, where nothing else does."""
    for pid, written in look.files.feeding(watched, look.processes).items():
        one = look.processes[pid]
        nobodys = pid in look.own or programs.is_supervisor(one) or programs.is_cockpit(one.argv)
        found = None if nobodys or pid in marks[Sure.YES] else fed(look.candidate(one), written)
        if found is not None and not is_diagnostic(watched.run, one):
            for weaker in (Sure.POSSIBLE, Sure.NO):
                marks[weaker].pop(pid, None)
            marks[found.sure][pid] = found.mark


def _mark_hidden(watched: RunMarks, look: Sight, marks: Mapping[Sure, dict[int, Mark]]) -> None:
    """Mark who works in the work folder and names no script.

    That is a worker that ``multiprocessing`` has spawned and whose trainer has gone, which may
    train on, or save; and who hides what it runs behind a title (``setproctitle``). What another
    interpreter has started is its worker, and known by it.
    """
    for pid, one in look.processes.items():
        marked = any(pid in each for each in marks.values())
        if marked or one.cwd not in watched.workdirs or not watched.starts:
            continue
        spawned = any(word.startswith(SPAWNED) for word in one.argv)
        if not spawned and (pid in look.own or not look.places.is_renamed(one)):
            continue
        parent = look.processes.get(one.ppid)
        led = parent is not None and programs.is_interpreter(programs.inner(parent.argv)[:1])
        if not (led or look.candidate(one).tag or is_diagnostic(watched.run, one)):
            marks[Sure.POSSIBLE][pid] = Mark(ORPHAN if spawned else RENAMED, alike=True)


def _mark_contained(look: Sight, marks: Mapping[Sure, dict[int, Mark]]) -> dict[int, int]:
    """Mark what runs in the containers that jobs have asked for; return whose each of them is.

    It is below the container's shim. A client has started the first one with its command. Where
    another client may have started one of them too, a person decides.
    """
    found: dict[int, int] = {}
    wanted = {tuple(programs.contained(look.processes[pid].argv)) for pid in marks[Sure.YES]} - {()}
    if not wanted:
        return found
    by_age = sorted(look.processes.values(), key=lambda one: (one.ticks, one.pid))
    for words in sorted(wanted):
        clients = [one for one in by_age if tuple(programs.contained(one.argv)) == words]
        ours = [one for one in clients if one.pid in marks[Sure.YES]]
        first = _first_in_containers(look, words, ours)
        beside = any(not _is_below(one, ours, look) for one in clients)
        if beside or len(first) > len(ours):
            for one in first:
                if one.pid not in marks[Sure.YES]:
                    marks[Sure.NO].pop(one.pid, None)
                    marks[Sure.POSSIBLE][one.pid] = Mark(SHARED_WORDS, alike=True)
            continue
        for client in ours:
            own = next((one for one in first if one.ticks >= client.ticks), None)
            if own is None:
                continue
            first.remove(own)
            found[own.pid] = client.pid
            for weaker in (Sure.POSSIBLE, Sure.NO):
                marks[weaker].pop(own.pid, None)
            why = f"it runs in the container that pid {client.pid} has asked for"
            marks[Sure.YES].setdefault(own.pid, Mark(why))
    return found


def _first_in_containers(
    look: Sight, words: tuple[str, ...], clients: Sequence[Process]
) -> list[Process]:
    """Return, by age, what runs a command in a container and is no older than its first client.

    A worker that was forked from one of them has its words, and is not among them.
    """
    same = {
        one.pid: one
        for one in look.processes.values()
        if one.argv == words and one.ticks >= clients[0].ticks and _in_container(one, look)
    }
    tops = (one for one in same.values() if not _is_below(one, same.values(), look, itself=False))
    return sorted(tops, key=lambda one: (one.ticks, one.pid))


def _is_below(
    process: Process, others: Iterable[Process], look: Sight, *, itself: bool = True
) -> bool:
    """Tell whether a process is one of the others (if ``itself`` counts), or descends from one."""
    pids = {one.pid for one in others}
    above = lineage_up(look.processes, process.ppid)
    return (itself and process.pid in pids) or any(one.pid in pids for one in above)


def _in_container(process: Process, look: Sight) -> bool:
    parents = lineage_up(look.processes, process.ppid)
    return any(one.argv and posixpath.basename(one.argv[0]) in programs.SHIMS for one in parents)


def _left_over(watched: RunMarks, found: Family, recorded: int | None, look: Sight) -> bool:
    """Tell whether only helpers of a job are left; what holds the lineage's lock still counts."""
    if not is_leftover(look.processes, found, recorded):
        return False
    return not any(look.files.holds_lock(watched, look.processes[pid]) for pid in found.members)


def _as_recorded(watched: RunMarks, pid_file: Place | None) -> Mark:
    job, note = watched.run.job, watched.recorded
    assert job is not None and note is not None
    where = f"by {named_by(job)}" if pid_file is None else f"in {pid_file}"
    return Mark(f"recorded {where}", note.launch_id)


def named_by(job: JobSpec) -> str:
    """Return by what the run file names a process that no pid file records."""
    return f"session {job.session}" if job.session is not None else f"match {job.match}"


def _tops(marks: Mapping[int, Mark], related: set[int], look: Sight) -> tuple[LiveJob, ...]:
    """Return the topmost of these processes that are no part of a job."""
    apart = {pid: mark for pid, mark in marks.items() if pid not in related}
    below = descendants(look.processes, apart, look.children)
    return tuple(_job(pid, mark, look) for pid, mark in apart.items() if pid not in below)


def _whole_job(found: Family, recorded: int | None, watched: RunMarks, look: Sight) -> LiveJob:
    """Return a job with what is to be ended with it and is not below its process."""
    job = _job(found.pid, found.mark, look)
    job = job.model_copy(
        update={
            "starter": starter_of(
                look.processes,
                found.pid,
                look.children,
                here=look.places.here,
                known=look.again,
            ),
            "recorded": recorded in found.members,
            "beyond": job.beyond or _runs_another(found.pid, watched, look),
        }
    )
    apart = found.members - descendants(look.processes, (found.pid,), look.children) - {found.pid}
    apart -= descendants(look.processes, apart, look.children)
    above = {one.pid for one in lineage_up(look.processes, found.pid)}
    told = " ".join(f"{pid}:{look.processes[pid].ticks}" for pid in sorted(apart - above))
    return job.model_copy(update={"handle": {**job.handle, "also": told}}) if told else job


def _job(pid: int, mark: Mark, look: Sight) -> LiveJob:
    process = look.processes[pid]
    why = mark.why
    if process.uid != look.uid:
        why += f"; it belongs to user {process.uid}"
    handle = {"pid": str(process.pid), "ticks": str(process.ticks)}
    if mark.launch_id is not None and (tag := process.variable(LINEAGE)) is not None:
        handle |= {"launch_id": mark.launch_id, "lineage": tag}
    return LiveJob(
        id=f"pid:{process.pid}",
        name=name_of(process.argv),
        why=why,
        launch_id=mark.launch_id,
        alike=mark.alike,
        started_at=look.started_at(process),
        beyond=_beyond(process, look),
        handle=handle,
    )


def _beyond(process: Process, look: Sight) -> str | None:
    """Return whose process keeps this user from stopping a job."""
    below = descendants(look.processes, (process.pid,), look.children)
    for pid in (process.pid, *sorted(below)):
        one = look.processes[pid]
        if not look.places.may_signal(one, look.uid):
            return f"pid {pid} belongs to user {one.uid}, which you may not signal"
    return None


def _runs_another(pid: int, watched: RunMarks, look: Sight) -> str | None:
    """Return that a job's process has started another run's trainer too, which would end with it.

    A launcher, or the shell of a script, may be what a pid file names.
    """
    for one in look.below(pid)[1:]:
        log = look.files.logs_elsewhere(one)
        if log is not None and log in watched.logs_of_others:
            why = f"it writes the log {clean(log, 200)}"
        elif runs_script(one.argv, watched.scripts):
            why = outputs_elsewhere(watched, one, look) or ""
        else:
            continue
        if why and look.files.why(watched, one) is None:
            text = f"pid {one.pid} below it may be another run's job ({why})"
            return f"{text}: end what is this run's yourself, or note its own pid"
    return None


@lru_cache(maxsize=MOST_NAMES)
def name_of(argv: tuple[str, ...]) -> str:
    """Return a command for people: one line, safe, scrubbed and short."""
    return clean(scrub(" ".join(clean(part, 400) for part in argv)), NAME_LENGTH)
