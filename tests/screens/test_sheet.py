"""A page that is shown can be saved as it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.plan import Request
from screens.acting.handoff_page import HandoffPage
from tests.screens.acting.stand_in_service import StandInService, draft
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import cockpit, text_of

PAGE = "# Handoff: run-failed\n\n## State\n- Job: failed on gpu-a17, `/data/ada/run.log`\n"
PAGE += "- C-07 a quota that wasn`t asked for\n"  # no code begins here
PAGE += "- seen 2026-03-11 08:40 UTC; `2026-03-11 08:40 UTC`; due 2026-03-11 08:59 UTC\n"


async def test_a_page_is_saved_in_three_forms_masked_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked: list[Request] = []

    def plan(request: Request) -> object:
        asked.append(request)
        return draft(request.run, request.action).model_copy(update={"page": PAGE})

    app = cockpit(service=StandInService(plan), present=True)  # type: ignore[arg-type]
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, HandoffPage))
        await until(pilot, lambda: "• Job: failed" in text_of(app))
        assert "preview, ownership unchanged" in text_of(app)
        told = "• seen 08:40 (12m ago); 2026-03-11 08:40 UTC; due 08:59"
        assert told in text_of(app), "as it is read here; what is quoted stays, and files too"
        await pilot.press("m")
        await until(pilot, lambda: "saved as shown" in app.notice)
    assert asked[0].params["to"] == (app.file.runs[0].dri or "ada")
    folder = tmp_path / "cockpit" / "pages"
    files = {each.suffix: each for each in folder.iterdir()}
    assert set(files) == {".md", ".txt", ".svg"}
    assert folder.stat().st_mode & 0o777 == 0o700
    for each in files.values():
        words = each.read_text()
        assert each.stat().st_mode & 0o777 == 0o600
        assert "gpu-a17" not in words and "/data" not in words and "run.log" in words
    assert all("seen 2026-03-11 08:40 UTC" in each.read_text() for each in files.values())
    assert files[".md"].read_text().startswith("# Handoff: run-failed\n")
    assert files[".txt"].read_text().startswith("Handoff: run-failed\n")
