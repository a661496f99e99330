"""Which multiplexer the terminal is a window of: the inner one, where one runs in the other."""

from __future__ import annotations

from collections.abc import Mapping


def in_gnu_screen(variables: Mapping[str, str]) -> bool:
    """Return whether this is a window of GNU screen, by the environment.

    A program inside both has the variables of both: TERM tells which is the inner one. In doubt it
    is screen, which can do less.
    """
    inner_tmux = bool(variables.get("TMUX")) and variables.get("TERM", "").startswith("tmux")
    return bool(variables.get("STY")) and not inner_tmux
