from __future__ import annotations

import pytest
from textual import events
from textual.constants import ESCAPE_DELAY
from textual.message import Message

from cockpit.app.alt import KeyParser, behind_escape


def keys(monkeypatch: pytest.MonkeyPatch, sent: str) -> list[str]:
    """Return the keys of what a terminal sent, once nothing more can belong to it."""
    now = [100.0]
    for room in ("textual._parser", "cockpit.app.alt"):
        monkeypatch.setattr(f"{room}.get_time", lambda: now[0])
    parser = KeyParser()
    found = list(parser.feed(sent))
    now[0] += 2 * ESCAPE_DELAY
    found += parser.tick()
    return [key for each in found if isinstance(each, events.Key) for key in _apart(each)]


def _apart(event: events.Key) -> list[str]:
    behind = behind_escape(event)
    return [event.key] if behind is None else ["escape", behind.key]


@pytest.mark.parametrize(
    ("sent", "heard"),
    [
        ("\x1bx", ["escape", "x"]),
        ("\x1bR", ["escape", "R"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\t", ["escape", "tab"]),
        ("\x1b:", ["escape", "colon"]),
        ("\x1b1", ["escape", "1"]),
        ("\x1bb", ["escape", "b"]),
        ("\x1bqj", ["escape", "q", "j"]),
        ("\x1b[1;3A", ["escape", "up"]),
        ("\x1b[120;3u", ["escape", "x"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1b", ["escape"]),
        ("\x1b[A", ["up"]),
        ("\x1bOP", ["f1"]),
        ("\x1b[Z", ["shift+tab"]),
        ("\x1b\x7f", ["ctrl+w"]),
    ],
)
def test_esc_and_a_key_are_two_and_the_terminals_own_sequences_stay(
    sent: str, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(monkeypatch, sent) == heard


COLOURED = "\x1b[200~a \x1b[31mred\x1b[0m log\r\x1b]0;title\x07 relaunch run-a\r\x1bx\x1b[201~"


@pytest.mark.parametrize("cut", range(1, len(COLOURED)))
def test_nothing_in_a_paste_is_pressed_wherever_a_read_cuts_it(cut: int) -> None:
    parser = KeyParser()
    told = [*parser.feed(COLOURED[:cut]), *parser.feed(COLOURED[cut:]), *parser.feed("j")]
    (paste, key) = told
    assert isinstance(paste, events.Paste) and isinstance(key, events.Key) and key.key == "j"
    assert paste.text == "a red log\r relaunch run-a\rx"


@pytest.mark.parametrize("cut", range(1, len(COLOURED)))
def test_what_was_read_of_a_paste_by_now_stays_its_beginning(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("textual._parser", "cockpit.app.alt"):
        monkeypatch.setattr(f"{room}.get_time", lambda: 100.0)
    parser, told = KeyParser(), list[Message]()
    for read in (COLOURED[:cut], COLOURED[cut:], "j"):  # as the thread does that reads
        told += [*parser.feed(read), *parser.tick()]
    (paste, key) = told
    assert isinstance(paste, events.Paste) and isinstance(key, events.Key) and key.key == "j"
    assert paste.text == "a red log\r relaunch run-a\rx"


def test_an_escape_that_was_pressed_begins_no_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    for room in ("textual._parser", "cockpit.app.alt"):
        monkeypatch.setattr(f"{room}.get_time", lambda: now[0])
    parser, told = KeyParser(), list[Message]()
    for read in ("\x1b", "[200~\x1b[A"):
        told += [*parser.feed(read), *parser.tick()]
        now[0] += 2 * ESCAPE_DELAY
        told += parser.tick()
    assert [each.key for each in told if isinstance(each, events.Key)][-1] == "up"


def test_keys_around_a_paste_and_two_in_one_read_stay_what_they_are() -> None:
    told = list(KeyParser().feed("\x1b[A\x1b[200~one\x1b[201~\x1b[B\x1b[200~two\x1b\x1b[201~x"))
    assert [each.key if isinstance(each, events.Key) else each.text  # type: ignore[attr-defined]
            for each in told] == ["up", "one", "down", "two", "x"]  # fmt: skip
