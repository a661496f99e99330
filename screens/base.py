"""What all screens share: a key line, a call when there is news, nothing that takes the focus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import events
from textual.dom import DOMNode
from textual.geometry import Region
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.worker import Worker, WorkerState

from cockpit.model.report import RunReport
from cockpit.text.safe import Charset
from screens.ports import Cockpit
from widgets.fleet_header import KeyLine

if TYPE_CHECKING:
    from textual.widgets import Input

ResultT = TypeVar("ResultT")
Work = Callable[[], Coroutine[Any, Any, Any]]


async def acted(node: DOMNode, event: events.Key) -> bool:
    """Do what a key is bound to, now; return whether it was bound.

    Textual lets a bound key wander up to the app before it acts, while characters are inserted
    on the way: in a burst ``ctrl+u d`` would insert, then delete all. Where text is typed
    (``node`` takes it) a character is a character, never a command.
    """
    typed = event.is_printable and (edits_line(node) or edits_lines(node))
    if typed or not await node.app._check_bindings(event.key):
        return False
    consume(event)
    return True


def consume(event: events.Event) -> None:
    """Let nobody else hear of an event."""
    event.stop()
    event.prevent_default()


def typed_into(line: Input, event: events.Key) -> bool:
    """Type a letter into a line, now; return whether the key is one."""
    if not event.is_printable or event.character is None:
        return False
    consume(event)
    line.insert_text_at_cursor(event.character)
    return True


def edits_line(node: DOMNode | None) -> bool:
    """Return whether a node is an input, without loading what that is: a first frame has none."""
    return _is_a("Input", node)


def edits_lines(node: DOMNode | None) -> bool:
    """Return whether a node is a text area, without loading what that is: few sessions need it."""
    return _is_a("TextArea", node)


def _is_a(name: str, node: DOMNode | None) -> bool:
    return any(each.__name__ == name for each in type(node).__mro__)


def pressed_at(screen: Screen[Any]) -> float:
    """Return when what is being done was pressed (``Message.time``); now if nothing was."""
    return float(getattr(screen.app, "pressed_at", Message().time))


def spawn(
    node: DOMNode, work: Work, group: str = "default", exclusive: bool = False
) -> Worker[Any]:
    """Begin ``work`` for a screen or the app; what it raises is shown there and ends nothing.

    A coroutine made beforehand would be warned about if the screen closes before it begins.
    """
    begun: Any = work
    worker: Worker[Any] = node.run_worker(
        begun, group=group, exclusive=exclusive, exit_on_error=False
    )
    return worker


class KeyedModal(ModalScreen[ResultT], inherit_bindings=False):
    """What stands over a screen: its keys act here, before the next one is heard."""

    AUTO_FOCUS = ""

    def show(self) -> None:
        """Show the newest reports, where it is about them; called as for any screen."""

    async def on_key(self, event: events.Key) -> None:
        """Take a key that nothing with the focus has taken."""
        if self.focused is None:
            await acted(self, event)


class CockpitScreen(Screen[str | None], inherit_bindings=False):
    """A screen; ``show`` is called when there is news, which it asks the cockpit for."""

    AUTO_FOCUS = ""
    NO_RUN: ClassVar[str] = "no run is selected"
    """What is said to a key that is about a run, where there is none."""
    BRIEF_NEWS: ClassVar[bool] = False
    """Whether its last line says what was left undone: no other place here does."""
    SCOPES: ClassVar[tuple[str, ...]] = ("everywhere",)
    """Which keys work here, for the help and the palette."""
    DEFAULT_CSS = """
    CockpitScreen { layout: vertical; background: $background; color: $ink; }
    CockpitScreen Input, CockpitScreen Input:focus {
        height: 1; border: none; padding: 0 1; background: $background; color: $ink;
    }
    """

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self.cockpit = cockpit
        self._laid_out_for: object = None

    def _compositor_refresh(self) -> None:
        """Render nothing for an app that does not show it yet."""
        held_back: Callable[[Screen[Any]], bool] | None = getattr(self.app, "held_back", None)
        if held_back is None or self is not self.app.screen or not held_back(self):
            super()._compositor_refresh()

    def show(self) -> None:
        """Show the newest reports; called for news and once in a while for the ages."""
        raise NotImplementedError

    def aged(self, now: float) -> bool:
        """Return whether what it shows may read otherwise by now, without any news."""
        return True

    def footer(self) -> list[tuple[str, str]]:
        """Return (key, title) of what matters here."""
        raise NotImplementedError

    @property
    def selected(self) -> str | None:
        """The run that a command without a name is about."""
        return None

    @property
    def runs_in_view(self) -> tuple[str, ...]:
        """The runs that stand on the screen: they are read before others."""
        return () if self.selected is None else (self.selected,)

    def show_keys(self) -> None:
        """Show the footer."""
        self.query_one(KeyLine).show(self.footer(), self.cockpit.notice)

    def on_mount(self) -> None:
        """Show what is known before the first frame."""
        self.show()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        if not self._stands_unseen():
            self.show()

    def _stands_unseen(self) -> bool:
        """Return whether it was shown for this size and nobody can see it yet.

        An app that holds its first frame back shows what is known by then itself.
        """
        former, self._laid_out_for = self._laid_out_for, (self.is_mounted, self.size, self.app.size)
        seen: asyncio.Event | None = getattr(self.app, "shown", None)
        return former == self._laid_out_for and seen is not None and not seen.is_set()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show a fault in work of this screen in one line instead of dying of it."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            self.failed(self.cockpit.report_fault(error))

    def failed(self, said: str) -> None:
        """Tell of a fault; ``said`` is one line."""
        self.cockpit.warn(said)

    async def on_key(self, event: events.Key) -> None:
        """Take keys in their order: what comes behind ``/`` in one burst belongs to its line."""
        line = self.focused
        if line is None:
            await acted(self, event)
            return
        if _is_a("Prompt", line) and not await acted(line, event):
            typed_into(cast("Input", line), event)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the empty ground below the widgets: one line, rendered once."""
        return super().render_lines(crop.crop_size((crop.width, 1))) * crop.height

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Show what came in while another screen was on top.

        The first time nothing is styled again: all was as it was mounted.
        """
        event.refresh_styles = event.refresh_styles and self.stack_updates > 0
        if not self._stands_unseen():
            self.show()


class ActingScreen(CockpitScreen):
    """A screen with a selected run, on which the keys of the guarded actions work."""

    def show_figures(self, enlarged: bool, report: RunReport | None) -> None:
        """Show a run's figures enlarged, for those who look on, or take them away."""
        from widgets.run_header import BigFigures  # few sessions do

        figures = self.query_one(BigFigures)
        figures.display = enlarged
        if enlarged:
            charset = getattr(self.app, "charset", Charset.UNICODE)
            figures.show(report, self.cockpit.now(), plain=charset is not Charset.UNICODE)

    def action_act(self, verb: str) -> None:
        """Begin a guarded action on the selected run."""
        self.cockpit.actions.act(verb)

    def action_about(self, what: str) -> None:
        """Show a page of the selected run, or its journal."""
        self.cockpit.actions.show(what)

    def action_veto(self) -> None:
        """Veto what agents plan or wait to do on the selected run."""
        self.cockpit.actions.veto()
