"""The folder of demos: what is in it of others stays, and who is killed can try again."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.demo.away import site
from cockpit.demo.away.kinds import BoxSite, SlurmSite
from cockpit.demo.away.session import Journal
from cockpit.demo.layout import DemoLayout
from cockpit.runtime.shell import Completed


class Killed(BaseException):
    """The end of the process at some point."""


@pytest.fixture
def layout(layout: DemoLayout) -> DemoLayout:
    for name in ("code", "runs", "monitors"):
        (layout.folder / name).mkdir()
    return layout


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Systems on which nothing lives; what is asked of them."""
    asked: list[str] = []

    def living(self: SlurmSite, token: str) -> Mapping[str, str]:
        asked.append(token)
        return {}

    monkeypatch.setattr(SlurmSite, "living", living)
    yield asked


def dying(after: int) -> Callable[[Path], None]:
    calls = iter(range(after))
    removed = shutil.rmtree

    def rmtree(path: Path) -> None:
        if next(calls, None) is None:
            raise Killed
        removed(path)

    return rmtree


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("away", [True, False])
def test_a_removal_that_is_killed_is_tried_again(
    after: int, away: bool, layout: DemoLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    if away:
        Journal.begin(layout, SlurmSite())
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("cockpit.demo.folder.shutil.rmtree", dying(after))
        main(["demo", "--clean", "--dir", str(layout.folder)])
    assert layout.marker.exists() and layout.away.exists() is away
    assert main(["demo", "--clean", "--dir", str(layout.folder)]) == 0
    assert not layout.folder.exists()


def test_a_removal_under_an_open_cockpit_says_so_and_is_tried_again(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine of a window still writes its messages into the demo's folder."""
    removed = shutil.rmtree

    def rmtree(path: Path) -> None:
        removed(path)
        (layout.folder / "messages.log").write_text("C-01\n")

    words = ["demo", "--clean", "--dir", str(layout.folder)]
    with monkeypatch.context() as patched:
        patched.setattr("cockpit.demo.folder.shutil.rmtree", rmtree)
        assert main(words) == 2
    assert "a cockpit that is open on it writes there; leave that" in capsys.readouterr().err
    assert main(words) == 0
    assert not layout.folder.exists()


def test_what_may_not_be_removed_is_not_said_to_be_written_to(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("cockpit.demo.folder.shutil.rmtree", refused)
    assert main(["demo", "--clean", "--dir", str(layout.folder)]) == 2
    said = capsys.readouterr().err
    assert (
        "Permission denied: mend that, then `cockpit demo --clean` again" in said
        and "cockpit that" not in said
    )
    assert layout.marker.exists()


def test_a_kept_demo_elsewhere_is_not_removed_for_another(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal.begin(layout, BoxSite("one"))
    layout.kept.touch()
    monkeypatch.setattr(BoxSite, "living", lambda *_: {"7": "demo-slow-x"})
    words = ["demo", "--headless", "--on", "slurm", "--dir", str(layout.folder)]
    assert main(words) == 2
    assert "kept on one: remove that one" in capsys.readouterr().err
    assert layout.away.exists() and layout.kept.exists()


def test_a_kept_demo_here_is_not_removed_for_one_elsewhere(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.kept.touch()
    monkeypatch.setattr(DemoLayout, "living", lambda _: ["a process"])
    words = ["demo", "--headless", "--on", "box", "--host", "h", "--dir", str(layout.folder)]
    assert main(words) == 2
    assert "kept here: remove that one" in capsys.readouterr().err
    assert (layout.folder / "runs").exists()


def test_a_home_that_is_not_there_is_not_laid_on_the_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Completed(90, b"", b"sh: 1: cd: can't cd to /home/ada")
    monkeypatch.setattr(site, "asked", lambda *_: done)
    words = ["demo", "--headless", "--on", "box", "--host", "h", "--dir", str(tmp_path / "demo")]
    assert main(words) == 70
    said = capsys.readouterr().err
    assert "the home folder there cannot be entered" in said and "--python" not in said
    assert not (tmp_path / "demo").exists()


@pytest.mark.usefixtures("told")
def test_a_python_that_is_not_here_is_said_before_anything_is_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = str(tmp_path / "demo")
    words = ["demo", "--headless", "--on", "slurm", "--python", "/no/python", "--dir", there]
    assert main(words) == 70
    assert "/no/python cannot be run here" in capsys.readouterr().err
    assert not Path(there).exists()
