"""Take the meaning out of characters that a chat service would read as markup or as a call.

A log line that says ``@everyone`` or ``<!channel>`` must not ring a hundred telephones.
"""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\*_~`|>#\[\]<])")
_CALL = re.compile(r"@(?=\w|&|!)")
_APART = "@\N{ZERO WIDTH SPACE}"


def neutral_for_discord(text: str) -> str:
    """Return ``text`` so that Discord shows it as written: no Markdown, no mention."""
    return _CALL.sub(_APART, _MARKUP.sub(r"\\\1", text))
