"""The run file's keys as Markdown, out of its JSON Schema: docs/run-file.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_HEAD: Final = "| key | value | default | meaning |\n|---|---|---|---|"
_SKIPPED: Final = frozenset(("keys",))
"""Tables whose keys are told elsewhere: ``[keys]`` beside the table of keys."""


def settings(schema: Mapping[str, Any]) -> str:
    """Return a table for each table of the run file, every key with type, default, meaning."""
    return "\n\n".join(_tables(schema["properties"], ""))


def _tables(properties: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, shape in properties.items():
        if name in _SKIPPED:
            continue
        whole = shape.get("items", shape)
        title = f"[[{above}{name}]]" if "items" in shape else f"[{above}{name}]"
        inside = whole.get("properties", whole.get("additionalProperties"))
        if isinstance(inside, Mapping) and "properties" in inside:
            title, inside = f"[{above}{name}.NAME]", inside["properties"]
        if isinstance(inside, Mapping) and inside and not _inline(shape):
            yield f"### `{title}`\n\n{shape.get('description', '')}"
            yield from _rows(inside, whole.get("required", ()))
            nested = {k: v for k, v in inside.items() if _is_table(v)}
            yield from _tables(nested, f"{above}{name}.")


def _rows(properties: Mapping[str, Any], required: object) -> Iterator[str]:
    rows = [
        f"| `{name}` | {_kind(shape)} | {_default(shape, name, required)} | {_cell(shape)} |"
        for name, shape in properties.items()
        if not _is_table(shape)
    ]
    if rows:
        yield "\n".join((_HEAD, *rows))


def _is_table(shape: Mapping[str, Any]) -> bool:
    return bool(shape.get("items", shape).get("properties")) and not _inline(shape)


def _inline(shape: Mapping[str, Any]) -> bool:
    """Return whether a table is written in one line: its description shows the braces."""
    return "{" in str(shape.get("description", "")) and shape.get("type") == "object"


def _kind(shape: Mapping[str, Any]) -> str:
    if "enum" in shape:
        return ", ".join(f"`{each}`" for each in shape["enum"])
    if any("ms|" in each.get("pattern", "") for each in shape.get("anyOf", ())):
        return "duration"
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_kind(each) for each in shape["anyOf"]))
    if shape.get("type") == "array":
        return f"list of {_kind(shape.get('items', {}))}"
    return {"object": "table", "string": "text", "boolean": "true, false"}.get(
        str(shape.get("type", "any")), str(shape.get("type", "any"))
    )


def _default(shape: Mapping[str, Any], name: str, required: object) -> str:
    if isinstance(required, list | tuple) and name in required:
        return "*required*"
    default = shape.get("default")
    return "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"


def _cell(shape: Mapping[str, Any]) -> str:
    text = str(shape.get("description", ""))
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").rstrip(".")
