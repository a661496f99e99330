"""The program, packed: as the sdist, as the wheel (elsewhere, the whole demo), and in place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cockpit import version_text
from cockpit.demo.layout import DemoLayout
from cockpit.demo.processes import stop
from cockpit.demo.situations import SITUATIONS

ROOT = Path(__file__).resolve().parent.parent
DATA = tuple(
    f"run_cockpit/{name}"
    for name in ("cockpit/demo/corpus.txt", "cockpit/py.typed", "themes/cockpit-dark.toml")
)
OUR_NAMES = ("cockpit", "screens", "themes", "widgets")
COMMANDS_NEED = (
    *("Makefile", "requirements.lock", "requirements-dev.lock", ".ci/run", "pyproject.toml"),
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/SECURITY.md"),
    *("run_cockpit.py", "tests/conftest.py", "bench/__main__.py", "docs/make_screenshots.py"),
)
"""What README's commands read."""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


def call(*argv: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in argv], cwd=cwd, capture_output=True, text=True, timeout=200
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def borrowing(home: Path) -> None:
    """Make ``env``: a new environment that borrows only our dependencies."""
    call(sys.executable, "-m", "venv", "--without-pip", home / "env", cwd=home)
    place = home / "env" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (place / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the ``bin`` of an environment that the wheel was installed into."""
    home = tmp_path_factory.mktemp("elsewhere")
    borrowing(home)
    pip = (sys.executable, "-m", "pip", "--python", home / "env/bin/python", "install")
    done = call(*pip, "--no-deps", "--no-index", "--ignore-installed", "-q", wheel, cwd=home)
    assert done.returncode == 0, done.stderr
    return home / "env" / "bin"


def test_the_wheel_holds_the_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert set(DATA) <= set(names)
    beside = [name for name in names if ".data/" in name]
    assert [name.partition(".data/")[2] for name in beside] == ["data/share/man/man1/cockpit.1"]
    names = [name for name in names if name not in beside]
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"run_cockpit"}
    assert {"run_cockpit/__init__.py", "run_cockpit/__main__.py"} <= set(names)


def test_the_source_distribution_has_what_a_clone_has(tmp_path: Path) -> None:
    done = call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as packed:
        names = {each.name.partition("/")[2]: each.mode for each in packed.getmembers()}
    assert set(COMMANDS_NEED) <= set(names)
    assert ("cockpit/COMMIT" in names) == (ROOT / ".git").exists()
    assert names[".ci/run"] & 0o100
    if (ROOT / ".git").exists():
        cloned = call("git", "ls-files", cwd=ROOT).stdout.splitlines()
        assert set(cloned) - set(names) == set()


def test_the_installed_program_is_the_wheels(installed: Path, tmp_path: Path) -> None:
    code = "import run_cockpit; run_cockpit.settle(); import cockpit; print(cockpit.__file__)"
    done = call(installed / "python", "-c", code, cwd=tmp_path)
    assert str(installed.parent / "lib") in done.stdout, done.stderr
    for command in ((installed / "cockpit",), (installed / "python", "-m", "run_cockpit")):
        done = call(*command, "--version", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == version_text() + "\n", "the wheel says the commit of its clone"


def packed_stranger(name: str, folder: Path) -> Path:
    """Return a wheel of another project with modules named like ours, that end whoever loads them.

    ``cockpit-for-pytorch`` is one such project; a training repository with ``widgets`` another.
    """
    built = folder / f"{name}-9.0-py3-none-any.whl"
    files = {
        **{f"{each}/__init__.py": f"ours = {name!r}\n" for each in OUR_NAMES},
        f"{name}-9.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n",
        f"{name}-9.0.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = f"{name}-9.0.dist-info/RECORD"
    files[record] = "".join(f"{path},,\n" for path in (*files, record))
    with zipfile.ZipFile(built, "w") as packed:
        for path, text in files.items():
            packed.writestr(path, text)
    return built


@pytest.mark.parametrize("ours_first", [True, False])
def test_other_projects_with_our_names_live_beside_the_program(
    wheel: Path, tmp_path: Path, ours_first: bool
) -> None:
    borrowing(tmp_path)
    python = tmp_path / "env/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    wheels = [wheel, packed_stranger("stranger", tmp_path)]
    for each in wheels if ours_first else reversed(wheels):
        done = call(
            *(*pip, "install", "--no-compile", "--no-deps", "--no-index", "--ignore-installed"),
            *("-q", each),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr

    def program_runs() -> bool:
        done = call(tmp_path / "env/bin/cockpit", "checkpoints", tmp_path, cwd=tmp_path)
        return done.stderr == "" and "no checkpoint was found" in done.stdout

    def stranger_imports() -> bool:
        names = ", ".join(OUR_NAMES)
        code = f"import {names}; print(*(each.ours for each in ({names})))"
        done = call(python, "-c", code, cwd=tmp_path)
        return done.stdout.split() == ["stranger"] * len(OUR_NAMES)

    assert program_runs() and stranger_imports()
    leaves, stays = ("run-cockpit", stranger_imports) if ours_first else ("stranger", program_runs)
    done = call(*pip, "uninstall", "-y", "-q", leaves, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert stays()


def test_make_installs_the_program_as_it_lies_here(tmp_path: Path) -> None:
    borrowing(tmp_path)
    venv = tmp_path / "env"
    for stamp in (".made", ".runtime"):
        (venv / stamp).touch()
    done = call("make", f"VENV={venv}", venv / ".project", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    code = "import cockpit, widgets, screens, themes; print(cockpit.__file__)"
    done = call(venv / "bin" / "python", "-c", code, cwd=tmp_path)
    assert done.stdout.strip() == str(ROOT / "cockpit" / "__init__.py"), done.stderr
    done = call(venv / "bin" / "cockpit", "--version", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("cockpit "), done.stderr


def test_the_demo_shows_every_situation(installed: Path, tmp_path: Path) -> None:
    layout = DemoLayout(tmp_path / "demo")
    arguments = ("demo", "--headless", "--json", "--dir", layout.folder)
    try:
        done = call(installed / "cockpit", *arguments, cwd=tmp_path)
        left = layout.living()
    finally:
        stop(layout.living, patience=0.0)
    assert (done.returncode, done.stderr, left) == (0, "", [])
    _judge({run["name"]: run for run in json.loads(done.stdout)["runs"]})
    again = call(
        installed / "cockpit", "check", "--json", "--config", layout.run_file, cwd=tmp_path
    )
    assert again.returncode == 1
    assert len(json.loads(again.stdout)["runs"]) == 7
    _nothing_of_the_source_tree_is_used(layout, installed)


def _judge(runs: dict[str, Any]) -> None:
    alerts = {name: {alert["id"] for alert in run["alerts"]} for name, run in runs.items()}
    verdicts = {name: run["verdict"] for name, run in runs.items()}
    assert runs.keys() == {each.name for each in SITUATIONS}
    assert {"C-01", "C-07"} <= alerts["demo-torn"]
    assert "C-01" in alerts["demo-error"]
    assert "C-05" in alerts["demo-slow"]
    assert "C-09" in alerts["demo-nan"]
    assert alerts["demo-monitor"] == {"C-03"}
    assert alerts["demo-healthy"] == alerts["demo-finished"] == set()
    assert verdicts["demo-healthy"] == verdicts["demo-monitor"] == "healthy"
    assert verdicts["demo-finished"] == "finished"
    _look_into(runs)


def _look_into(runs: dict[str, Any]) -> None:
    def value(name: str, facet: str) -> Any:
        return runs[name]["facets"][facet]["value"]

    assert value("demo-torn", "job")["exit_code"] == 137
    assert value("demo-error", "job")["exit_code"] == 1
    triage = value("demo-error", "log")["triage"]
    assert (triage["class"], triage["action"]) == ("small_code_bug", "fix_then_relaunch")
    assert triage["code_location"]["file"].endswith("evaluation.py")
    assert value("demo-finished", "job")["phase"] == "succeeded"
    torn = value("demo-torn", "checkpoints")
    states = [item["state"] for item in torn["items"]]
    assert states[-1] == "incomplete" and "complete" in states
    assert torn["relaunch_from"]["step"] < torn["items"][-1]["name_step"]
    assert (
        value("demo-slow", "tracker")["throughput"]
        < 0.75 * value("demo-slow", "tracker")["baseline"]
    )
    assert value("demo-healthy", "records")["pushed"] is True
    assert value("demo-healthy", "code")["dirty"] == []


def _nothing_of_the_source_tree_is_used(layout: DemoLayout, installed: Path) -> None:
    python = os.fspath(installed / "python")
    assert python in layout.run_file.read_text()
    assert str(ROOT) not in layout.run_file.read_text()
