"""Who is let in to look, and what is refused before anything is told."""

from __future__ import annotations

from http import HTTPStatus
from itertools import count

import pytest

from cockpit.app.browser.door import FULL, SEATS, SeatError, Seats, refusal
from cockpit.app.browser.messages import Request, request_of


def seats() -> Seats:
    numbers = count(1)
    return Seats(lambda: f"token-{next(numbers):03}")


def asked(target: str = "/", method: str = "GET", **more: str) -> HTTPStatus | None:
    headers = {"host": "127.0.0.1:8765"} | {k.replace("_", "-"): v for k, v in more.items()}
    answer = refusal(Request(method, target, headers))
    return None if answer is None else answer.status


def test_a_link_opens_once_and_its_seat_stays() -> None:
    own = seats()
    first = own.link
    seat = own.open(first)
    with pytest.raises(SeatError, match="each opens once"):
        own.open(first)
    assert own.link != first and own.open(own.link) != seat
    assert own.take(seat) == seat == own.take(seat)
    for other in (first, own.link, "", "none", f"é{seat}"):
        with pytest.raises(SeatError, match="earlier `cockpit serve`"):
            own.take(other)


def test_a_seat_that_nobody_looks_from_is_given_to_the_next() -> None:
    own = seats()
    taken = [own.take(own.open(own.link)) for _ in range(SEATS)]
    with pytest.raises(SeatError) as error:
        own.open(own.link)
    assert str(error.value) == FULL
    for each in (taken[5], taken[2]):
        own.leave(each)
    new = own.open(own.link)
    with pytest.raises(SeatError, match="earlier `cockpit serve`"):
        own.take(taken[5])
    assert own.take(taken[2]) == taken[2] and own.take(new) == new


def test_a_seat_with_two_connections_is_kept_while_one_looks() -> None:
    own = seats()
    twice = own.take(own.open(own.link))
    own.take(twice)
    others = [own.take(own.open(own.link)) for _ in range(SEATS - 1)]
    own.leave(twice)
    with pytest.raises(SeatError, match="close one"):
        own.open(own.link)
    own.leave(others[0])
    assert own.open(own.link)


def test_tokens_are_long_and_nobody_else_s() -> None:
    one, other = Seats(), Seats()
    assert len(one.link) >= 43 and one.link != other.link


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "OPTIONS", "CONNECT", "get"])
def test_nothing_can_be_sent(method: str) -> None:
    assert asked(method=method) is HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "", "a@127.0.0.1", "[::1", "0"],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    assert asked(host=host) is HTTPStatus.FORBIDDEN
    assert asked("/frames", host=host) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "[::1]:8765", "localhost"])
def test_a_tunnel_s_end_may_have_another_port(host: str) -> None:
    assert asked(host=host, origin=f"http://{host}") is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:9999"]
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert asked("/frames", origin=origin) is HTTPStatus.FORBIDDEN


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
