"""What the app waits for may hang, each call of it: that is said calmly, and is no fault."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import state_dir
from cockpit.runtime import operator
from cockpit.runtime.login import login_name
from screens import run as run_screen
from screens.acting import guarded
from tests.runtime.test_operator import hanging_git
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, cockpit
from tests.widgets import reports as made

FLEET = ("s", "p", "escape", "J", "escape", "x", "escape", "A", "escape", "H", "escape", "c")
RUN = ("enter", "enter", "/", "x", "enter", "n", "2", "3", "4", "5", "6", "J", "escape")


@pytest.fixture
def no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(operator, "ANSWER", 0.2)
    hanging_git(tmp_path, monkeypatch)


@pytest.mark.usefixtures("no_git")
async def test_each_call_that_hangs_is_said_and_none_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung: set[str] = set()

    def hanging(name: str) -> Any:
        async def offload(*_: object, **__: object) -> None:
            hung.add(name)
            raise TimeoutError("no answer within 5 s")

        return offload

    assert run_screen.__name__ in sys.modules  # what is opened later is loaded, to be made to hang
    for name, module in list(sys.modules.items()):
        if name.startswith(("screens.", "cockpit.app.")) and hasattr(module, "offload"):
            monkeypatch.setattr(module, "offload", hanging(name))
    monkeypatch.setattr(guarded, "LOOK_FOR_INTERRUPTED", 0.01)
    log = tmp_path / "run.log"
    log.write_text("line\n")
    run = made.report("run-a", seen=made.facets(log=made.log(path=str(log), size=5)))
    records = run.spec.records.model_copy(update={"logbook": str(log)})
    spec = run.spec.model_copy(update={"records": records})
    engine = StandIn(run.model_copy(update={"spec": spec}))
    service = StandInService()
    app = cockpit(engine=engine, operator="", service=service, version=lambda: 1)
    app.file = app.file.model_copy(update={"path": str(tmp_path / "cockpit.toml")})
    said: list[str] = []
    monkeypatch.setattr(app, "warn", said.append)
    async with app.run_test(size=(200, 50)) as pilot:
        await until(pilot, lambda: bool(app.watch_state.operator))
        await pilot.press(*FLEET, *RUN)
        await until(pilot, lambda: "screens.acting.guarded" in hung)
        assert app.watch_state.operator == login_name()
        assert app.is_running
    assert "screens.logbook_reader" in hung
    assert any(line.startswith("git did not say who you are within 0.2 s") for line in said)
    assert not [line for line in said if "fault" in line]
    assert not (state_dir() / "crashes").exists()


@pytest.mark.usefixtures("no_git")
@pytest.mark.parametrize("verb", [("watch", "--once"), ("ack", "run-a", "C-05", "--reason", "x")])
def test_the_verbs_act_under_the_account_when_git_hangs(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[cockpit]\ncadence = "1s"\n[[run]]\nname = "run-a"\ntier = "ordinary"\n')
    main([*verb, "--config", str(config)])
    said = capsys.readouterr().err
    assert f"git did not say who you are within 0.2 s: you act as {login_name()}" in said
    assert "fault" not in said
