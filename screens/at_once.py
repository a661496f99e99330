"""Keys in their order: what a binding does happens before the next character is taken.

Textual lets a bound key wander up to the app before it acts, while characters are inserted on
the way. In a burst (a slow line, a busy machine) ``ctrl+u d`` would insert, then delete all.
"""

from __future__ import annotations

from textual import events
from textual.dom import DOMNode
from textual.widgets import Input, TextArea


async def acted(node: DOMNode, event: events.Key) -> bool:
    """Do what a key is bound to, now; return whether it was bound.

    Where text is typed (``node`` takes it) a character is a character, never a command.
    """
    typed = event.is_printable and isinstance(node, Input | TextArea)
    if typed or not await node.app._check_bindings(event.key):
        return False
    event.stop()
    event.prevent_default()
    return True
