"""What is made beside a run is the next owner's too, where the folder is (SPEC A)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.hosts import notes
from cockpit.hosts.launches import start
from cockpit.hosts.own_folder import follow, make_folder
from cockpit.hosts.supervisor import Launch
from cockpit.model.place import place_of
from cockpit.model.shared_facts import SharedFact
from cockpit.records.git.documents import replace
from cockpit.records.recorder import tell_under
from tests.rules.making import run_spec


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    former = os.umask(0o022)
    yield
    os.umask(former)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("folder", "file", "below"),
    [
        (0o2775, 0o664, 0o2775), (0o775, 0o664, 0o775), (0o755, 0o644, 0o755),
        (0o700, 0o600, 0o700), (0o750, 0o640, 0o750), (0o2770, 0o660, 0o2770),
        (0o777, 0o666, 0o777), (0o1777, 0o644, 0o755),
    ],
)  # fmt: skip
def test_a_file_follows_its_folder(tmp_path: Path, folder: int, file: int, below: int) -> None:
    run = tmp_path / "run"
    run.mkdir()
    run.chmod(folder)
    with (run / "file").open("w") as made:
        follow(made.fileno(), run)
    assert oct(rights(run / "file")) == oct(file)
    make_folder(run / "a" / "b")
    assert oct(rights(run / "a" / "b")) == oct(below)


def test_everything_beside_a_run_is_the_groups(tmp_path: Path) -> None:
    root = tmp_path / "out"
    root.mkdir()
    root.chmod(0o2775)
    launch = Launch(
        command=["true"], log=root / "logs/run.log", pid_file=root / "run.pid",
        exit_file=root / "run.exit", cwd=root, launch_id="toy-i001",
        locks=[root / notes.JOB_LOCK], launches=root / notes.BELOW,
    )  # fmt: skip
    notes.note_intent(root / notes.BELOW, "toy-i001", {"by": "ada"})
    start(launch).supervisor.wait()
    run = run_spec().model_copy(update={"output_root": place_of(str(root))})
    tell_under(run, [SharedFact(what="owner", value="bob", at=1.0, typed_by="ada")])
    replace(root / "book.md", None, b"# Run\n")
    made = [path for path in root.rglob("*") if path.name != "out"]
    assert {"run.exit", "run.pid", "run.log", "job.lock", "toy-i001", "told.md"} <= {
        path.name for path in made
    }
    private = [path for path in made if not rights(path) & 0o020]
    assert private == []
