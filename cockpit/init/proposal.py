"""What a new run file would say, setting by setting, each with the source that it was read from.

Nothing is guessed silently: two sources that disagree are a question, and so is what no source
tells; a person answers, or names the setting on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

Key = tuple[str, ...]
"""Where a setting stands below ``[[run]]``: ``("job", "id")``, ``("name",)``."""
Value = str | int | float | bool | list[str] | list[int]


class Clue(NamedTuple):
    """One setting as one source tells it."""

    key: Key
    value: Value
    source: str


class Question(NamedTuple):
    """A setting that a person must decide; ``choices`` are what sources say or suggest.

    One that is not ``needed`` may stay open: it is then a comment in the file.
    """

    key: Key
    text: str
    choices: tuple[Clue, ...] = ()
    needed: bool = False


ASKED: Final[tuple[tuple[Key, str], ...]] = (
    (("dri",), "who is responsible for the run (a name)"),
    (("output_root",), "the one folder or bucket path that the run writes; a relaunch needs it"),
    (("resubmit",), "the command that starts the job again; a relaunch needs it"),
    (("final_step",), "the exact last step, from the training config"),
    (("checkpoints", "path"), "where checkpoints are saved (a path, ssh://, gs://, s3://)"),
    (("wandb", "url"), "the address of the W&B run, or leave it and set wandb.dir"),
)
"""What is asked for when no source tells it, and may stay open."""
NEEDED_BY: Final[dict[str, tuple[tuple[Key, str], ...]]] = {
    "iris": (
        (("job", "id"), "the Iris job, as in /ada/my-run"),
        (("job", "controller_url"), "the controller's address, or set job.cluster"),
    ),
    "ray": (
        (("job", "id"), "the submission id, as in raysubmit_…"),
        (("job", "address"), "the head's dashboard address, as in http://127.0.0.1:8265"),
    ),
    "slurm": ((("job", "id"), "the job id"),),
    "box": (
        (("job", "host"), "the ssh host"),
        (("job", "session"), "the tmux session, or set job.match or job.pid_file"),
    ),
    "local": (
        (("job", "log"), "the log file"),
        (("job", "pid_file"), "the file with the trainer's process id"),
    ),
}
"""What each kind of job must name before its job can be seen."""
INSTEAD: Final[dict[Key, tuple[Key, ...]]] = {
    ("job", "controller_url"): (("job", "cluster"),),
    ("job", "session"): (("job", "match"), ("job", "pid_file")),
    ("job", "pid_file"): (("job", "match"), ("job", "done_marker"), ("job", "exit_file")),
    ("wandb", "url"): (("wandb", "id"), ("wandb", "dir")),
    ("final_step",): (("final_step_from",),),
}
"""Settings that do the same: with one of them, the other is not asked for."""
KINDS: Final = tuple(NEEDED_BY)


class Proposal:
    """The clues so far. A setting that a person has decided beats whatever sources say."""

    def __init__(self, clues: Iterable[Clue] = ()) -> None:
        self._told: dict[Key, list[Clue]] = {}
        self._decided: dict[Key, Clue] = {}
        self._suggested: dict[Key, list[Clue]] = {}
        for clue in clues:
            self.add(clue)

    def add(self, clue: Clue) -> None:
        """Take a source's word; the same word of a second source changes nothing."""
        told = self._told.setdefault(clue.key, [])
        if all(other.value != clue.value for other in told):
            told.append(clue)

    def suggest(self, clue: Clue) -> None:
        """Take what might be meant: it is shown beside the question, and never an answer."""
        told = self._suggested.setdefault(clue.key, [])
        if all(other.value != clue.value for other in told):
            told.append(clue)

    def decide(self, key: Key, value: Value, source: str) -> None:
        """Take a person's word."""
        self._decided[key] = Clue(key, value, source)

    @property
    def settled(self) -> tuple[Clue, ...]:
        """Every setting that is clear: decided, or told by all sources alike."""
        clear = {key: told[0] for key, told in self._told.items() if len(told) == 1}
        return tuple((clear | self._decided).values())

    def value(self, *key: str) -> Value | None:
        """Return a clear setting, ``None`` while it is not."""
        return next((clue.value for clue in self.settled if clue.key == key), None)

    def questions(self) -> tuple[Question, ...]:
        """Return what is still to be decided, what is needed first."""
        split = tuple(
            Question(key, "the sources disagree", tuple(told), needed=True)
            for key, told in self._told.items()
            if len(told) > 1 and key not in self._decided
        )
        asked = {question.key for question in split}
        needed = tuple(each for each in self._needed() if each.key not in asked)
        open_ = tuple(
            Question(key, text) for key, text in ASKED if not self._has(key) and key not in asked
        )
        return (*split, *map(self._with_choices, (*needed, *open_)))

    def _with_choices(self, question: Question) -> Question:
        return question._replace(choices=tuple(self._suggested.get(question.key, ())))

    def _needed(self) -> Iterable[Question]:
        if not self._has(("name",)):
            yield Question(("name",), "the run's name: what a person types to confirm", needed=True)
        kind = self.value("job", "kind")
        if kind is None and not self._seen_otherwise():
            text = f"the kind of job: {', '.join(KINDS)}"
            yield Question(("job", "kind"), text, needed=True)
        for key, text in NEEDED_BY.get(str(kind), ()):
            if not self._has(key):
                yield Question(key, text, needed=True)

    def _has(self, key: Key) -> bool:
        keys = (key, *INSTEAD.get(key, ()))
        return any(each in self._decided or self._told.get(each) for each in keys)

    def _seen_otherwise(self) -> bool:
        """Tell whether a run without a job could be seen all the same."""
        return any(self.value("wandb", name) is not None for name in ("url", "id", "dir"))
