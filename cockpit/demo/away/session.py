"""One demo on another system from beginning to end; nothing of it is left there, nor here."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Final

from cockpit.demo import folder
from cockpit.demo.away.kinds import BoxSite, RaySite, SlurmSite
from cockpit.demo.away.kubernetes import KubernetesSite
from cockpit.demo.away.site import Ground, Site
from cockpit.demo.folder import NOTIFY, own_tables, table
from cockpit.demo.guard import await_guard
from cockpit.demo.layout import DemoLayout
from cockpit.demo.processes import stop
from cockpit.demo.session import DemoFleet, allow_entries, conducted, forget
from cockpit.demo.situations import CADENCE, SAVE_EVERY, SITUATIONS, Situation
from cockpit.hosts.own_folder import write_atomically
from cockpit.platforms.base import CannotError, LostError
from cockpit.runtime.account import login_name

SITES: Final[dict[str, type[Site]]] = {
    "slurm": SlurmSite, "ray": RaySite, "box": BoxSite, "kubernetes": KubernetesSite,
}  # fmt: skip
LETTERS: Final = "bcdfghjkmnpqrstvwxz"
"""No vowels: a token is never a word, nor part of one."""
TOKEN: Final = 5


class JournalError(Exception):
    """The journal cannot be read; the text is one line."""


class Journal:
    """The journal of one demo; every change of it is on disk before the call returns."""

    def __init__(self, layout: DemoLayout, site: Site, token: str) -> None:
        self.layout = layout
        self.site = site
        self.token = token
        self.ground: Ground | None = None
        self.jobs: dict[str, str | None] = {}

    @classmethod
    def begin(cls, layout: DemoLayout, site: Site) -> Journal:
        """Begin the journal of a new demo, with a token of its own."""
        made = cls(layout, site, "".join(secrets.choice(LETTERS) for _ in range(TOKEN)))
        made._write()
        return made

    @classmethod
    def read(cls, layout: DemoLayout) -> Journal | None:
        """Return the journal of the demo in a folder, ``None`` if it holds none.

        Raises ``JournalError``.
        """
        try:
            document = json.loads(layout.away.read_text(encoding="utf-8"))
            site = SITES[document["kind"]](**document["site"])
            found = cls(layout, site, document["token"])
            ground = document["ground"]
            found.ground = None if ground is None else Ground(**ground)
            found.jobs = dict(document["jobs"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{layout.away} cannot be read: {error}") from None
        return found

    def found(self, ground: Ground) -> None:
        """Note where the trainings run."""
        self.ground = ground
        self._write()

    def note(self, launch_id: str, job_id: str | None) -> None:
        """Note that a job is about to be submitted (``None``), or which one it became."""
        self.jobs[launch_id] = job_id
        self._write()

    def strike(self, launch_id: str) -> None:
        """Note that nothing was submitted under a launch id."""
        self.jobs.pop(launch_id, None)
        self._write()

    @property
    def doubtful(self) -> bool:
        """True if it is not known of a job whether it was submitted."""
        return None in self.jobs.values()

    def _write(self) -> None:
        ground = None if self.ground is None else asdict(self.ground)
        document: dict[str, Any] = {
            "schema": 1,
            "kind": self.site.kind,
            "site": self.site.settings,
            "token": self.token,
            "ground": ground,
            "jobs": self.jobs,
        }
        write_atomically(self.layout.away, json.dumps(document, indent=2) + "\n")


TORN: Final = ("--killed-in-save", "2")
"""What a kill from here could not hit from afar, the training does to itself."""


NEEDS_SIGHT: Final = "demo-torn"
"""The run whose situation lies in its checkpoints alone."""


def situations_of(journal: Journal) -> tuple[Situation, ...]:
    """Return the runs as one demo has them: their names hold its token.

    All seven, but for one where nothing of what they write can be seen.
    """
    seen = journal.ground is None or journal.ground.seen
    every = (each for each in SITUATIONS if seen or each.name != NEEDS_SIGHT)
    return tuple(_away(each, journal.token) for each in every)


def _away(situation: Situation, token: str) -> Situation:
    name = f"{situation.name}-{token}"
    faults = (*situation.faults, *TORN) if situation.name == "demo-torn" else situation.faults
    trainer = replace(situation.config.trainer, id=name)
    config = replace(situation.config, trainer=trainer)
    return replace(situation, name=name, config=config, faults=faults)


class AwayFleet(DemoFleet):
    """The jobs of one demo on another system, and the monitors on this machine."""

    def __init__(self, journal: Journal, situations: Sequence[Situation]) -> None:
        super().__init__(journal.layout, situations)
        self._journal = journal

    def _conduct(self) -> None:
        try:
            super()._conduct()
        except (CannotError, LostError) as error:
            self.trouble = f"the demo could not start everything: {error}"

    def _start_run(self, situation: Situation, sha: str) -> bool:
        """Submit a training unless it was; it is noted before and after."""
        launch_id, ground = situation.launch_id, self._journal.ground
        if launch_id in self._journal.jobs or ground is None:
            return False
        self._journal.note(launch_id, None)
        try:
            job_id = self._journal.site.submit(situation, ground)
        except CannotError:
            self._journal.strike(launch_id)
            raise
        self._journal.note(launch_id, job_id)
        words = self._journal.site.resubmit(situation, ground)
        folder.log_launch(self.layout, situation, sha, words)
        return True

    def _to_be_done(self) -> list[Callable[[], bool]]:
        return [self._kill_monitor]


HEAD = """\
# Made by `cockpit demo --on {kind}`: small, real training runs on {where}.
# Remove them and all that was made for them: cockpit demo --on {kind} --clean
"""


def run_file(journal: Journal, ground: Ground, operator: str, every: Sequence[Situation]) -> str:
    """Return the text of the run file."""
    head = HEAD.format(kind=journal.site.kind, where=journal.site.where)
    parts = [head, table("[cockpit]", {"cadence": f"{CADENCE}s", "operator": operator}), NOTIFY]
    for situation in every:
        run, tables = _run(journal, ground, situation, operator)
        parts.append(table("[[run]]", run))
        parts += [table(f"[run.{name}]", fields) for name, fields in tables.items()]
    return "\n".join(parts)


def _run(
    journal: Journal, ground: Ground, situation: Situation, operator: str
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    name, places = situation.name, journal.layout.run(situation.name)
    folder = str(places.folder.relative_to(journal.layout.folder))
    run = {
        "name": name,
        "tier": "ordinary",
        "dri": operator,
        "goal": situation.goal,
        "stop_criteria": "the loss is NaN",
        "final_step": situation.config.trainer.num_train_steps,
        "hardware": "cpu",
        "group": "demo",
        "config_file": f"file://{places.config}",
        "resubmit": journal.site.resubmit(situation, ground),
    }
    if ground.seen:
        run["output_root"] = ground.place("runs", name)
    job = {"kind": journal.site.kind, **journal.site.job(situation, ground)}
    tables: dict[str, dict[str, Any]] = {"job": job}
    if ground.tracker:
        wandb = ground.place("runs", name, "wandb")
        tables["wandb"] = {"project": "cockpit-demo", "id": name, "name": name, "dir": wandb}
    if ground.seen:
        tables["checkpoints"] = {
            "path": [ground.place("runs", name, root.name) for root in places.roots],
            "layout": "levanter",
            "save_every": f"{SAVE_EVERY}s",
            "permanent_every": situation.config.trainer.checkpointer.permanent_every,
        }
    tables |= own_tables(journal.layout, situation, folder)
    tables["code"] = {"repo": f"file://{journal.layout.code}"}
    return run, tables


PATIENCE: Final = 90.0
"""Seconds within which all jobs must have ended once they were told to."""
SETTLE: Final = 5.0
"""Seconds in which a job shows up that was being submitted when its demo died."""
MONITORS: Final = 5.0
"""Seconds that the monitors here have to leave."""


class LeftError(Exception):
    """Something of a demo could not be removed; the text is one line, and says what."""


def prepare(layout: DemoLayout, site: Site) -> Journal:
    """Return the journal of a demo that can be run: a kept one that still lives, else a new one.

    What an earlier demo left goes first, but for one that was kept elsewhere. Raises
    ``FolderError``, ``CannotError``, ``LostError``, ``LeftError``, ``JournalError``,
    ``DemoBusyError``. The lock is held.
    """
    await_guard(layout)
    former = Journal.read(layout)
    if former is not None and _goes_on(former, site):
        return former
    if layout.kept.exists() and _lives_elsewhere(layout, former, site):
        text = f"{layout.folder} is of a demo that was kept {_where(former)}"
        raise folder.FolderError(f"{text}: remove that one with --clean, or name another --dir")
    if former is not None:
        _take_away(former)
    stop(layout.living, MONITORS)
    forget(layout)
    folder.empty(layout)
    allow_entries(layout)
    return _built(Journal.begin(layout, site))


def _goes_on(journal: Journal, site: Site) -> bool:
    """Tell whether a kept demo on the same system still runs there."""
    kept = journal.layout.kept.exists() and journal.ground is not None
    same = (journal.site.kind, journal.site.settings) == (site.kind, site.settings)
    return kept and same and bool(site.living(journal.token))


def _lives_elsewhere(layout: DemoLayout, former: Journal | None, site: Site) -> bool:
    """Tell whether a kept demo still runs somewhere else than where this one is to run."""
    if former is None:
        return bool(layout.living())
    same = (former.site.kind, former.site.where) == (site.kind, site.where)
    return not same and bool(former.site.living(former.token))


def _where(former: Journal | None) -> str:
    return "here" if former is None else f"on {former.site.where}"


def _built(journal: Journal) -> Journal:
    """Make everything but the jobs."""
    layout = journal.layout
    try:
        ground = journal.site.look(layout, journal.token)
    except CannotError:
        folder.remove(layout)
        raise
    journal.found(ground)
    situations = situations_of(journal)
    folder.build_runs(layout, situations)
    text = run_file(journal, ground, login_name(), situations)
    layout.run_file.write_text(text, encoding="utf-8")
    try:
        journal.site.ship(layout, ground, situations)
    except CannotError:
        remove(layout)
        raise
    return journal


@contextmanager
def running(journal: Journal, *, keep: bool) -> Iterator[AwayFleet]:
    """Submit the fleet in the background; on leaving, however it comes, remove it unless ``keep``.

    Raises ``LeftError`` when something could not be removed.
    """
    layout = journal.layout
    fleet = AwayFleet(journal, situations_of(journal))
    try:
        with conducted(layout, fleet, keep=keep, patience=MONITORS):
            yield fleet
    finally:
        if not keep:
            remove(layout)


def remove(layout: DemoLayout) -> None:
    """Stop and remove everything, there and here. The folder is ours and the lock is held.

    Raises ``LeftError`` (the folder here stays, so that it can be tried again), ``JournalError``,
    ``DemoBusyError``.
    """
    await_guard(layout)
    journal = Journal.read(layout)
    if journal is not None:
        _take_away(journal)
    stop(layout.living, MONITORS)
    forget(layout)
    folder.remove(layout)


def _take_away(journal: Journal) -> None:
    """Stop every job of a demo and remove what lies there; raises ``LeftError``."""
    site, token = journal.site, journal.token
    try:
        left = site.stop_all(token, PATIENCE)
        if journal.doubtful and not left:
            time.sleep(SETTLE)
            left = site.stop_all(token, PATIENCE)
        if left:
            raise CannotError(f"{site.where}: {', '.join(left)} still there {PATIENCE:.0f} s later")
        site.forget(token)
        if journal.ground is not None:
            site.clear(journal.ground)
    except (CannotError, LostError) as error:
        again = f"`cockpit demo --clean --dir {journal.layout.folder}` tries again"
        text = f"{error}; not all of the demo is removed: {again}"
        raise LeftError(text) from None
