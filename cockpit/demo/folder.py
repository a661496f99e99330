"""Makes the demo's folder: code and logbook repositories, configs, the run file.

The repositories are real ones, each with a bare remote, and with no hooks but their own.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from git import Actor, GitCommandError, Repo

from cockpit.demo.layout import DemoLayout
from cockpit.demo.settings import write_config
from cockpit.demo.situations import CADENCE, SAVE_EVERY, SITUATIONS, Situation
from cockpit.model.base import listed
from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.model.run import RunSpec
from cockpit.platforms.command import recorded
from cockpit.records.logbook.writing import new_logbook, with_event, with_instance
from cockpit.runtime.account import login_name

HEAD = "# Made by `cockpit demo`: seven small, real training runs. Remove: cockpit demo --clean\n"

NOTIFY = """# What needs a person is appended to messages.log here; yours would name a webhook.
[notify]
routes = [{ min = "alert", command = ["tee", "-a", "messages.log"] }]
"""


def run_file(layout: DemoLayout, operator: str, python: str) -> str:
    """Return the text of the run file; its paths start at its own folder."""
    parts = [HEAD, table("[cockpit]", {"cadence": f"{CADENCE}s", "operator": operator})]
    parts.append(NOTIFY)
    for situation in SITUATIONS:
        run, tables = _run(layout, situation, operator, python)
        parts.append(table("[[run]]", run))
        parts += [table(f"[run.{name}]", fields) for name, fields in tables.items()]
    return "\n".join(parts)


def command(layout: DemoLayout, situation: Situation, python: str) -> tuple[str, ...]:
    """Return the training command of a run; it starts in the code repository, whose code it is."""
    config = f"../{layout.run(situation.name).config.relative_to(layout.folder)}"
    return (python, "-E", "-m", "cockpit.demo.trainer", "--config", config, *situation.faults)


def _run(
    layout: DemoLayout, situation: Situation, operator: str, python: str
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    name, places = situation.name, layout.run(situation.name)
    folder = str(places.folder.relative_to(layout.folder))
    run = {
        "name": name,
        "tier": "ordinary",
        "dri": operator,
        "goal": situation.goal,
        "stop_criteria": "the loss is NaN",
        "final_step": situation.config.trainer.num_train_steps,
        "output_root": folder,
        "hardware": "cpu",
        "group": "demo",
        "config_file": f"{folder}/{places.config.name}",
        "resubmit": list(command(layout, situation, python)),
    }
    return run, _tables(layout, situation, folder)


def _tables(layout: DemoLayout, situation: Situation, folder: str) -> dict[str, dict[str, Any]]:
    name, places = situation.name, layout.run(situation.name)
    return {
        "job": {
            "kind": "local",
            "log": f"{folder}/{places.log.name}",
            "pid_file": f"{folder}/{places.pid_file.name}",
            "exit_file": f"{folder}/{places.exit_file.name}",
            "workdir": layout.code.name,
            "save_signal": "USR1",
            "grace": "10s",
        },
        "wandb": {"project": "cockpit-demo", "id": name, "name": name, "dir": f"{folder}/wandb"},
        "checkpoints": {
            "path": [f"{folder}/{root.name}" for root in places.roots],
            "layout": "levanter",
            "save_every": f"{SAVE_EVERY}s",
            "permanent_every": situation.config.trainer.checkpointer.permanent_every,
        },
        **own_tables(layout, situation, folder),
    }


def own_tables(layout: DemoLayout, situation: Situation, folder: str) -> dict[str, dict[str, Any]]:
    """Return what lies on this machine wherever a run trains; ``folder`` is its own here."""
    return {
        "monitor": {
            "state": f"{folder}/scratch/*_monitoring_state.json",
            "events": f"{layout.monitors.name}/{situation.monitor}.log",
        },
        "records": {"logbook": str(layout.logbook(situation.name).relative_to(layout.folder))},
        "code": {"repo": layout.code.name},
        "thresholds": {"warmup_steps": 50},
    }


def table(head: str, fields: Mapping[str, Any]) -> str:
    """Return a TOML table: JSON strings and lists are TOML too, as long as they keep letters."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "\n".join([head, *lines, ""])


