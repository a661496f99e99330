"""What a first frame waits for is done once, and looks as if it had been done twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.widget import Widget

from tests.screens.stand_in import cockpit
from tests.widgets import reports as made
from widgets.run_list import PanelGrid, RunPanel

FEW = tuple(made.report(f"run-{n}") for n in range(4))


async def test_panels_are_styled_once_and_again_would_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    styled: Counter[Any] = Counter()
    apply = Stylesheet.apply

    def counted(self: Stylesheet, node: Any, **options: Any) -> None:
        styled[node] += 1
        apply(self, node, **options)

    monkeypatch.setattr(Stylesheet, "apply", counted)
    app = cockpit(*FEW)
    async with app.run_test(size=(120, 40)) as pilot:
        await app.shown.wait()
        assert [styled[each] for each in app.screen.query(RunPanel)] == [1, 1, 1, 1]
        await pilot.pause()
        nodes = [*app.screen.walk_children(with_self=True)]
        former = [dict(each.styles.base.get_rules()) for each in nodes]
        app.screen.update_node_styles(animate=False)
        assert [dict(each.styles.base.get_rules()) for each in nodes] == former


async def test_the_ground_is_one_line_and_the_one_that_is_painted_anyway() -> None:
    app = cockpit(*FEW)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for ground in (app.screen, app.screen.query_one(PanelGrid)):
            whole = ground.size.region
            lines = ground.render_lines(whole)
            assert len(lines) == whole.height and len({*map(id, lines)}) == 1
            assert [*map(list, lines)] == [*map(list, Widget.render_lines(ground, whole))]
