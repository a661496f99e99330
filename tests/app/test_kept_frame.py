"""The kept frame: how it is stored and read, and how it is painted before the program is loaded."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import termios
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.app.kept_frame import (
    FILES,
    TAKEN_WITHIN,
    Aged,
    Call,
    Frame,
    Place,
    StyledText,
    Writing,
    call_of,
    frames_dir,
    load,
    place_of,
    save,
    text_of,
)
from cockpit.model.wording import Noting, age, ago, day_time
from tests.emulator import Emulator
from tests.terminal_probe import Terminal

AT = 1_773_219_178.0
SIZE = (12, 2)
OLD = Aged("age", AT - 20, False)
ROW = (
    StyledText("●", "1;32"),
    StyledText("age ", ""),
    StyledText("15s", "2", OLD),
    StyledText("    ", ""),
)
FRAME = Frame(AT, True, "7", (ROW, (StyledText("keys" * 3, ""),)))
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
    old = StyledText("4m", "", Aged("age", AT - 240, False))
    assert text_of((old, StyledText("|", "")), AT + 3600) == [("1h", ""), ("|", "")]
    assert text_of((old, StyledText("|", "")), AT + 36_000) == [("? ", ""), ("|", "")]


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


pytestmark = pytest.mark.tty
ROOT = Path(__file__).resolve().parents[2]
EARLY_SIZE = (80, 24)
WHOLE = b"\x1b[r\x1b[H"
"""How a frame begins that takes nothing for granted of what stands there."""
RUN_FILE = """
[cockpit]
operator = "ada"
[[run]]
name = "run-here"
job = { kind = "local", log = "run.log", pid_file = "run.pid" }
"""
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run file, and a frame kept of it an hour ago."""
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    before = time.time() - 7200
    os.utime(tmp_path / "cockpit.toml", (before, before))
    for name in ("TMUX", "NO_COLOR", "COLORFGBG", "LC_CTYPE", "LANG", "TZ", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (ENVIRONMENT | {"XDG_STATE_HOME": str(tmp_path / "state")}).items():
        monkeypatch.setenv(name, value)
    at = time.time() - 3600
    age = StyledText("30s", "1", Aged("age", at - 35, False))
    rows = [
        (StyledText("kept log ", ""), age, StyledText(" " * 68, "")),
        *[(StyledText(" " * 80, ""),)] * 23,
    ]
    place = place_of(frames_dir(), tmp_path / "cockpit.toml", Call(), EARLY_SIZE)
    save(place, Frame(at, True, "7", tuple(rows)))
    return tmp_path


def start(home: Path, *words: str, size: tuple[int, int] = EARLY_SIZE, shell: str = "") -> Terminal:
    argv = [sys.executable, str(ROOT / "run_cockpit.py"), *words]
    begin = ["sh", "-c", f'cd "$0" && {shell or "exec"} "$@"', str(home), *argv]
    return Terminal(begin, {"XDG_RUNTIME_DIR": str(home), "PYTHONPATH": ""}, size)


def test_it_stands_first_and_the_live_screen_follows_without_a_flash(home: Path) -> None:
    terminal = start(home)
    terminal.wait_for("looking")
    assert b"kept log" in terminal.output and b"1h 00m" in terminal.output
    first = len(terminal.output)
    assert b"\x1b[?1004h" not in terminal.output  # nothing of the app's own yet
    os.write(terminal.fd, b"?")  # the help, for the live screen
    terminal.wait_for("run-here")
    terminal.wait_for("Keys, codes and signs")
    screen = Emulator(*EARLY_SIZE)
    for at in range(0, terminal.output.index(b"run-here"), 16):
        screen.feed(terminal.output[at : at + 16])
        assert at < first or screen.text().strip(), "it was cleared in between"
    assert terminal.output.count(b"\x1b[?1049h") == 1
    assert b"?" not in terminal.output[:first].rpartition(b"looking")[2]  # nor is a key echoed
    terminal.type("\x1b")
    terminal.idle(0.3)
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())
    assert terminal.output.count(b"\x1b[?1049l") == 1


