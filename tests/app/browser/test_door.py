"""Who is let in to look, and what is refused before anything is told."""

from __future__ import annotations

from http import HTTPStatus
from itertools import count

import pytest

from cockpit.app.browser.door import SEATS, Door, Seats
from cockpit.app.browser.messages import Request, request_of


def seats() -> Seats:
    numbers = count(1)
    return Seats(lambda: f"token-{next(numbers):03}")


def asked(seats: Seats, target: str = "/", method: str = "GET", **more: str) -> HTTPStatus | None:
    headers = {"host": "127.0.0.1:8765"} | {k.replace("_", "-"): v for k, v in more.items()}
    answer = Door(seats).refusal(Request(method, target, headers))
    return None if answer is None else answer.status


def let_in(own: Seats) -> str:
    return f"{own.cookie}={own.open(own.link)}"


def test_a_link_opens_once_and_its_cookie_stays() -> None:
    own = seats()
    first = own.link
    value = own.open(first)
    assert value is not None and own.open(first) is None
    assert own.link != first and own.open(own.link) not in (None, value)
    assert own.knows({"cookie": f"other=1; {own.cookie}={value}"})
    assert not own.knows({"cookie": f"{own.cookie}={first}"})
    assert not own.knows({"cookie": f"other={value}"})
    assert not own.knows({"cookie": f"{own.cookie}=é{value}"})


def test_only_so_many_are_let_in() -> None:
    own = seats()
    assert all(own.open(own.link) for _ in range(SEATS))
    assert own.open(own.link) is None


def test_tokens_are_long_and_nobody_else_s() -> None:
    one, other = Seats(), Seats()
    assert len(one.link) >= 43 and one.link != other.link and one.cookie != other.cookie


def test_without_the_cookie_nothing_is_told() -> None:
    own = seats()
    for target in ("/", "/frames", "/view.js", "/nothing"):
        assert asked(own, target) is HTTPStatus.FORBIDDEN
        assert asked(own, target, cookie=f"{own.cookie}=token-999") is HTTPStatus.FORBIDDEN
        assert asked(own, target, cookie=let_in(own)) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "OPTIONS", "CONNECT", "get"])
def test_nothing_can_be_sent(method: str) -> None:
    own = seats()
    assert asked(own, method=method, cookie=let_in(own)) is HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "", "a@127.0.0.1", "[::1", "0"],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    own = seats()
    assert asked(own, cookie=let_in(own), host=host) is HTTPStatus.FORBIDDEN
    assert asked(own, f"/open/{own.link}", host=host) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "[::1]:8765", "localhost"])
def test_a_tunnel_s_end_may_have_another_port(host: str) -> None:
    own = seats()
    assert asked(own, cookie=let_in(own), host=host, origin=f"http://{host}") is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:9999"]
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    own = seats()
    assert asked(own, cookie=let_in(own), origin=origin) is HTTPStatus.FORBIDDEN
    assert asked(own, f"/open/{own.link}", origin=origin) is HTTPStatus.FORBIDDEN


def test_another_page_may_hold_the_link_and_nothing_else() -> None:
    own = seats()
    cookie = let_in(own)
    assert asked(own, f"/open/{own.link}", sec_fetch_site="cross-site") is None
    for site in ("cross-site", "same-site"):
        assert asked(own, cookie=cookie, sec_fetch_site=site) is HTTPStatus.FORBIDDEN
    assert asked(own, cookie=cookie, sec_fetch_site="same-origin") is None


def test_a_request_s_head_is_read() -> None:
    read = request_of(b"GET /a HTTP/1.1\r\nHost: localhost\r\nX-B:  c \r\n\r\n")
    assert read == Request("GET", "/a", {"host": "localhost", "x-b": "c"})


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nhost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
        b"GET http://evil/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_a_head_that_is_none_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        request_of(head)
