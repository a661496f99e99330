"""Keys are read as they come: nothing is polled for, nothing that was typed is lost."""

from __future__ import annotations

import os
import pty
import threading
import tty
from collections.abc import Iterator
from queue import Empty, SimpleQueue

import pytest
from textual import events
from textual.message import Message

from cockpit.app.alt import KeyParser
from cockpit.app.reading import EndOfInput, read_keys

WITHIN = 10.0


class Reading:
    """A thread that reads a terminal of our own, and what it has told so far."""

    def __init__(self) -> None:
        self.typed, self.terminal = pty.openpty()
        tty.setraw(self.terminal)
        self.end = EndOfInput()
        self.told: SimpleQueue[Message] = SimpleQueue()
        self.looks = 0
        parser = KeyParser()
        tick = parser.tick

        def counted() -> object:
            self.looks += 1
            return tick()

        parser.tick = counted  # type: ignore[assignment, method-assign]
        work = (self.terminal, self.end, parser, self.told.put)
        self.thread = threading.Thread(target=read_keys, args=work, daemon=True)
        self.thread.start()

    def key(self) -> str:
        told = self.told.get(timeout=WITHIN)
        assert isinstance(told, events.Key)
        return told.key

    def stop(self) -> None:
        self.end.set()
        self.thread.join(WITHIN)
        assert not self.thread.is_alive()


@pytest.fixture
def reading() -> Iterator[Reading]:
    found = Reading()
    yield found
    found.stop()
    os.close(found.typed)
    os.close(found.terminal)


def test_keys_come_in_their_order_and_an_escape_alone_comes_too(reading: Reading) -> None:
    os.write(reading.typed, b"j\x1b[A\xff\xc3")
    os.write(reading.typed, b"\xa9\x1b")
    assert [reading.key() for _ in range(2)] == ["j", "up"]
    keys = [reading.key() for _ in range(3)]
    assert keys[-1] == "escape", keys


def test_nobody_looks_while_nothing_is_typed(reading: Reading) -> None:
    os.write(reading.typed, b"j")
    assert reading.key() == "j"
    os.write(reading.typed, b"k")
    assert reading.key() == "k"
    looks = reading.looks
    reading.thread.join(0.35)  # three looks, were it ten a second
    assert reading.looks <= looks + 1


def test_what_was_typed_before_the_end_is_told_and_it_can_begin_anew(reading: Reading) -> None:
    reading.stop()
    with pytest.raises(Empty):
        reading.told.get_nowait()
    reading.end.clear()
    os.write(reading.typed, b"q")
    reading.end.set()
    read_keys(reading.terminal, reading.end, KeyParser(), reading.told.put)
    assert reading.key() == "q"
