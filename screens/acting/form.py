"""Forms over the screen: what an action needs to know, and who lets a block pass (SPEC A)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from cockpit.model.plan import Approval, Check
from screens.base import acted
from screens.dialog import Dialog, DialogBox, TextLine
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import paint_key
from widgets.painting.line import DIM, STRONG, text, that_fit
from widgets.painting.plan import FIELD_LABEL, FormField, FormState, paint_form, place_of, rows_of
from widgets.scrolled import Paged, Sheet

BY: Final = "by"
REASON: Final = "reason"


class FormScreen(Dialog[dict[str, str] | None]):
    """Returns the values by name (empty ones left out), or ``None``."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("form")
    SCOPE: ClassVar[str] = "form"
    """Whose keys stand at the foot beside those of every form."""
    LEAVE: ClassVar[str] = "cancel"

    def __init__(
        self,
        cockpit: Cockpit,
        heading: str,
        fields: Sequence[FormField],
        intro: Sequence[Content] = (),
        verb: str = "shows the plan",
    ) -> None:
        super().__init__()
        self.cockpit = cockpit
        self._heading = heading
        self.fields = tuple(fields)
        self.values = {
            each.name: each.value or (each.choices[0].value if each.choices else "")
            for each in fields
        }
        self._intro = tuple(intro)
        self._verb = verb
        self._at = next(
            (n for n, each in enumerate(self.fields) if each.choices or not each.value), 0
        )
        self.notice = ""

    def compose(self) -> ComposeResult:
        """Lay out the page and a line for each value that is typed."""
        with DialogBox():
            yield Paged()
            for field in self.fields:
                if not field.choices:
                    yield TextLine(field.value, name=field.name)

    def on_mount(self) -> None:
        """Begin with the first field that is not known."""
        self.lay_out()
        self._focus()
        self.call_after_refresh(self.shown_now)

    @property
    def state(self) -> FormState:
        """The form as it stands."""
        return FormState(self._intro, self.fields, dict(self.values), self._at, self.notice)

    def _text_line(self, field: FormField) -> TextLine | None:
        return next((line for line in self.query(TextLine) if line.name == field.name), None)

    def _focus(self) -> None:
        self.set_focus(self._text_line(self.fields[self._at]), scroll_visible=False)

    def lay_out(self) -> None:
        """Show the form as it stands."""
        if not self.is_mounted or not self.query(Paged):
            return
        state = self.state
        heading = text((self._heading, STRONG))
        self.show_sheet(Sheet(partial(paint_form, state), heading, foot=self._foot()), 5)
        width = self.inner
        for field, place in zip(self.fields, rows_of(state, width - 4), strict=True):
            line = self._text_line(field)
            if line is not None:
                line.place(2 + FIELD_LABEL, 1 + place, width - FIELD_LABEL - 4)

    def _foot(self) -> list[Content]:
        field = self.fields[self._at]
        need = " (required)" if field.required else "" if field.choices else " (optional)"
        said = (
            text((self.notice, "$attention")) if self.notice else text((f"{field.help}{need}", DIM))
        )
        picks = [("↑↓", "pick")] if field.choices else []
        own = self.cockpit.keys.footer(self.SCOPE)
        keys = [("enter", self._verb), ("esc", self.LEAVE), *own, ("tab", "next"), *picks]
        return [said, that_fit(map(paint_key, keys), self.inner - 4, "   ")]

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if event.input.name is not None:
            self.values[event.input.name] = event.value
            self.notice = ""
            self.lay_out()

    def typed(self) -> dict[str, str]:
        """Return what stands in the fields, also where their events have not arrived yet."""
        return self.values | {line.name: line.value for line in self.query(TextLine) if line.name}

    async def on_key(self, event: events.Key) -> None:
        """Take keys in their order: what comes behind a tab in one burst belongs to its line."""
        line = self.focused
        if isinstance(line, TextLine) and event.is_printable and event.character is not None:
            event.stop()
            event.prevent_default()
            line.insert_text_at_cursor(event.character)
        else:
            await acted(self, event)

    @on(Input.Submitted)
    def _entered(self) -> None:
        """Enter in a line goes on, as everywhere in the form."""
        self.action_form_accept()

    def action_form_accept(self) -> None:
        """Return the values, or go to the first one that is missing."""
        self.values = self.typed()
        missing = [
            place for place, field in enumerate(self.fields)
            if field.required and not self.values[field.name].strip()
        ]  # fmt: skip
        if missing:
            self.go_to(missing[0], f"{self.fields[missing[0]].label} is required")
            return
        given = {name: value.strip() for name, value in self.values.items() if value.strip()}
        self.dismiss(given)

    def action_form_leave(self) -> None:
        """Leave, nothing done."""
        self.values = self.typed()
        self.dismiss(None)

    def action_step(self, steps: int) -> None:
        """Go to another field."""
        self.go_to((self._at + steps) % len(self.fields))

    def go_to(self, place: int, notice: str = "") -> None:
        """Go to a field, and say something below the form."""
        self._at, self.notice = place, notice
        self._focus()
        self.lay_out()

    def action_pick(self, steps: int) -> None:
        """Pick another choice of a list; else go to another field."""
        if not self.pick(steps):
            self.action_step(steps)

    def pick(self, steps: int) -> bool:
        """Pick another choice of the focused list; return whether there was one."""
        field = self.fields[self._at]
        place = place_of(field, self.values) + steps
        if not field.choices or not 0 <= place < len(field.choices):
            return False
        self.values[field.name] = field.choices[place].value
        self.lay_out()
        return True


class ApproveScreen(FormScreen):
    """Asks who lets one check pass and why; ``approval`` makes one of the answer."""

    def __init__(self, cockpit: Cockpit, check: Check, operator: str, left: int = 0) -> None:
        self._check = check
        more = f" · {left} more after this one" if left else ""
        intro: list[Content] = [
            text(("■ ", "bold $critical"), (check.text, STRONG)),
            text((f"[{check.basis.value}]{more}", DIM)),
        ]
        fields = (
            FormField(BY, "approved by", "approved by (name)", True, value=operator),
            FormField(REASON, "reason", "reason (goes into the logbook and the issue)", True),
        )
        super().__init__(cockpit, "approve this check", fields, intro, verb="approves")

    def approval(self, given: dict[str, str]) -> Approval:
        """Return the approval that the values make."""
        return Approval(check=self._check.id, by=given[BY], reason=given[REASON])
