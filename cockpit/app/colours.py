"""The theme, and what the last line of a screen shows for a while: replies and warnings.

The theme follows the background of the terminal unless the run file or a person chose one.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from functools import lru_cache
from typing import Any, Final

from textual._styles_cache import StylesCache
from textual.color import Color

from cockpit.app.kept_frame import standing
from cockpit.app.terminal import TerminalApp
from cockpit.app.terminal_input import BackgroundAnswer, dark_by
from themes.loader import AUTO, load_themes


def _forget_closed_widgets() -> None:
    """Keep Textual's cache of background styles from keeping every widget's painted lines.

    ``StylesCache.get_inner_outer`` is an ``lru_cache(1024)`` on a method that uses nothing of its
    instance, so it holds the last 1,024 instances with all that their widgets have painted: some
    27 kB for each key that opens something. Cached for the class, it holds colours alone.
    """
    styles: Any = StylesCache
    compute = getattr(styles.get_inner_outer, "__wrapped__", None)
    if compute is None:
        return  # another Textual, which caches it otherwise

    @lru_cache(1024)
    def inner_outer(base_background: Color, background: Color) -> object:
        return compute(styles, base_background, background)

    styles.get_inner_outer = staticmethod(inner_outer)


_forget_closed_widgets()


class ThemedApp(TerminalApp):
    """An app in one of the themes; without colours where the terminal shall have none."""

    def __init__(self) -> None:
        super().__init__()
        self._follows = False
        self._given = self.theme
        self._begun = False
        """Whether anything is styled yet that another theme would change."""

    @property
    def theme_chosen(self) -> bool:
        """Whether a person has chosen another theme than the run file and the terminal give."""
        return self.theme != self._given

    def set_theme(self, wanted: str) -> str | None:
        """Take the theme of this name; return what is wrong with it, in one line."""
        themes = load_themes()
        for theme in themes.values():
            shown = theme.colourless() if self.no_color else theme
            self.register_theme(shown.textual())
        self._give(wanted if wanted in themes else AUTO.get(wanted, "cockpit-dark"))
        self._follows = wanted in AUTO
        if (dark := dark_by(os.environ)) is not None:
            self._follow(dark)
        if (kept := standing()) is not None:  # as this terminal said it is, the last time
            self._follow(kept.dark)
        self.stylesheet.set_variables(self.get_css_variables())
        self.call_next(self._begin)  # behind what each theme above has asked for
        known = (*AUTO, *themes)
        return None if wanted in known else f"no theme {wanted!r}; known: {', '.join(known)}"

    def _begin(self) -> None:
        self._begun = True

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything anew, but not for the theme that it was begun with."""
        if self._begun:
            super().refresh_css(animate=animate)

    def on_background_answer(self, answer: BackgroundAnswer) -> None:
        """Be dark or light as the terminal is, unless a person has said which."""
        self._follow(answer.dark)

    def _follow(self, dark: bool) -> None:
        now = load_themes()[self.theme]
        if self._follows and now.dark != dark:
            self._give(now.twin)

    def _give(self, name: str) -> None:
        self.theme = self._given = name

    def choose_theme(self, name: str) -> None:
        """Take the theme that a person wants, whatever the terminal says from now on."""
        self._follows = False
        self.theme = name

    def action_theme(self) -> None:
        """Toggle between the dark and the light twin."""
        self.choose_theme(load_themes()[self.theme].twin)


NOTICE: Final = 10.0
WARNING: Final = 60.0
"""Seconds for which a reply, and a warning, stand in the last line."""


class NoticeApp(ThemedApp):
    """An app that says something in its last line: ``said`` the reply, ``warned`` the warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""
        self.warned: list[str] = []

    @abstractmethod
    def repaint_footer(self) -> None:
        """Paint the last line anew."""

    def say(self, words: str) -> None:
        """Show one line in the footer for a while."""

        def unsay() -> None:
            if self.said == words:
                self.said = ""
                self.repaint_footer()

        self.said = words
        self.repaint_footer()
        self.set_timer(NOTICE, unsay)

    def warn(self, words: str) -> None:
        """Show one line for a while, whatever else is said meanwhile."""

        def unsay() -> None:
            if words in self.warned:
                self.warned.remove(words)
                self.repaint_footer()

        self.warned = [*(each for each in self.warned if each != words), words]
        self.repaint_footer()
        self.set_timer(WARNING, unsay)
