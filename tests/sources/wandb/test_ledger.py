"""Whatever the steps and however the server answers: every row once, in order, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.sources.wandb.online_rows import Ledger, Page, Raw
from cockpit.sources.wandb.online_rows import wandb_step as step_of


class Server:
    """A history by steps; it thins out what it has too many of, and may lag its summary."""

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = list(steps)
        self.asked = 0

    def rows(self, page: Page) -> list[Raw]:
        self.asked += 1
        held = [step for step in self.steps if page.low <= step < page.high]
        if len(held) > page.most:
            held = [held[index * len(held) // page.most] for index in range(page.most)]
        return [{"_step": float(step)} for step in held]


def look(ledger: Ledger, server: Server, rows: int = 400, lag: int = 0) -> list[int]:
    """One look: what the summary says, the newest page, some older ones; what is given out."""
    ledger.know(server.steps[-1] + lag if server.steps else None, len(server.steps))
    newest = ledger.newest(rows)
    older = ledger.pages(rows)
    if newest is not None:
        ledger.take_newest(newest, server.rows(newest))
    for page in older:
        ledger.take(page, server.rows(page))
    return [step_of(row) for row in ledger.next()]


@settings(max_examples=60, deadline=None)
@example(gaps=[300, *[1] * 15], more=[], rows=16)
@given(
    gaps=st.lists(st.sampled_from((1, 1, 1, 2, 7, 300)), min_size=1, max_size=900),
    more=st.lists(st.lists(st.sampled_from((1, 1, 5, 900)), max_size=40), max_size=5),
    rows=st.sampled_from((16, 100, 1000)),
)
def test_every_row_is_given_out_once_and_in_order(
    gaps: list[int], more: list[list[int]], rows: int
) -> None:
    steps = [0]
    for gap in gaps:
        steps.append(steps[-1] + gap)
    server, ledger, given_out = Server(steps), Ledger(), list[int]()
    for added in [*more, []]:
        for _ in range(3):
            given_out += look(ledger, server, rows)
        for gap in added:
            server.steps.append(server.steps[-1] + gap)
    for _ in range(3000):
        if ledger.caught_up:
            break
        given_out += look(ledger, server, rows)
    assert ledger.caught_up
    assert given_out == server.steps


def test_a_history_that_was_cut_begins_anew() -> None:
    server, ledger = Server(range(100)), Ledger()
    look(ledger, server)
    server.steps = list(range(20))
    assert ledger.know(19, 20)
    assert look(ledger, server) == list(range(20))
