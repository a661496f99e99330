"""The rules of the house that no type checker sees."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("cockpit", "widgets", "screens")
HEAVY = ("textual", "rich", "wandb", "plotext", "httpx", "apprise", "git", "hypothesis", "pytest")


def texts(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def sources(*folders: str, words: tuple[str, ...]) -> Iterator[tuple[Path, ast.Module]]:
    """Parse the files that hold one of the words: nothing that is looked for does without."""
    for path, text in texts(*folders):
        if any(word in text for word in words):
            yield path, ast.parse(text)


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("module", ["cockpit.model.report", "cockpit.cli", "cockpit.watch.engine"])
def test_the_core_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}") & set(HEAVY) == set()


def test_the_program_itself_never_loads_the_tracker_client() -> None:
    assert "wandb" not in loaded_by(
        "import cockpit.app.application, cockpit.verbs.open, cockpit.verbs.demo"
    )


def test_only_the_demo_trainer_names_the_tracker_client() -> None:
    importers = {
        str(path)
        for path, tree in sources(*FOLDERS, words=("wandb",))
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
        if (name or "").partition(".")[0] == "wandb"
    }
    assert all(path.startswith("cockpit/demo/") for path in importers), importers


def keyword(call: ast.Call, name: str) -> object:
    for item in call.keywords:
        if item.arg == name and isinstance(item.value, ast.Constant):
            return item.value.value
    return None


def test_no_text_is_ever_parsed_as_markup() -> None:
    offenders = []
    for path, tree in sources(*FOLDERS, words=("notify", "markup")):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            if (
                called == "notify"
                and keyword(node, "markup") is not False
                and "engine" not in ast.unparse(node.func)
                and path.parts[:2] != ("cockpit", "notify")
            ):
                offenders.append(f"{path}:{node.lineno} notify without markup=False")
            if called == "from_markup" or keyword(node, "markup") is True:
                offenders.append(f"{path}:{node.lineno} {called} parses markup")
    assert offenders == []


PURE = ("cockpit/rules", "cockpit/model", "widgets")
CLOCKS = {"time.time", "datetime.now", "datetime.utcnow", "time.monotonic", "date.today"}


def test_pure_code_reads_no_clock() -> None:
    offenders = [
        f"{path}:{node.lineno}"
        for path, tree in sources(*PURE, words=("time", "date"))
        if path.name != "clock.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS
    ]
    assert offenders == []


def test_every_command_is_an_argument_list() -> None:
    offenders = [
        f"{path}:{node.lineno}"
        for path, tree in sources(*FOLDERS, words=("shell", "os.system", "os.popen"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (keyword(node, "shell") is True or ast.unparse(node.func) in ("os.system", "os.popen"))
    ]
    assert offenders == []


def test_files_are_rooms_not_halls() -> None:
    lengths = {str(path): text.count("\n") for path, text in texts(*FOLDERS)}
    assert {path: n for path, n in lengths.items() if n > 600} == {}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_locks_pin_hashes_and_name_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    names = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert names and all("==" in name for name in names)
    assert text.count("--hash=sha256:") >= len(names)


def imports_inside(folder: str) -> dict[str, set[str]]:
    """Each module of a folder with those of the same folder that it imports, now or late."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / folder).rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    found: dict[str, set[str]] = {}
    for path, tree in sources(folder, words=("import",)):
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        taken = found.setdefault(name, set())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{each.name}" for each in node.names}
                taken |= inner & names or {str(node.module)}
        taken &= names - {name}
    return found


@pytest.mark.parametrize("folder", ["cockpit/actions"])
def test_no_modules_import_each_other(folder: str) -> None:
    left = imports_inside(folder)
    assert len(left) > 40
    while leaves := {name for name, taken in left.items() if not taken & left.keys()}:
        left = {name: taken for name, taken in left.items() if name not in leaves}
    assert left == {}, "a circle: move what is shared below both"
