"""Which jobs of a cluster belong to a run (SPEC J, "Which jobs belong to a run"; C-25).

A job tells by what its system calls it, by the launch id and the lineage that the cockpit has given
it, by its entrypoint and by its environment. *Sure* is one that is named as a launch of the run,
carries its lineage, or was given its output root or W&B id under a name that is written to; one
that only mentions them is *possible*; one whose program only looks is neither.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.hosts.notes import number_of
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.lineage import related, tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, alike, keys_of, recorded_starts
from cockpit.platforms.local import programs
from cockpit.text.safe import clean

_WORDS: Final = 2000


class LineageSign(NamedTuple):
    """Why a job belongs to a run, and whether that is certain."""

    why: str
    certain: bool = True


class Candidate(NamedTuple):
    """A job that lives, and what it was started with: looked at once for all runs."""

    job: LiveJob
    """As it is shown, without why; its ``launch_id`` may be any run's."""
    names: Collection[str]
    """All that its system calls it."""
    told: Sequence[tuple[str, str]]
    """(key, value) of the arguments; none where the program only looks."""
    start: Started
    tag: str = ""
    """The lineage that a cockpit has launched it for."""

    @property
    def env(self) -> Mapping[str, str]:
        """Its environment, as far as it is told."""
        return self.start.variables

    def live(self, run: RunSpec, sign: LineageSign) -> LiveJob:
        """Return the job as one of a run's lineage."""
        launch_id = self.job.launch_id
        own = launch_id if launch_id and number_of(run.name, launch_id) is not None else None
        return self.job.model_copy(update={"why": sign.why, "launch_id": own})


def told_by(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the arguments of a job by name; none where its program only looks."""
    looks = any(programs.only_looks(word) for word in words if word.endswith((".py", ".sh")))
    return () if looks else tuple(programs.arguments(["", *words]))


_VARIABLES: Final = {
    "WANDB_RUN_ID": "wandb.id", "WANDB_PROJECT": "wandb.project", "WANDB_ENTITY": "wandb.entity",
}  # fmt: skip


def settings_of(
    env: Mapping[str, str], told: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield what a job's environment and arguments tell of its run, by the run file's names."""
    for variable, key in _VARIABLES.items():
        value = clean(env.get(variable), 200)
        if value:
            yield key, value
    for key, value in told:
        whole = value.startswith("/") or "://" in value
        if whole and programs.use_of(key) is programs.Use.WRITES:
            yield "output_root", clean(value, 500)
            return


def words_of(entrypoint: str) -> list[str]:
    """Return the words of a shell line, those of scripts that are quoted inside it as well."""
    words: list[str] = []
    for word in _split(entrypoint)[:_WORDS]:
        words += _split(word) if " " in word else [word]
    return words[:_WORDS]


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # quotes that do not close
        return line.split()


def live_of(
    run: RunSpec,
    candidates: Sequence[Candidate],
    own: Started | None = None,
    others: Collection[str] = (),
) -> Live:
    """Return what lives of a run among all living jobs of its system.

    ``own`` is what its current job was started with, ``others`` are the ids of the current jobs of
    other runs.
    """
    signs = LineageSigns(run)
    starts = [*recorded_starts(run), *([] if own is None else [own])]
    shared = keys_of(starts)
    jobs: list[LiveJob] = []
    possible: list[LiveJob] = []
    similar: list[LiveJob] = []
    for each in candidates:
        sign = signs.of(each)
        if sign is not None:
            (jobs if sign.certain else possible).append(each.live(run, sign))
        elif each.job.id not in others and not shared.isdisjoint(keys_of([each.start])):
            why = None if each.tag else alike(run, starts, each.start)
            if why is not None:
                live = each.live(run, LineageSign(why))
                similar.append(live.model_copy(update={"alike": True}))
    return Live(jobs=tuple(jobs), possible=(*possible, *similar))


class LineageSigns:
    """What of a run its jobs are known by; ``words`` is how a job's own words are called."""

    def __init__(self, run: RunSpec, words: str = "entrypoint") -> None:
        root = run.output_root
        self._run = run
        self._words = words
        self._recorded = run.job.id if run.job is not None else None
        self._tag = tag_of(run)
        self._root = None if root is None else root.normal().seen_from(run.job)
        self._wandb = None if run.wandb is None else run.wandb.run_id

    def of(self, job: Candidate) -> LineageSign | None:
        """Return why a job belongs to the run, ``None`` if nothing says that it does."""
        if self._recorded is not None and self._recorded in job.names:
            return LineageSign("the recorded job")
        if job.tag and self._tag:
            return LineageSign("its lineage") if related(job.tag, self._tag) else None
        launch_id = job.job.launch_id
        if launch_id is not None and number_of(self._run.name, launch_id) is not None:
            return LineageSign("it was submitted under a launch id of the run")
        return self.told(job.env, job.told)

    def told(self, env: Mapping[str, str], words: Sequence[tuple[str, str]]) -> LineageSign | None:
        """Return what a job's environment and arguments tell, what is certain first."""
        if self._root is None and self._wandb is None:
            return None
        signs = [*self._in_environment(env), *self._in_words(env, words)]
        return max(signs, key=lambda sign: sign.certain, default=None)

    def _in_environment(self, env: Mapping[str, str]) -> Iterator[LineageSign]:
        for name, value in env.items():
            shown = clean(name, 40)
            if name == "WANDB_RUN_ID" and value == self._wandb:
                if self._same_project(env):
                    yield LineageSign(f"the W&B id in its environment ({shown})")
            elif self._root is not None and programs.within(self._root, value):
                use = programs.use_of(name)
                if use is programs.Use.WRITES or (
                    use is programs.Use.EITHER and programs.names_a_place(name)
                ):
                    yield LineageSign(
                        f"the output root in its environment ({shown})", use is programs.Use.WRITES
                    )

    def _in_words(
        self, env: Mapping[str, str], words: Sequence[tuple[str, str]]
    ) -> Iterator[LineageSign]:
        for key, value in words:
            use, named = programs.use_of(key), programs.names_the_tracker_run(key)
            if self._root is not None and programs.within(self._root, value):
                if use is not programs.Use.READS:
                    sure = use is programs.Use.WRITES
                    yield LineageSign(f"the output root in its {self._words}{_as_key(key)}", sure)
            elif value == self._wandb and named is not False and self._same_project(env):
                # who resumes a run writes to it; another verb of reading may only fork it
                reads = use is programs.Use.READS and "resum" not in key.lower()
                if named or not reads:
                    sure = named is True and not reads
                    yield LineageSign(f"the W&B id in its {self._words}{_as_key(key)}", sure)

    def _same_project(self, env: Mapping[str, str]) -> bool:
        """Tell whether nothing in its environment says that the W&B id is another project's."""
        wandb = self._run.wandb
        told = (
            (wandb.project if wandb else None, "WANDB_PROJECT"),
            (wandb.entity if wandb else None, "WANDB_ENTITY"),
        )
        return all(mine is None or (env.get(name) or mine) == mine for mine, name in told)


def _as_key(key: str) -> str:
    return f" ({clean(key, 40)})" if key else ""
