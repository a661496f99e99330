"""The name of an agent, and how many calls a minute it has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.mcp.desk import agent_name
from cockpit.model.run import AgentsSpec, CockpitFile
from cockpit.model.shared_facts import is_agent, name_in, typist
from tests.mcp.client import loaded_session
from tests.watch.fakes import SteppedClock

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.text() | st.dictionaries(st.text(), st.text()) | st.fixed_dictionaries({"name": _JSON}))
def test_a_name_is_a_word_that_can_be_nobody_elses(told: Any) -> None:
    name = agent_name(told)
    assert len(name) <= 40
    assert is_agent(f"agent:{name}")
    assert name_in(typist(f"agent:{name}", "root")) == f"agent:{name}"


def test_a_name_of_tricks_stays_one_word() -> None:
    assert agent_name({"name": "Ada (login ada)\x1b[2J\n"}) == "ada-login-ada-2j"
    assert agent_name({"name": "agent:ada"}) == "agent-ada"


async def test_so_many_calls_a_minute_and_then_it_is_said_when_the_next_may_be() -> None:
    session = loaded_session()
    clock = SteppedClock(speed=1e9)
    file = CockpitFile(path="/x", agents=AgentsSpec(calls_per_minute=3))
    limit = session.RateLimit(lambda: file, clock)
    assert [limit.take() for _ in range(3)] == [0.0, 0.0, 0.0]
    await clock.sleep(20)
    assert limit.take() == pytest.approx(session.MINUTE - 20)
    await clock.sleep(40)
    assert [limit.take() > 0 for _ in range(4)] == [False, False, False, True]
