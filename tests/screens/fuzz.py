"""Every screen under bursts of keys, pastes, mouse, resizes, focus changes and reloads.

``python -m tests.screens.fuzz --minutes 15`` goes on until something fails, then prints the seed
and the fewest steps that still fail; ``--replay`` does those again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, TextArea

from cockpit.app.application import CockpitApp
from screens.acting.editor import EditorScreen
from screens.hotkeys import ACTIONS
from tests.screens.fuzz_ways import WAYS, FuzzEngine, Way, app_on, reports
from tests.screens.stand_in import app_of

Step = tuple[Any, ...]
"""What is done, and with what: all of it is JSON."""

_NAMED: Final = {" ": "space", "/": "slash", ":": "colon", "?": "question_mark", "-": "minus"}
_MORE: Final = (
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete"),
    *("backspace", "tab", "shift+tab", "enter", "escape", "f1", "f2", "f3", "f5", "f12"),
    *("ctrl+left", "ctrl+right", "shift+left", "shift+up", "ctrl+home", "ctrl+end"),
    *("alt+x", "alt+enter", "alt+b", "alt+backspace", "ctrl+shift+k"),
)
_LINES: Final = "\n".join(f"line {n}" for n in range(40))
_WORDS: Final = ("relaunch run-failed", _LINES, _LINES, "", "a\tb\r\nc",
                 "\x1b]0;x\x07[bold]日本語\u202e", "x" * 300)  # fmt: skip
_SIZES: Final = ((80, 24), (120, 40), (200, 50), (20, 5), (40, 10), (1, 1), (81, 7), (20, 60))
_SHRINK_FOR: Final = 90.0
"""Seconds that are spent on finding fewer steps."""
_QUIT_AFTER: Final = 20.0
"""Seconds after which a screen that does not settle counts as hung."""


def keys_of(*holders: Any) -> list[str]:
    """Return the keys that screens or widgets bind."""
    bindings = (each for holder in holders for each in holder.BINDINGS)
    return [each.key for each in Binding.make_bindings(bindings)]


def every_key() -> list[str]:
    """Return all keys that anything binds, and many that nothing does."""
    bound = [key for each in ACTIONS for key in each.keys.split()] + keys_of(Input, TextArea)
    letters = [chr(code) for code in range(0x20, 0x7F)] + ["é", "日", "🙂"]
    return sorted({*bound, *letters, *_MORE, *(f"ctrl+{chr(code)}" for code in range(97, 123))})


KEYS: Final = every_key()


def likely(way: Way) -> list[str]:
    """Return the keys that mean something there, and those that lead elsewhere."""
    typed = (TextArea,) if way.screen is EditorScreen else (Input,)
    ways = ["enter", "slash", "tab", "r", "e", "A", "J", "p", ":", "a", "1"]
    return [*ways, *keys_of(way.screen, *typed)]


def a_burst(chance: random.Random, often: Sequence[str]) -> Step:
    count = chance.randint(1, 12)
    keys = (chance.choice(often if chance.random() < 0.6 else KEYS) for _ in range(count))
    return ("keys", tuple(keys))


def a_step(chance: random.Random, often: Sequence[str]) -> Step:
    """Return one step; bursts of keys are the most frequent."""
    at = round(chance.random(), 3), round(chance.random(), 3)
    clicks = ("down", "up", "move", "click", "scroll_up", "scroll_down")
    likelihood: dict[Step, int] = {
        a_burst(chance, often): 40,
        ("paste", chance.choice(_WORDS)): 12,
        ("mouse", chance.choice(clicks), *at): 12,
        ("size", *chance.choice(_SIZES)): 8,
        ("focus", chance.random() < 0.5): 4,
        ("reload", tuple(n for n in range(len(reports())) if chance.random() < 0.6)): 8,
        ("wait", chance.choice((0, 0.01, 0.05))): 12,
        ("later", chance.choice((1, 60, 1e6))): 4,
        ("come",): 6,
    }
    return chance.choices(list(likelihood), list(likelihood.values()))[0]


def steps_of(name: str, seed: int, count: int) -> list[Step]:
    """Return what is done on a screen: the same for the same seed."""
    chance, often = random.Random(seed), likely(WAYS[name])
    return [a_step(chance, often) for _ in range(count)]


def press(app: CockpitApp, key: str) -> None:
    alone = len(key) == 1
    name = _NAMED.get(key, key) if alone else key
    app.post_message(events.Key(name, key if alone else None))


def _mouse(app: CockpitApp, what: str, x: float, y: float) -> None:
    at = int(x * app.size.width), int(y * app.size.height)
    kinds: dict[str, list[type[events.MouseEvent]]] = {
        "down": [events.MouseDown],
        "up": [events.MouseUp],
        "move": [events.MouseMove],
        "click": [events.MouseDown, events.MouseUp],
        "scroll_up": [events.MouseScrollUp],
        "scroll_down": [events.MouseScrollDown],
    }
    for kind in kinds[what]:
        app.post_message(kind(None, *at, 0, 0, 1, False, False, False, *at))


async def come(pilot: Pilot[Any], way: Way) -> None:
    """Come to a screen anew, from the first one."""
    app = app_of(pilot)
    await settled(app)
    while len(app.screen_stack) > 1:
        app.screen.dismiss(None)
    await way.come(pilot)
    await settled(app)


async def do(app: CockpitApp, engine: FuzzEngine, step: Step) -> None:
    """Do one step, as the terminal or the engine would."""
    what, *given = step
    if what == "keys":
        for key in given[0]:
            press(app, key)
    elif what == "paste":
        app.post_message(events.Paste(given[0]))
    elif what == "mouse":
        _mouse(app, *given)
    elif what == "size":
        size = Size(*given)
        app._driver._size = size  # type: ignore[union-attr]
        app.post_message(events.Resize(size, size))
    elif what == "focus":
        app.post_message(events.AppFocus() if given[0] else events.AppBlur())
    elif what == "reload":
        engine.reload([reports()[n] for n in given[0]])
        app.call_later(app._take_all)
    elif what == "later":
        engine.clock.at += given[0]
    else:
        await asyncio.sleep(given[0])


async def settled(app: CockpitApp) -> None:
    """Wait until all that was pressed is done, and the screen in front has nothing to do."""
    until = time.monotonic() + _QUIT_AFTER
    while app.is_running and time.monotonic() < until:
        handing = app._typeahead._handing
        heard = asyncio.Event()
        if not app.call_later(heard.set):
            return
        await asyncio.wait_for(heard.wait(), _QUIT_AFTER)
        if (handing is None or handing.done()) and not app._typeahead._waiting:
            return
        await asyncio.sleep(0.005)
    assert not app.is_running, f"{app.screen} never settles"


async def visited(pilot: Pilot[Any], engine: FuzzEngine, way: Way, steps: Sequence[Step]) -> None:
    app = app_of(pilot)
    await come(pilot, way)
    assert isinstance(app.screen, way.screen), f"came to {app.screen}"
    for step in steps:
        await (come(pilot, way) if step[0] == "come" else do(app, engine, step))
        if not app.is_running:
            return
    await settled(app)
    screen: Screen[Any] = app.screen
    assert not app.is_running or (screen.is_mounted and screen._task is not None), screen


async def faults_of(name: str, steps: Sequence[Step]) -> list[BaseException]:
    """Return what went wrong when a screen was come to and these steps were done."""
    found: list[BaseException] = []
    loop = asyncio.get_running_loop()
    former = loop.get_exception_handler()

    def heard(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        found.append(context.get("exception") or RuntimeError(context["message"]))

    def kept(error: BaseException, folder: Path, now: float) -> Path | None:
        found.append(error)
        return None

    loop.set_exception_handler(heard)
    try:
        with patch("cockpit.runtime.account.write_details", kept):
            await _run(name, steps)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        found.append(error)
    finally:
        loop.set_exception_handler(former)
    return list({id(each): each for each in found}.values())


async def _run(name: str, steps: Sequence[Step]) -> None:
    way = WAYS[name]
    with tempfile.TemporaryDirectory() as folder:
        app, engine = app_on(way, Path(folder))
        app.exit = lambda *_, **__: None  # type: ignore[method-assign] # it shall go on
        async with app.run_test(size=way.size) as pilot:
            try:
                await visited(pilot, engine, way, steps)
            finally:
                del app.exit


def shrunk(name: str, steps: list[Step]) -> list[Step]:
    """Return fewer steps, and shorter bursts, that still go wrong: as few as a while brings."""
    until = time.monotonic() + _SHRINK_FOR

    def fails(fewer: list[Step]) -> bool:
        return time.monotonic() < until and bool(asyncio.run(faults_of(name, fewer)))

    size = max(1, len(steps) // 2)
    while size:
        place = 0
        while place < len(steps):
            fewer = steps[:place] + steps[place + size :]
            steps, place = (fewer, place) if fails(fewer) else (steps, place + size)
        size //= 2
    for place, step in enumerate(steps):
        if step[0] != "keys":
            continue
        keys = list(step[1])
        for at in reversed(range(len(keys))):
            fewer = [*steps[:place], ("keys", keys[:at] + keys[at + 1 :]), *steps[place + 1 :]]
            if fails(fewer):
                steps, keys = fewer, keys[:at] + keys[at + 1 :]
    return steps


def told(name: str, seed: int, steps: list[Step], found: list[BaseException]) -> str:
    lines = [f"{name}, seed {seed}: {len(found)} faults"]
    lines += ["".join(traceback.format_exception(each)).rstrip() for each in found[:2]]
    again = json.dumps([name, steps])
    return "\n".join([*lines, f"again: python -m tests.screens.fuzz --replay {again!r}"])


def fuzz(minutes: float, seed: int, only: str | None) -> int:
    """Go round the screens until the time is over; return how many times something failed."""
    until, failed, rounds = time.monotonic() + minutes * 60, 0, 0
    names = [only] if only else list(WAYS)
    while time.monotonic() < until:
        for name in names:
            mine = seed + rounds
            rounds += 1
            steps = steps_of(name, mine, 30)
            found = asyncio.run(faults_of(name, steps))
            if found:
                failed += 1
                print(f"{name}, seed {mine}: {found[0]!r}; looking for fewer steps", flush=True)
                fewer = shrunk(name, steps)
                print(told(name, mine, fewer, asyncio.run(faults_of(name, fewer)) or found))
                sys.stdout.flush()
            if time.monotonic() > until:
                break
    print(f"seed {seed}: {rounds} rounds of 30 steps over {len(names)} screens, {failed} failed")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=WAYS)
    parser.add_argument("--replay", help="what a failure has printed")
    args = parser.parse_args()
    if args.replay:
        name, steps = json.loads(args.replay)
        found = asyncio.run(faults_of(name, [tuple(each) for each in steps]))
        print(told(name, 0, steps, found) if found else "nothing fails")
        return int(bool(found))
    print(f"seed {args.seed}")
    return int(bool(fuzz(args.minutes, args.seed, args.only)))


if __name__ == "__main__":
    sys.exit(main())
