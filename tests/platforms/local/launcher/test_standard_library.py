"""The supervisor is run by its path and must start wherever there is a Python."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[4]
SUPERVISOR = REPO / "cockpit" / "platforms" / "local" / "launcher" / "supervisor.py"
LOADED = """
import io, runpy, sys
from contextlib import redirect_stdout, suppress

sys.argv = [sys.argv[1], "--help"]
with redirect_stdout(io.StringIO()) as told, suppress(SystemExit):
    runpy.run_path(sys.argv[0], run_name="__main__")
loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
import json

print(json.dumps({"help": told.getvalue(), "loaded": loaded}))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, str | None]:
    """Every module, with its file, of a supervisor that was started as ``start`` does it."""
    command = [sys.executable, "-I", "-S", "-c", LOADED, str(SUPERVISOR)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=True, timeout=60)
    said = json.loads(done.stdout)
    assert "--launch-id" in said["help"], "it did not come as far as its arguments"
    modules: dict[str, str | None] = said["loaded"]
    return modules


def test_it_loads_the_standard_library_and_its_own_folder_alone(
    loaded: dict[str, str | None],
) -> None:
    known = {*sys.stdlib_module_names, "__main__", "__mp_main__", "cockpit"}
    assert {name.partition(".")[0] for name in loaded} <= known
    assert "cockpit.platforms.local.launcher.detached" in loaded
    ours = {name for name in loaded if name.startswith("cockpit.")}
    folders = ("cockpit.platforms", "cockpit.platforms.local", "cockpit.hosts")
    own = "cockpit.platforms.local.launcher."
    shared = "cockpit.hosts.own_folder"
    rest = ours.difference(folders, {shared})
    assert not [name for name in rest if not f"{name}.".startswith(own)]


def test_no_module_of_it_comes_from_site_packages(loaded: dict[str, str | None]) -> None:
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    for name, file in loaded.items():
        place = REPO / "cockpit" if name.partition(".")[0] == "cockpit" else standard
        assert file is None or Path(file).resolve().is_relative_to(place), (name, file)
        assert "site-packages" not in (file or ""), (name, file)
