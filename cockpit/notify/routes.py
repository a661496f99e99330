"""The routes of ``[notify]``: what each is called, for whom it is, and where it leads.

A route is named by its kind and its variable, never by its address. Fields of a route:

- ``min``: the least severity it carries (``info``, ``warning``, ``alert``, ``critical``).
- ``url_env``: the variable that holds the address: an ``https://`` webhook (Slack, Discord and
  others are recognised, anything else is sent JSON) or an apprise URL (``mailto://…``).
- ``kind``: ``slack``, ``discord``, ``webhook`` or ``email`` demand that the address is one;
  ``desktop`` and ``terminal`` need none.
- ``command``: gets title and body on standard input, and ``COCKPIT_RUN``, ``COCKPIT_EVENT``,
  ``COCKPIT_SEVERITY`` and ``COCKPIT_TITLE``; its ``$VARIABLES`` are filled in, no shell.
- ``to``: the person whom the route reaches, or (with an ``@``) the address of a mail.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, NamedTuple

from cockpit.model.alert import Severity
from cockpit.model.run import NotifySpec, Route
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LOCAL: Final = ("terminal", "desktop")
"""Kinds that reach whoever sits at this machine, and nobody else."""


class Named(NamedTuple):
    """A route and its name, under which messages and claims know it."""

    name: str
    route: Route

    @property
    def kind(self) -> str:
        """How it is sent: ``url`` when the address decides."""
        if self.route.command is not None:
            return "command"
        return self.route.kind or "url"

    @property
    def local(self) -> bool:
        """Whether it reaches only the person at this machine."""
        return self.kind in LOCAL

    def carries(self, severity: Severity) -> bool:
        """Whether messages of this severity go by it."""
        return severity.rank >= Severity(self.route.min).rank


def named(spec: NotifySpec) -> tuple[Named, ...]:
    """Return the routes with a name for each; equal routes are one."""
    uses: dict[str, int] = {}
    merged: dict[object, Named] = {}
    for route in spec.routes:
        same = (route.url_env, route.kind, route.to, route.command)
        if same in merged:
            wider = min(merged[same].route, route, key=lambda each: Severity(each.min).rank)
            merged[same] = merged[same]._replace(route=wider)
            continue
        name = _name(route)
        uses[name] = uses.get(name, 0) + 1
        merged[same] = Named(name if uses[name] == 1 else f"{name} #{uses[name]}", route)
    return tuple(merged.values())


def _name(route: Route) -> str:
    if route.command is not None:
        words = command_words(route)
        return clean(scrub(f"command {PurePath(words[0]).name if words else ''}")).strip()
    if route.url_env is not None:
        return f"{route.kind or 'url'} {route.url_env}"
    return route.kind or "route"


def command_words(route: Route) -> list[str]:
    """Return the command as a list of words, its variables still as written."""
    if isinstance(route.command, str):
        try:
            return shlex.split(route.command)
        except ValueError:
            return []
    return list(route.command or ())


def address(route: Route, environ: Mapping[str, str]) -> str | None:
    """Return the address from the route's variable, ``None`` if it is not set."""
    value = environ.get(route.url_env, "").strip() if route.url_env is not None else ""
    return value or None


def audience(
    routes: tuple[Named, ...], spec: NotifySpec, dri: str | None, dris: frozenset[str]
) -> tuple[Named, ...]:
    """Return the routes for a first message about a run of ``dri``.

    A route ``to`` the DRI of other runs, or to the second person, is not for this one; a name
    that is neither gets everything: better once too often than never.
    """

    def is_for(to: str | None) -> bool:
        if to is None or to == dri or "@" in to:
            return True
        return to != spec.second and (dri is None or to not in dris)

    return tuple(each for each in routes if is_for(each.route.to))


def second_audience(
    routes: tuple[Named, ...], spec: NotifySpec, dri: str | None, dris: frozenset[str]
) -> tuple[Named, ...]:
    """Return the second person's routes; without one, those of the first message."""
    own = tuple(each for each in routes if each.route.to == spec.second)
    return own or audience(routes, spec, dri, dris)