def test_another_size_does_not_see_it(home: Path) -> None:
    terminal = start(home, size=(81, 24))
    terminal.wait_for("run-here")
    assert b"kept log" not in terminal.output
    terminal.type("q")
    terminal.end()
    assert terminal.status == 0


def test_without_a_terminal_nothing_is_painted(home: Path) -> None:
    terminal = start(home, shell="cat | ")
    terminal.type("\x04")
    terminal.end()
    assert b"kept log" not in terminal.output
    assert b"\x1b[?1049h" not in terminal.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_who_ends_it_before_the_app_has_it_gets_the_terminal_back(number: int, home: Path) -> None:
    terminal = start(home)
    terminal.wait_for("looking")
    terminal.signal(number)
    terminal.end()
    assert terminal.left_on == set()
    assert terminal.status in (-number, 128 + number)
    assert terminal.output.count(b"\x1b[?1049l") == 1


def test_a_terminal_that_takes_nothing_keeps_nobody_from_ending(home: Path) -> None:
    terminal = start(home)
    terminal.wait_for("looking")
    follower = os.open(f"/proc/{terminal.pid}/fd/1", os.O_RDWR | os.O_NOCTTY)
    termios.tcflow(follower, termios.TCOOFF)
    terminal.signal(signal.SIGTERM)
    assert terminal.end() < TAKEN_WITHIN + 5
    assert terminal.status == -signal.SIGTERM
    os.close(follower)


def test_a_terminal_left_non_blocking_by_another_program_gets_all_of_it(home: Path) -> None:
    """It refuses what it has no room for: that was lost, and the live frame left it blank."""
    pieces = [tuple(StyledText("x", f"38;2;{y};{x};1") for x in range(80)) for y in range(24)]
    place = place_of(frames_dir(), home / "cockpit.toml", Call(), EARLY_SIZE)
    save(place, Frame(time.time() - 60, True, "7", tuple(pieces)))
    terminal = start(home, shell=f"{sys.executable} -c 'import os; os.set_blocking(1, 0)'; exec")
    until = time.monotonic() + 20
    follower = os.open(f"/proc/{terminal.pid}/fd/1", os.O_RDWR | os.O_NOCTTY)
    while select.select([], [follower], [], 0)[1]:  # until it has no room: the frame is larger
        assert time.monotonic() < until, "the frame never came"
        select.select([], [], [], 0.01)
    os.close(follower)
    terminal.wait_for("run-here")
    screen = Emulator(*EARLY_SIZE)
    screen.feed(terminal.output.partition(b"\x1b[?1004h")[0])
    assert screen.lines()[:23] == ["x" * 80] * 23
    terminal.type("q")
    terminal.end()


def test_what_the_terminal_refused_is_not_taken_as_shown() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    writing = Writing(write, b"x" * (1 << 20))
    writing.run()
    assert not writing.whole
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert len(file.read()) < 1 << 20


def test_a_size_that_comes_and_goes_meanwhile_leaves_no_holes(home: Path) -> None:
    """A terminal that was made smaller has lost lines, though it has its size again."""
    terminal = start(home)
    terminal.wait_for("looking")
    for rows in (8, 24):
        terminal.resize(80, rows)
    terminal.wait_for("run-here")
    assert terminal.output.count(WHOLE) == 2
    terminal.type("q")
    terminal.end()


def test_what_is_wrong_is_told_on_the_terminal_as_it_was(home: Path) -> None:
    """A run file that was right when the frame was kept, by a cockpit with another key table."""
    keys = RUN_FILE + '[keys]\nfiltre = "x"\n'
    (home / "cockpit.toml").write_text(keys)
    before = time.time() - 7200
    os.utime(home / "cockpit.toml", (before, before))
    place = place_of(frames_dir(), home / "cockpit.toml", Call(), EARLY_SIZE)
    save(place, Frame(time.time() - 60, True, "7", ((StyledText("kept log", ""),),) * 24))
    terminal = start(home)
    terminal.end()
    assert b"kept log" in terminal.output
    assert (terminal.status, terminal.left_on) == (2, set())
    assert "did you mean" in terminal.after_the_screen()
