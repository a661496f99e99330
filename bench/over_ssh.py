"""What crosses a thin, laggy line: the cockpit beside htop, less, lnav and LEET (``wandb``).

A real ``ssh -tt`` on a terminal of its own, a real sshd of this user on loopback, and between them
a relay of 1 Mbit/s and 40 ms each way; on the far side plain or inside tmux. Bytes are those that
cross the relay towards the terminal, ssh's own with them (``…_pty``: what comes out on the
terminal); the handshake is over before a program is started. What is not installed is not measured.
An act ends when it is still, or after some seconds for a program that never is (LEET).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.keys import HELD, REPEAT
from bench.live import Pace, feeding, make_live, name_of
from bench.program import cockpit
from bench.relay import Relay
from tests.emulator import Emulator
from tests.sshd import Sshd, serving
from tests.terminal_probe import Terminal

SIZE: Final = (120, 40)
RATE: Final = 125_000
"""Bytes a second of 1 Mbit/s."""
THIN: Final = 16_000
"""Bytes a second of 128 kbit/s."""
DELAY: Final = 0.04
RUNS: Final = 12
FEWER: Final = 7
STEPS: Final = 8
KEYS: Final = 12
PAGES: Final = 4
LONG: Final = 2000
"""Lines of the log that is paged through."""
QUIET: Final = 0.7
"""Seconds without a byte after which an act is over."""
RESTS: Final = 0.3
MOST: Final = 20.0
SETTLES: Final = 5.0
"""Seconds that programs have to settle before they are watched: those that step are never still."""
LOST: Final = 30.0
TMUX_CONF: Final = 'set -g default-terminal "tmux-256color"\nset -g destroy-unattached on\n'
"""Its server ends with the line."""
WAYS: Final = ("plain", "tmux")
Figures = dict[str, float]


class Lenient(Emulator):
    """A terminal that passes over what it does not know: other programs write more than ours."""

    def _token(self, found: object) -> None:
        with contextlib.suppress(AssertionError, IndexError):
            super()._token(found)  # type: ignore[arg-type]


class Acts(NamedTuple):
    """A program and its keys; an empty key: it has no such act."""

    command: Sequence[str]
    first: str
    """What stands on its screen once it is there."""
    still: float
    """Seconds without a byte after which it has started."""
    step: tuple[str, str]
    """A cursor step down and up."""
    other: tuple[str, str, str]
    """Another key, a word that comes with it, and the key that leads back."""
    leave: str
    opening: tuple[str, str] = ("", "")
    """Opens a run, and leads back."""
    to_log: str = ""
    page: str = ""


class Session:
    """A shell behind the line, in which a program is started by Enter, again and again."""

    def __init__(self, server: Sshd, acts: Acts, folder: Path, way: str) -> None:
        self.acts = acts
        self.relay = Relay(server.port, RATE, DELAY)
        self.relay.start()
        line = f"while echo at your service; read go; do {shlex.join(acts.command)}; done"
        if way == "tmux":
            conf = folder / "tmux.conf"
            conf.write_text(TMUX_CONF)
            line = f"exec tmux -L {folder.name} -f {conf} new-session {shlex.quote(line)}"
        argv = ["ssh", "-F", f"{server.root}/ssh_config", "-p", str(self.relay.port), "-tt"]
        argv += ["-o", f"HostKeyAlias=[127.0.0.1]:{server.port}", "-e", "none", server.host, line]
        self.terminal = Terminal(argv, {"TERM": "xterm-256color"}, SIZE)
        self.terminal.screen = Lenient(*SIZE)
        self.terminal.wait_for("at your service")
        self.after("", QUIET)

    def after(self, keys: str, still: float, most: float = MOST) -> tuple[int, int]:
        """Type, and return the bytes at the relay and on the terminal until it is still."""
        terminal, relay = self.terminal, self.relay
        crossed, seen, size = relay.down, len(terminal.output), len(terminal.output)
        terminal.type(keys)
        began = last = time.monotonic()
        while time.monotonic() - last < still and time.monotonic() - began < most:
            terminal.read(0.05)
            if len(terminal.output) > size:
                size, last = len(terminal.output), time.monotonic()
        return relay.down - crossed, size - seen

    def seconds_until(self, keys: str, words: str) -> float:
        """Type, and return the seconds until words come; ``LOST`` when they do not."""
        terminal, seen, began = self.terminal, len(self.terminal.output), time.monotonic()
        terminal.type(keys)
        while words.encode() not in terminal.output[seen:]:
            terminal.read(0.05)
            if time.monotonic() - began > LOST:
                return LOST
        return time.monotonic() - began

    def first_byte(self, keys: str) -> float:
        """Type into a line that is still; return the seconds until something comes."""
        self.after("", RESTS, 3.0)
        terminal, seen, began = self.terminal, len(self.terminal.output), time.monotonic()
        terminal.type(keys)
        while len(terminal.output) == seen and time.monotonic() - began < LOST:
            terminal.read(0.05)
        return time.monotonic() - began

    def start(self, most: float = MOST) -> tuple[int, int]:
        """Start the program; return the bytes until it is still, or for ``most`` seconds more."""
        crossed, seen = self.relay.down, len(self.terminal.output)
        self.seconds_until("\r", self.acts.first)
        self.after("", self.acts.still, most)
        return self.relay.down - crossed, len(self.terminal.output) - seen

    def leave(self) -> None:
        """Leave the program."""
        self.terminal.type(self.acts.leave)
        self.after("", QUIET)

    def end(self) -> None:
        """Hang up."""
        self.terminal.hang_up()
        self.relay.stop()


def median(session: Session, keys: Sequence[str]) -> Figures:
    """Return the median of what each key brings, the first left out."""
    found = [session.after(key, QUIET, 2.0) for key in keys][1:]
    return {"": statistics.median(at for at, _ in found), "_pty": statistics.median(
        pty for _, pty in found)}  # fmt: skip


def named(name: str, found: Mapping[str, float]) -> Figures:
    """Return figures under a name."""
    return {f"{name}{end}": figure for end, figure in found.items()}


def late(session: Session) -> float | None:
    """Return how much later than at rest a key is answered that follows a held one (ms)."""
    key, words, back = session.acts.other
    if not key:
        return None
    taken = []
    for hold in (False, True):
        session.after("", QUIET, 3.0)
        if hold:
            held(session)
        taken.append(session.seconds_until(key, words))
        session.after(back, QUIET, 3.0)
        if taken[0] == LOST:
            return None
    return 1000 * (taken[1] - taken[0])


def held(session: Session) -> None:
    """Hold a cursor key, which is read behind the line as it comes."""
    began, pressed = time.monotonic(), 0
    while (now := time.monotonic()) - began < HELD:
        if pressed <= (now - began) / REPEAT:
            session.terminal.type(session.acts.step[pressed // 5 % 2])
            pressed += 1
        session.terminal.read(REPEAT / 10)


def acted(session: Session) -> Figures:
    """Return the figures of a program that has started, act by act."""
    acts = session.acts
    found = named("step", median(session, acts.step * (STEPS // 2)))
    lateness = late(session)
    if lateness is not None:
        found["held_late_ms"] = lateness
    session.relay.rate = THIN
    keys = [session.first_byte(acts.step[n % 2]) for n in range(KEYS)]
    found["thin_key_ms"] = 1000 * statistics.median(keys)
    session.relay.rate = RATE
    session.after("", QUIET, 3.0)
    key, back = acts.opening
    if key:
        found["open"], found["open_pty"] = session.after(key, QUIET, 2.0)
    if acts.page:
        session.after(acts.to_log, QUIET, 5.0)
        found |= named("page", median(session, [acts.page] * PAGES))
    if key:
        session.after(back, QUIET, 5.0)
    return found


def measured(server: Sshd, acts: Acts, folder: Path, way: str) -> Figures:
    """Return the figures of a program that stands in front of runs that do not step."""
    session = Session(server, acts, folder, way)
    try:
        found: Figures = {}
        found["start"], found["start_pty"] = session.start()
        found |= acted(session)
        session.leave()
        found["again"], found["again_pty"] = session.start()
        session.leave()
    finally:
        session.end()
    return found


def idle(sessions: Mapping[str, Session], seconds: float) -> dict[str, Figures]:
    """Return the bytes a second of programs that nobody touches, all in the same seconds."""
    for session in sessions.values():
        session.start(SETTLES)
    began, crossed = time.monotonic(), {key: each.relay.down for key, each in sessions.items()}
    while time.monotonic() - began < seconds:
        for session in sessions.values():
            session.terminal.read(0.01)
    passed = time.monotonic() - began
    found = {}
    for key, session in sessions.items():
        rate = (session.relay.down - crossed[key]) / passed
        found[key] = {"idle_s": rate, "thin_share_percent": 100 * rate / THIN}
    return found


def at_fleet(folder: Path) -> Acts:
    """Return the cockpit in front of a fleet."""
    places = {name: folder / name for name in ("state", "runtime")}
    for place in places.values():
        place.mkdir(mode=0o700)
    env = ["env", f"XDG_STATE_HOME={places['state']}", f"XDG_RUNTIME_DIR={places['runtime']}"]
    command = [*env, *cockpit("open", "--config", str(folder / "cockpit.toml"))]
    return Acts(
        command, name_of(0), 4.0, ("j", "k"), ("?", "palette", "\x1b"), "q", ("\r", "\x1b"), "1",
        "\x1b[5~",
    )  # fmt: skip


def peers(folder: Path) -> dict[str, Acts]:
    """Return the other programs that are installed here, in front of the same runs."""
    log = str(folder / name_of(0) / "run.log")
    files = str(folder / name_of(0) / "wandb")
    known = {
        "htop": Acts(["htop"], "Tasks", 1.0, ("\x1bOB", "\x1bOA"), ("h", "Arrows", "q"), "q"),
        "less": Acts(["less", log], "step 0", QUIET, ("j", "k"), ("h", "SUMMARY", "q"), "q",
                     to_log="G", page="b"),
        "lnav": Acts(["lnav", log], "worker", QUIET, ("j", "k"), ("", "", ""), "q",
                     to_log="G", page="b"),
        "wandb": Acts([str(Path(sys.executable).parent / "wandb"), "leet", files], "Runs", 0.5,
                      ("j", "k"), ("h", "Quit", "h"), "q", ("\r", "\x1b")),
    }  # fmt: skip
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    return {name: acts for name, acts in known.items() if shutil.which(name, path=path)}


def _line(number: int) -> bytes:
    """Return a line of log that shares few cells with its neighbours."""
    word = hashlib.sha256(str(number).encode()).hexdigest()
    return (
        f"worker {word[:2]}: read {word[2 : 20 + number * 7 % 30]} in {number % 97} ms\n".encode()
    )


@contextlib.contextmanager
def fleet(runs: int, pace: Pace) -> Iterator[Path]:
    """Give the folder of a fleet that lives; its first run has a log of some pages."""
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        folder = Path(name)
        make_live(folder, runs, pace)
        with (folder / name_of(0) / "run.log").open("ab") as log:
            log.writelines(_line(number) for number in range(LONG))
        with feeding(folder, runs, pace):
            yield folder


def figures(
    names: Sequence[str], seconds: float, told: Callable[[str], object]
) -> dict[str, dict[str, Figures]]:
    """Return the figures by way and program."""
    found: dict[str, dict[str, Figures]] = {way: {} for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="ck-") as root, serving(Path(root)) as server:
        server.rc("export LC_ALL=C.UTF-8")
        for way in WAYS:
            with fleet(RUNS, Pace()) as folder:
                programs = {"cockpit": at_fleet(folder), **peers(folder)}
                for name in [each for each in names if each in programs]:
                    found[way][name] = measured(server, programs[name], folder, way)
                    told(f"{way} {name} {found[way][name]}")
            for name, rates in idling(server, names, way, seconds).items():
                found[way].setdefault(name, {}).update(rates)
                told(f"{way} {name} {rates}")
    return found


def idling(server: Sshd, names: Sequence[str], way: str, seconds: float) -> dict[str, Figures]:
    """Return what twelve and seven runs cost that step once a second, and peers beside them."""
    pace = Pace(step_every=1.0)
    with fleet(RUNS, pace) as many, fleet(FEWER, pace) as few:
        programs = {"cockpit": at_fleet(many), "cockpit_7": at_fleet(few), **peers(many)}
        wanted = {n: acts for n, acts in programs.items() if n.removesuffix("_7") in names}
        sessions: dict[str, Session] = {}
        try:
            for number, (name, acts) in enumerate(wanted.items()):
                own = many / f"idle-{number}"
                own.mkdir()
                sessions[name] = Session(server, acts, own, way)
            return idle(sessions, seconds)
        finally:
            for session in sessions.values():
                session.end()


def main() -> None:
    """Print the figures."""
    everything = ("cockpit", "htop", "less", "lnav", "wandb")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=everything, default=everything)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = figures(
        args.programs, args.seconds, lambda line: None if args.json else print(line, flush=True)
    )
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
