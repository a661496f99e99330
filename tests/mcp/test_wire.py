"""Lines of JSON-RPC: what is no message is answered as the protocol says, and ends nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.mcp import wire
from cockpit.mcp.session import MINUTE, RateLimit, agent_name
from cockpit.mcp.wire import Bad, Message
from cockpit.model.run import AgentsSpec, CockpitFile
from cockpit.model.shared_facts import is_agent, name_in, typist
from tests.watch.fakes import SteppedClock


def answer(line: bytes) -> tuple[object, int]:
    found = wire.read(line)
    assert isinstance(found, Bad), found
    document = json.loads(found.answer)
    return document["id"], document["error"]["code"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage\n", wire.PARSE_ERROR),
        (b"\xff\xfe\x00\n", wire.PARSE_ERROR),
        (b"[" * 100_000 + b"\n", wire.PARSE_ERROR),
        (b'{"a":' * 50_000 + b"\n", wire.PARSE_ERROR),
        (b" " * (wire.MOST + 1) + b"x", wire.PARSE_ERROR),
        (b"[]\n", wire.INVALID_REQUEST),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', wire.INVALID_REQUEST),
        (b"17\n", wire.INVALID_REQUEST),
        (b"null\n", wire.INVALID_REQUEST),
        (b"{}\n", wire.INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":7}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":NaN,"method":7}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}\n', wire.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}\n', wire.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":0,"method":"ping","params":[1]}\n', wire.INVALID_PARAMS),
    ],
)
def test_what_is_no_message_gets_its_error(line: bytes, code: int) -> None:
    assert answer(line)[1] == code


def test_answers_and_blank_lines_want_no_answer() -> None:
    for line in (b"\n", b"  \n", b'{"jsonrpc":"2.0","id":1,"result":{}}\n'):
        assert wire.read(line) is None
    assert wire.read(b'{"jsonrpc":"2.0","method":"x","params":[]}\n') is None
    assert wire.read(b'{"jsonrpc":"2.0","id":"a","method":"ping"}\n') == Message("ping", {}, "a")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
_MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | _JSON, "method": st.text() | _JSON},
    optional={"id": _JSON, "params": _JSON, "result": _JSON},
)


@given(st.binary() | (_JSON | _MESSAGE).map(lambda value: json.dumps(value).encode()))
def test_no_line_ends_the_reading(line: bytes) -> None:
    found = wire.read(line)
    if isinstance(found, Bad):
        assert json.loads(found.answer)["error"]["code"] < 0
        assert found.answer.count(b"\n") == 1


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
    clock = SteppedClock(speed=1e9)
    file = CockpitFile(path="/x", agents=AgentsSpec(calls_per_minute=3))
    limit = RateLimit(lambda: file, clock)
    assert [limit.take() for _ in range(3)] == [0.0, 0.0, 0.0]
    await clock.sleep(20)
    assert limit.take() == pytest.approx(MINUTE - 20)
    await clock.sleep(40)
    assert [limit.take() > 0 for _ in range(4)] == [False, False, False, True]
