"""What a tool is: its name, its arguments, what it changes, and what does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError

from cockpit.mcp.desk import Desk
from cockpit.mcp.wire import Document
from cockpit.model.base import Frozen
from cockpit.text.safe import clean

Progress = Callable[[float, str], None]
"""Tells the client how far a call is: a figure that only rises, and one line."""
RUN: Final = "the run's name, as the tool fleet gives it"
CURSOR: Final = "where a former answer said that it goes on; without it the newest"


class ToolError(Exception):
    """Why a tool could not do what was asked, in one line that says what to do."""


class OfRun(Frozen):
    """A tool that is about one run."""

    run: str = Field(max_length=128, description=RUN)


class Paged(OfRun):
    """A tool that answers in pages about one run."""

    cursor: str | None = Field(None, max_length=100, description=CURSOR)


class Tool(NamedTuple):
    """One row of the table of tools. ``gives`` names what its answers always have, and their types.

    ``reads``: it changes nothing. ``destroys``: what it does may not be undone.
    """

    name: str
    about: str
    takes: type[Frozen]
    gives: dict[str, str]
    use: Callable[[Desk, Any, Progress], Awaitable[Document]]
    reads: bool = True
    destroys: bool = False

    def document(self) -> Document:
        """Return the tool as ``tools/list`` tells of it."""
        types = {name: {"type": kind} for name, kind in self.gives.items()}
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": _plain(self.takes.model_json_schema()),
            "outputSchema": {"type": "object", "properties": types, "required": [*self.gives]},
            "annotations": {
                "readOnlyHint": self.reads,
                "destructiveHint": self.destroys,
                "idempotentHint": self.reads,
                "openWorldHint": False,
            },
        }

    def arguments(self, given: object) -> Frozen:
        """Return the arguments; raises ``ToolError`` that says what is wrong with them."""
        try:
            return self.takes.model_validate({} if given is None else given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(clean(part, 60) for part in first["loc"]) or "arguments"
            known = ", ".join(self.takes.model_fields) or "none"
            raise ToolError(
                f"{where}: {clean(first['msg'], 200)}; {self.name} takes: {known}"
            ) from error


def _plain(schema: Document) -> Document:
    """Return a schema of arguments without what only its Python class has to say."""
    found = {key: value for key, value in schema.items() if key not in ("title", "description")}
    found["properties"] = {
        name: {key: value for key, value in shape.items() if key != "title"}
        for name, shape in schema.get("properties", {}).items()
    }
    return found
