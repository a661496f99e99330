"""A kept frame is shown only where it is this user's own, whole, and of what lies there now."""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.app.frames.early import call_of
from cockpit.app.frames.kept import (
    FILES,
    Aged,
    Call,
    Frame,
    Piece,
    Place,
    load,
    place_of,
    save,
    text_of,
)
from cockpit.model.instant import Noting
from cockpit.model.wording import age, ago, day_time

AT = 1_773_219_178.0
SIZE = (12, 2)
OLD = Aged("age", AT - 20, False)
ROW = (Piece("●", "1;32"), Piece("age ", ""), Piece("15s", "2", OLD), Piece("    ", ""))
FRAME = Frame(AT, True, "7", (ROW, (Piece("keys" * 3, ""),)))
PLAIN = Call()


def place(home: Path, call: Call = PLAIN, size: tuple[int, int] = SIZE) -> Place:
    run_file = home / "cockpit.toml"
    if not run_file.exists():
        run_file.write_text("[[run]]\n")
        os.utime(run_file, (AT - 60, AT - 60))
    return place_of(home / "frames", run_file, call, size)


def kept(home: Path) -> Place:
    found = place(home)
    save(found, FRAME)
    assert load(found, AT + 1) == FRAME
    return found


def test_it_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    found = kept(tmp_path)
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(found.path.parent.stat().st_mode) == 0o700
    assert [each.name for each in found.path.parent.iterdir()] == [found.path.name]


def test_one_of_another_zone_is_not_shown_its_times_would_read_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's own zone, which no variable tells."""
    time.tzset()
    kept(tmp_path)
    try:
        with monkeypatch.context() as other:
            other.setenv("TZ", "Asia/Kathmandu")
            time.tzset()
        assert load(place(tmp_path), AT + 1) is None
    finally:
        time.tzset()
    assert load(place(tmp_path), AT + 1) == FRAME


def rewritten(place: Place, change: Callable[[bytes], bytes]) -> None:
    """Change what is kept as nobody here would, but with the right checksum."""
    body = change(place.path.read_bytes().partition(b"\n")[2])
    place.path.write_bytes(b"%08x\n" % zlib.crc32(body) + body)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def swapped(old: bytes, new: bytes) -> Callable[[Place], object]:
    return lambda place: rewritten(place, lambda body: body.replace(old, new))


def cut(place: Place, change: Callable[[bytes], bytes]) -> None:
    place.path.write_bytes(change(place.path.read_bytes()))


SPOILT: dict[str, Callable[[Place], object]] = {
    "truncated": lambda found: cut(found, lambda data: data[:-9]),
    "empty": lambda found: cut(found, lambda data: b""),
    "one digit": lambda found: cut(found, lambda data: data.replace(b"15s", b"14s")),
    "no frame": lambda found: rewritten(found, lambda body: b"[1]"),
    "deep": lambda found: rewritten(found, lambda body: b"[" * 100_000),
    "a sequence": swapped(b"keys", b"\\u001b[2J"),
    "a style": swapped(b'"1;32"', b'"1m\\u001b]"'),
    "an age of nothing": swapped(b'"age"', b'"x"'),
    "fewer rows": lambda found: save(found, FRAME._replace(rows=FRAME.rows[:1])),
    "of the future": lambda found: save(found, FRAME._replace(at=AT + 99)),
    "older than the run file": lambda found: save(found, FRAME._replace(at=AT - 61)),
    "for others too": lambda found: found.path.chmod(0o640),
    "a link": lambda found: linked(found.path),
    "a second name": lambda found: os.link(found.path, found.path.with_name("second")),
    "a folder": lambda found: replaced(found.path, Path.mkdir),
    "a pipe": lambda found: replaced(found.path, os.mkfifo),
    "too large": lambda found: os.truncate(found.path, 2_000_000),
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_is_not_as_it_was_written_is_not_shown(how: str, tmp_path: Path) -> None:
    found = kept(tmp_path)
    SPOILT[how](found)
    assert load(found, AT + 1) is None


def test_another_users_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = kept(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert load(found, AT + 1) is None


def test_it_is_of_one_size_way_terminal_and_edition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path)
    assert load(place(tmp_path, size=(12, 3)), AT + 1) is None
    assert load(place(tmp_path, Call(present=True)), AT + 1) is None
    with monkeypatch.context() as other:
        other.setenv("TERM", "linux")
        assert load(place(tmp_path), AT + 1) is None
    assert load(place(tmp_path), AT + 1) == FRAME
    (tmp_path / "cockpit.toml").write_text("[[run]]#")
    os.utime(tmp_path / "cockpit.toml", (AT - 60, AT - 60))
    assert load(place(tmp_path), AT + 1) is None


def test_a_full_disk_leaves_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = kept(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    save(found, FRAME._replace(at=AT + 0.5))
    assert load(found, AT + 1) == FRAME
    assert len(list(found.path.parent.iterdir())) == 1


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for width in range(FILES + 3):
        save(place(tmp_path, size=(width, 2)), FRAME)
    assert len(list((tmp_path / "frames").iterdir())) == FILES


@pytest.mark.parametrize(
    ("since", "later", "shown"),
    [
        (20, 0, "●age 15s    "),
        (20, 3600, "●age 1h 00m "),
        (20, 36_000, "●age 10h    "),
        (20, 360_000, "●age 4d 04h "),
        (20, 20, "●age 30s    "),
    ],
)
def test_ages_are_told_anew_in_the_room_there_is(since: float, later: float, shown: str) -> None:
    assert "".join(text for text, _ in text_of(FRAME.rows[0], AT + later)) == shown


def test_an_age_without_room_is_brief_or_unknown() -> None:
    old = Piece("4m", "", Aged("age", AT - 240, False))
    assert text_of((old, Piece("|", "")), AT + 3600) == [("1h", ""), ("|", "")]
    assert text_of((old, Piece("|", "")), AT + 36_000) == [("? ", ""), ("|", "")]


def test_what_is_noted_is_as_long_as_what_is_told() -> None:
    now = Noting(AT)
    told = [(age, 20.0), (ago, 500.0), (age, 90_000.0), (ago, 0.0)]
    for words, old in told:
        noted = words(now - (AT - old))
        assert [len(each) for each in noted.split()] == [len(each) for each in words(old).split()]
        assert now.of(noted[0]) == (words.__name__, AT - old)
    assert now.of(day_time(AT, now)[0]) == ("day", AT)
    assert age(now - float("nan")) == "?"


def test_which_calls_have_a_frame() -> None:
    assert call_of([]) == call_of(["open"]) == Call()
    assert call_of(["--present"]) == Call(present=True, read_only=True)
    assert call_of(["open", "--config", "a", "--ascii"]) == Call("a", ascii=True)
    assert call_of(["--config=a", "--read-only"]) == Call("a", read_only=True)
    for other in (
        ["check"],
        ["open", "hero"],
        ["--config"],
        ["--config", "--read-only"],
        ["--config=-"],
        ["--version"],
        ["--read"],
        ["--", "x"],
    ):
        assert call_of(other) is None
