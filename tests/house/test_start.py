"""What is loaded before something is seen: a heavy module that comes back there is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal_probe import Terminal

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pydantic", "textual", "rich.console", "asyncio", "sqlite3", "ssl", "httpx", "argparse")
LATER = (
    *("apprise", "git", "httpx", "plotext", "wandb", "obstore", "nanoarrow", "tree_sitter"),
    *("ctypes", "email", "importlib.metadata", "importlib.resources", "zipfile"),
    *("textual.document", "textual.types", "textual.widgets._text_area", "textual.widgets._tree"),
    *("screens.dialog", "textual.widgets._input", "textual.widgets._label"),
    *(
        "cockpit.model.curve",
        "cockpit.model.history",
        "cockpit.model.plan",
        "cockpit.store.journal",
    ),
    *("cockpit.model.jobs", "cockpit.model.records"),
    *("cockpit.actions.core.table", "cockpit.actions.core.wiring", "cockpit.notify"),
    "cockpit.runtime.shell",
    *("cockpit.model.history", "cockpit.rules", "cockpit.sources", "cockpit.watch"),
    *("screens.acting.offers", "screens.acting.plan", "screens.sheet"),
    *("screens.help", "screens.mask", "screens.past", "screens.run", "screens.welcome"),
    *("widgets.log_view", "widgets.metric_charts", "widgets.painting.chart"),
)
AT_FIRST = (
    *(
        "argparse",
        "httpx",
        "git",
        "wandb",
        "ctypes",
        "email",
        "importlib.metadata",
        "importlib.resources",
    ),
    *("textual.suggester", "textual.types", "textual.widgets._text_area", "textual.widgets._tree"),
    "screens.dialog",
    *("cockpit.actions.core.table", "cockpit.rules", "cockpit.sources", "cockpit.watch"),
)
"""What loading must not bring, nor opening: a window that is seen has none of it."""
OWN = ("cockpit", "screens", "themes", "widgets")
MOST_OWN = 120
"""Modules of ours that a window has loaded when it has looked for interrupted actions, too, which
it does once it is seen; one more is a deliberate one."""
LAST = "cockpit.store.journal"
"""With it that look begins: how many there were a moment before depends on who reads how soon."""
WAYS = {
    "the kept frame": ("import cockpit.app.kept_frame", PACKAGES),
    "the first live paint": (
        "import cockpit.verbs.open, cockpit.app.palette\n"
        "cockpit.app.palette.leave_out_palette()\n"
        "import cockpit.app.opening, cockpit.attach.client, cockpit.actions.core.open_plans",
        LATER,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_heavy_is_loaded_before(way: str) -> None:
    begin, heavy = WAYS[way]
    program = f"{begin}\nimport sys\nprint(*(each for each in {heavy!r} if each in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


STORE_FIRST = """
import sys
from pathlib import Path
from types import SimpleNamespace
import cockpit.verbs.open as verb

class BegunError(Exception):
    pass

def begin(path):
    print(*(each for each in ("textual", "cockpit.app.opening") if each in sys.modules))
    raise BegunError

verb.Opening, verb.is_terminal, verb.check_screen = begin, lambda *_: True, lambda: None
call = dict(run_name=None, read_only=False, present=False, ascii=False)
try:
    verb.run(SimpleNamespace(config=Path(sys.argv[1]), **call))
except BegunError:
    print("begun")
"""


def test_the_store_is_begun_before_the_app_is_loaded(tmp_path: Path) -> None:
    """A new one waits for the disk for as long as a tenth of a start takes."""
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "tiny"\n')
    done = subprocess.run(
        [sys.executable, "-c", STORE_FIRST, str(config)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["begun"]


def test_the_version_is_told_by_almost_nothing() -> None:
    words = [sys.executable, "-X", "importtime", str(ROOT / "run_cockpit.py"), "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = loaded(done.stderr)
    assert done.stdout.startswith("cockpit ")
    assert {"cockpit", "cockpit.__main__"} <= found
    assert not found & {*PACKAGES, "cockpit.cli", "json", "typing"}


def test_annotations_of_values_are_no_strings() -> None:
    """Pydantic compiles and evaluates every one that is, at every start."""
    values = [each for each in (ROOT / "cockpit/model").glob("*.py") if each.name != "base.py"]
    defining = {each.name: each.read_text() for each in values if "(Frozen" in each.read_text()}
    assert len(defining) > 12
    assert [name for name, text in defining.items() if "import annotations" in text] == []


def loaded(importtime: str) -> set[str]:
    """Return the modules of what ``-X importtime`` has told."""
    return {line.rpartition("|")[2].strip() for line in importtime.splitlines()}


def test_a_window_that_is_seen_has_loaded_little(tmp_path: Path) -> None:
    config, told = tmp_path / "cockpit.toml", tmp_path / "imports"
    config.write_text('[[run]]\nname = "tiny"\n')
    quietly = ["sh", "-c", 'exec "$@" 2>"$0"', str(told)]
    words = [sys.executable, "-X", "importtime", str(ROOT / "run_cockpit.py"), "open", "--config"]
    terminal = Terminal([*quietly, *words, str(config)], {"TERM": "xterm-256color"}, (120, 40))
    terminal.wait_for("tiny")
    while LAST not in (found := loaded(told.read_text())):
        assert terminal.read(0.2), "it has ended"
    terminal.type("q")
    terminal.end()
    assert "screens.fleet" in found
    assert found & {*AT_FIRST} == set()
    own = [each for each in found if each.split(".")[0] in OWN]
    assert len(own) <= MOST_OWN, len(own)


def test_a_check_loads_what_its_runs_need(tmp_path: Path) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "tiny"\njob = { kind = "local", pid_file = "run.pid" }\n')
    words = [sys.executable, "-X", "importtime", str(ROOT / "run_cockpit.py"), "check", "--config"]
    done = subprocess.run([*words, str(config)], capture_output=True, text=True, check=False)
    found = loaded(done.stderr)
    assert "tiny" in done.stdout
    asked = {each.split(".")[2] for each in found if each.startswith("cockpit.platforms.")}
    assert "local" in asked and asked & {"box", "iris", "ray", "slurm"} == set()
    assert found & {"httpx", "git", "wandb", "textual", "rich", "importlib.metadata"} == set()
