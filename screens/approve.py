"""Letting a block pass: by name and with a reason, both of which are recorded (SPEC A)."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.plan import Approval, Check
from screens.form import FormScreen
from screens.ports import Cockpit
from widgets.line import DIM, STRONG, text
from widgets.paint_form import Field

BY: Final = "by"
REASON: Final = "reason"


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
            Field(BY, "approved by", "who answers for this, by name", True, value=operator),
            Field(REASON, "reason", "why it may pass: goes into logbook and issue", True),
        )
        super().__init__(cockpit, f"approve {check.id}", fields, intro, verb="approves")

    def approval(self, given: dict[str, str]) -> Approval:
        """Return the approval that the values make."""
        return Approval(check=self._check.id, by=given[BY], reason=given[REASON])
