"""The keys in use: the table's (``screens/hotkeys.py``), changed by ``[keys]`` of the run file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from textual import events
from textual.binding import Binding, BindingType
from textual.keys import _character_to_key

from cockpit.config.advice import FORMER_ACTIONS
from cockpit.model.late_regex import late_regex
from screens.hotkeys import ACTIONS, ARMED, BY_ID, TOGETHER

_FORM: Final = late_regex(
    r"[!-~]|ctrl\+[a-z]|shift\+tab|f([1-9]|1[0-2])|enter|escape|tab|space|backspace|delete|insert|"
    r"up|down|left|right|home|end|pageup|pagedown"
)
_SHOWN: Final = {
    "escape": "esc", "pagedown": "pgdn", "pageup": "pgup", "down": "↓", "up": "↑",
    "left": "←", "right": "→",
}  # fmt: skip
_FIRST: Final = ("open", "back", "list_back", "past_earlier", "past_later", "relaunch", "entry",
                 "handoff", "filter", "search", "palette", "help")  # fmt: skip


_CALL: Final = re.compile(
    r"\bcockpit (?P<verb>rollback|stop|relaunch|lineage|retain|seal)\b"
    r"(?: (?!--)[\w./-]+)?+(?: --to (?P<to>\d+))?+(?: --(?:move|successors) \w+)*+(?! --)"
)
"""A call of a verb that has a key: ``cockpit rollback toy --to 500 --move yes``.

With any other option it stays as it is: the key asks for nothing of that kind.
"""

_OPTION: Final = re.compile(r"--(\w+) (\w+)")
"""Such as ``--to 500``."""


class KeysError(Exception):
    """``[keys]`` of the run file does not make sense; ``problems`` are one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Keys:
    """The keys in use: the table's, changed by ``[keys]``."""

    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    looking: bool = False
    """Nothing may be changed here: what would is in no footer, its keys say why not."""

    def of(self, action: str) -> tuple[str, ...]:
        """Return an action's keys."""
        return self.own.get(action) or tuple(BY_ID[action].keys.split())

    def shown(self, action: str) -> str:
        """Return an action's first key as a person reads it."""
        return shown(self.of(action)[0])

    def in_words(self, said: str) -> str:
        """Return a sentence with keys in place of the calls that it names.

        ``roll back first (cockpit rollback toy --to 500 --move yes)`` becomes
        ``roll back first (b rollback to 500)``.
        """
        return _CALL.sub(self._key_for, said)

    def remedies(self, said: str) -> dict[str, dict[str, str]]:
        """Return the verbs with a key that a sentence names, and the options of each call."""
        found = _CALL.finditer(said)
        return {each["verb"]: dict(_OPTION.findall(each[0])) for each in found}

    def _key_for(self, found: re.Match[str]) -> str:
        to = f" to {found['to']}" if found["to"] else ""
        return f"{self.shown(found['verb'])} {found['verb']}{to}"

    def footer(self, *wheres: str, looks: bool = False) -> list[tuple[str, str]]:
        """Return (key, title) of the few actions that matter in these scopes.

        Those come first that must be in sight on a narrow screen too. ``looks``: only those that
        change nothing but the screen.
        """
        found = [e for where in wheres for e in ACTIONS if e.footer and e.where == where]
        if looks:
            found = [each for each in found if each.looks]
        if self.looking:
            found = [each for each in found if not each.acts]
        found.sort(key=lambda each: _FIRST.index(each.id) if each.id in _FIRST else len(_FIRST))
        return [(self.shown(each.id), each.title) for each in found]

    def keymap(self) -> dict[str, str]:
        """Return what Textual wants to know of changed keys."""
        return {action: ",".join(map(_bound, keys)) for action, keys in self.own.items()}


def read_keys(settings: Mapping[str, object]) -> Keys:
    """Return the keys after ``[keys]`` (action id = key or list of keys); raises ``KeysError``."""
    own: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for action, wanted in settings.items():
        keys = [wanted] if isinstance(wanted, str) else wanted
        if action in FORMER_ACTIONS:
            continue
        if action not in BY_ID:
            near = difflib.get_close_matches(action, BY_ID, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(BY_ID)}"
            problems.append(f"keys.{action}: there is no such action; {hint}")
        elif (
            not isinstance(keys, list | tuple)
            or not keys
            or not all(isinstance(key, str) and _FORM.fullmatch(key) for key in keys)
        ):
            problems.append(
                f"keys.{action}: {wanted!r} is not a key; expected a letter or sign, "
                '"ctrl+x", "f5", "enter", "escape", "tab" or a cursor key'
            )
        else:
            own[action] = tuple(str(key) for key in keys)
    problems += _conflicts(Keys(own))
    problems += [
        f'keys.{one}: "{key}" is {other} elsewhere; a key that writes may mean nothing else'
        for one, other, key in mistakable(Keys(own))
        if own.keys() & {one, other}
    ]
    if problems:
        raise KeysError(problems)
    return Keys(own)


def mistakable(keys: Keys) -> list[tuple[str, str, str]]:
    """Return (action that writes, harmless action, key) that a person could take for each other.

    Screens follow one another while keys are on the line: what is harmless on one may not write
    on the next, unless that one waits until it could be read.
    """
    return [
        (one.id, other.id, key)
        for one in ACTIONS
        if one.writes and one.where not in ARMED
        for other in ACTIONS
        if not other.writes
        for key in keys.of(one.id)
        if key in keys.of(other.id)
    ]


def bindings(*wheres: str) -> list[BindingType]:
    """Return Textual's bindings of these scopes."""
    return [
        Binding(
            ",".join(map(_bound, each.keys.split())),
            each.run,
            each.title,
            show=False,
            id=each.id,
            priority=each.id == "interrupt",
        )
        for each in ACTIONS
        if each.where in wheres
    ]


def shown(key: str) -> str:
    """Return a key as a person reads it."""
    return _SHOWN.get(key, key)


def key_event(key: str) -> events.Key:
    """Return the press of a key that is named as in the table, or as a person reads it."""
    name = next((each for each, said in _SHOWN.items() if said == key), key)
    if len(name) == 1:
        return events.Key(_character_to_key(name), name)
    return events.Key(name, " " if name == "space" else None)


def _bound(key: str) -> str:
    return {",": "comma", "+": "plus"}.get(key, key)


def _conflicts(keys: Keys) -> Iterable[str]:
    """Return a line for each changed key that would mean two things in one place."""
    for action, own in keys.own.items():
        near = set().union(*(group for group in TOGETHER if BY_ID[action].where in group))
        for other in ACTIONS:
            both = set(own) & set(keys.of(other.id))
            if other.id != action and other.where in near and both:
                yield f'keys.{action}: "{both.pop()}" already means {other.id} ({other.title})'