HERE = Path(__file__).parent
TRAINING = listed("__init__.py corpus.txt evaluation.py model.py settings.py trainer.py writing.py")
"""The files that the training runs from; the demo runs its own copy of them, under git."""
ENDED = "training complete"
BRANCH = "main"
AUTHOR = Actor("cockpit demo", "demo@localhost")


class FolderError(Exception):
    """The folder cannot be used; the message is one line."""


def take(layout: DemoLayout) -> None:
    """Make sure that the folder is ours; raises ``FolderError`` if it is somebody else's."""
    folder = layout.folder
    if any(character in str(folder) for character in "\n\r\t"):
        raise FolderError(f"{str(folder)!r}: choose a folder without control characters")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = not layout.marker.exists() and any(folder.iterdir())
        if strange:
            raise FolderError(
                f"{folder} is not empty and was not made by `cockpit demo`; name another --dir"
            )
        _write_marker(layout)
    except OSError as error:
        raise FolderError(f"{folder}: {error.strerror}; name another --dir") from error


def empty(layout: DemoLayout) -> None:
    """Remove everything that a demo has made in its folder, except what says that it is ours.

    The journal of one on another system is the last of it: who is killed knows it still.
    """
    for path in sorted(layout.folder.iterdir(), key=lambda each: each == layout.away):
        if path in (layout.marker, layout.lock):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove(layout: DemoLayout) -> None:
    """Remove the folder; what says that it is ours goes last: who is killed can try again.

    Raises ``FolderError`` where not all can be removed; what is left is still ours then.
    """
    try:
        empty(layout)
        layout.lock.unlink(missing_ok=True)
        layout.marker.unlink(missing_ok=True)
        with suppress(NotADirectoryError):  # a link to it, which is not ours
            layout.folder.rmdir()
    except OSError as error:
        with suppress(OSError):
            _write_marker(layout)
        text = f"{layout.folder}: {error.strerror}"
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # something came while it was emptied
            text += ": a cockpit that is open on it writes there; leave that, then"
            raise FolderError(f"{text} `cockpit demo --clean` again") from error
        raise FolderError(f"{text}: mend that, then `cockpit demo --clean` again") from error


def _write_marker(layout: DemoLayout) -> None:
    layout.marker.write_text("`cockpit demo --clean` removes this folder\n", encoding="utf-8")


def build(layout: DemoLayout) -> None:
    """Make everything but the processes. The folder is ours and empty."""
    build_runs(layout, SITUATIONS)
    text = run_file(layout, login_name(), sys.executable)
    layout.run_file.write_text(text, encoding="utf-8")


def build_runs(layout: DemoLayout, situations: Sequence[Situation]) -> None:
    """Make everything but the run file: code, configs, folders, logbooks."""
    _code(layout)
    layout.monitors.mkdir()
    for situation in situations:
        places = layout.run(situation.name)
        for folder in (*places.roots, places.scratch, places.folder / "wandb"):
            folder.mkdir(parents=True)
        write_config(situation.config, places.config)
    _records(layout, situations, login_name())


def _code(layout: DemoLayout) -> None:
    package = layout.code / "cockpit" / "demo"
    package.mkdir(parents=True)
    files = [package / name for name in TRAINING]
    for file in files:
        shutil.copyfile(HERE / file.name, file)
    top, ignore = package.parent / "__init__.py", layout.code / ".gitignore"
    top.write_text('"""The demo\'s training code."""\n', encoding="utf-8")
    ignore.write_text("__pycache__/\n", encoding="utf-8")
    with DemoRepository.create(layout.code, layout.remotes / "code.git") as repository:
        repository.commit([*files, top, ignore], "training: a tiny character model")
        repository.push()


def _records(layout: DemoLayout, situations: Sequence[Situation], who: str) -> None:
    layout.logbooks.mkdir(parents=True)
    with DemoRepository.create(layout.records, layout.remotes / "records.git") as repository:
        for situation in situations:
            path, contract = layout.logbook(situation.name), _contract(situation, who)
            path.write_bytes(new_logbook(RunSpec(name=situation.name), contract))
            repository.commit([path], f"{situation.name}: start hero-run logbook")
        repository.push()


def _contract(situation: Situation, who: str) -> dict[str, str]:
    name = situation.name
    return {
        "DRI": who,
        "Goal": situation.goal,
        "Stop/escalation criteria": "the loss is NaN",
        "Issue": "none, it is a demo",
        "W&B": f"offline, project `cockpit-demo`, id `{name}`",
        "Output root": f"`runs/{name}`",
        "Final step": f"{situation.config.trainer.num_train_steps}, from `runs/{name}/config.json`",
    }


