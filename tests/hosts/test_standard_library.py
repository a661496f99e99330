"""A supervisor is started from its text and must start wherever there is a Python."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from cockpit.hosts import launches

COCKPIT = Path(launches.__file__).parents[1]
LOADED = """
import json, runpy, sys
loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, str | None]:
    """Every module, with its file, of a supervisor that was started as ``start`` does it."""
    begin = launches._BEGIN.replace("sys.exit(module.main(sys.argv[1:]))", LOADED)
    command = [sys.executable, "-IS", "-Xutf8", "-c", begin]
    done = subprocess.run(
        command, input=launches._texts(), capture_output=True, cwd="/", timeout=60
    )
    modules: dict[str, str | None] = json.loads(done.stdout)
    return modules


def test_it_loads_the_standard_library_and_its_own_text_alone(
    loaded: dict[str, str | None],
) -> None:
    known = {*sys.stdlib_module_names, "__main__", "__mp_main__", "cockpit"}
    assert {name.partition(".")[0] for name in loaded} <= known
    assert {name for name in loaded if name.startswith("cockpit")} == set(launches.MODULES)
    assert not [loaded[name] for name in launches.MODULES if loaded[name]]


def test_no_module_of_it_comes_from_site_packages(loaded: dict[str, str | None]) -> None:
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    for name, file in loaded.items():
        assert file is None or Path(file).resolve().is_relative_to(standard), (name, file)
        assert "site-packages" not in (file or ""), (name, file)


@pytest.mark.parametrize(
    "name",
    [
        "hosts/notes",
        "hosts/own_folder",
        "hosts/supervisor",
        "hosts/launches",
        "runtime/private_folder",
    ],
)
def test_an_old_python_reads_it(name: str) -> None:
    ast.parse((COCKPIT / f"{name}.py").read_text(), feature_version=(3, 8))
