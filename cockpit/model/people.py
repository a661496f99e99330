"""Whose word it is, and who typed it: a name is a claim, the account is the machine's word.

An operator's name comes from the run file or from git, and anybody may set it; the account
(``login``) that the cockpit runs under may not be chosen. Both are written down (SPEC A).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cockpit.model.late_regex import late_regex

_LOGIN: Final = late_regex(r" \(login [^()]*\)$")


def typist(operator: str, login: str) -> str:
    """Return who typed: ``ada``, or ``ada (login bob)`` where the account has another name."""
    name, account = " ".join(operator.split()), login.strip()
    if not name or not account or same_person(name, account):
        return name or account
    return f"{name} (login {re.sub('[()]', ' ', account).strip()})"


def name_in(typed_by: str) -> str:
    """Return the name that stands in what ``typist`` gave."""
    return _LOGIN.sub("", typed_by)


def login_in(typed_by: str) -> str:
    """Return the account that stands in what ``typist`` gave; the name where they are one."""
    found = _LOGIN.search(typed_by)
    return typed_by if found is None else found.group()[len(" (login ") : -1]


def same_person(one: str, two: str) -> bool:
    """Tell whether two names are the same, whatever their case."""
    return " ".join(one.split()).casefold() == " ".join(two.split()).casefold()


def is_agent(name: str) -> bool:
    """Tell whether a name is an agent's: one approves nothing, and is never a DRI."""
    return name.strip().casefold().startswith("agent:")


def own_word(by: str, typed_by: str, others: Iterable[str] = ()) -> bool:
    """Tell whether ``by`` typed it: under that name, and not from an account of ``others``.

    ``others`` are people who are known by name; an account that bears one of their names is
    that one's, whatever name was set.
    """
    if is_agent(typed_by) or not same_person(by, name_in(typed_by)):
        return False
    account = login_in(typed_by)
    return same_person(by, account) or not any(same_person(account, each) for each in others)


def worded(by: str, typed_by: str | None) -> str:
    """Return whose word it is and who typed it: ``ada``, ``ada, typed by bob``."""
    if not typed_by or same_person(by, typed_by):
        return by
    if same_person(by, name_in(typed_by)):
        return typed_by
    return f"{by}, typed by {typed_by}"