def code_sha(layout: DemoLayout) -> str:
    """Return the commit that the trainings run from."""
    with DemoRepository(layout.code) as repository:
        return repository.head()


def log_launch(
    layout: DemoLayout, situation: Situation, sha: str, words: Sequence[str] | None = None
) -> None:
    """Write the launch of a run into its logbook, commit and push it.

    ``words`` are what it was started with, where that is not this machine's own command.
    """
    words = command(layout, situation, sys.executable) if words is None else words
    keep = situation.config.trainer.checkpointer
    fields = {
        "Command": f"`{recorded(words)}`",
        "Git SHA": sha,
        "Dirty tree": "clean",
        "Source bundle/container": "none",
        "Hardware/topology": "cpu, 1 process",
        "`initialize_from`": "none",
        "Final step": str(situation.config.trainer.num_train_steps),
        "Checkpoint policy": f"temporary every {keep.save_interval:g} s, "
        f"permanent every {keep.permanent_every} steps",
        "Babysitter/check cadence": f"{CADENCE} s",
    }
    path = layout.logbook(situation.name)
    entry = InstanceEntry(launch_id=situation.launch_id, at=time.time(), fields=fields)
    text = with_instance(path.read_bytes(), entry)
    _record(layout, path, text, f"{situation.name}: log launch")


def log_end(layout: DemoLayout, situation: Situation) -> None:
    """Write the good end of a run into its logbook, commit and push it; only once."""
    last = situation.config.trainer.num_train_steps - 1
    path = layout.logbook(situation.name)
    text = path.read_bytes()
    if ENDED.encode() in text:
        return
    entry = EventEntry(
        title=ENDED,
        at=time.time(),
        status="finished, exit status 0",
        evidence=f"`runs/{situation.name}/checkpoints/step-{last}` is complete",
        decision="none yet",
        next="seal",
    )
    _record(layout, path, with_event(text, entry), f"{situation.name}: log {ENDED}")


def _record(layout: DemoLayout, path: Path, text: bytes, message: str) -> None:
    path.write_bytes(text)
    with DemoRepository(layout.records) as repository:
        repository.commit([path], message)
        repository.push()


class DemoRepository:
    """A work tree and the bare remote that it pushes to."""

    def __init__(self, folder: Path) -> None:
        self._repo = Repo(folder)
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, remote: Path) -> DemoRepository:
        """Make the repository in ``folder`` (which may hold files already) and its remote."""
        for path, bare in ((remote, True), (folder, False)):
            path.mkdir(parents=True, exist_ok=True)
            with Repo.init(path, bare=bare) as empty:
                empty.git.symbolic_ref("HEAD", f"refs/heads/{BRANCH}")
                hooks = Path(empty.git_dir) / "hooks"
                hooks.mkdir(exist_ok=True)
                for hook in hooks.iterdir():  # the user's template may have put some there
                    hook.unlink()
                with empty.config_writer() as config:
                    config.set_value("core", "hooksPath", str(hooks))
                    for key, value in _missing_identity(empty):
                        config.set_value("user", key, value)
        made = cls(folder)
        made._repo.create_remote("origin", str(remote))
        return made

    def commit(self, files: Sequence[Path], message: str) -> str:
        """Commit ``files``; return the commit's id. Not signed, and no hook runs."""
        self._repo.index.add([str(file) for file in files])
        made = self._repo.index.commit(message, author=AUTHOR, committer=AUTHOR, skip_hooks=True)
        return made.hexsha

    def push(self) -> None:
        """Push the branch and remember what the remote has."""
        self._repo.git.push("origin", BRANCH, set_upstream=True, quiet=True)

    def head(self) -> str:
        """Return the id of the newest commit."""
        return self._repo.head.commit.hexsha

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._repo.close()


def _missing_identity(repo: Repo) -> Iterator[tuple[str, str]]:
    """Yield who commits here, where a person has not told git who they are."""
    for key, value in (("name", AUTHOR.name), ("email", AUTHOR.email)):
        try:
            repo.git.config("--get", f"user.{key}")
        except GitCommandError:
            yield key, str(value)
