"""Checks requests and answers against GitHub's own description of its interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from jsonschema import Draft202012Validator

FILE = Path(__file__).parents[1] / "data" / "github" / "issues.openapi.json"
UNDESCRIBED = {401, 403, 429, 500, 502, 503}
"""Answers that any operation may give, and that the description leaves out."""


class Operation(NamedTuple):
    """One described operation, and the parts of the path it was asked with."""

    place: str
    described: dict[str, Any]
    given: dict[str, str]


class Description:
    """The description, with OpenAPI's ``nullable`` turned into what a validator understands.

    Left as it is, ``nullable`` beside ``oneOf`` makes some validators give up on a whole body
    in silence.
    """

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self.document = document or json.loads(FILE.read_text(encoding="utf-8"))
        self.schemas = {**_with_null(self.document)}
        self._patterns = {path: _pattern(path) for path in self.document["paths"]}

    def example(self, name: str) -> dict[str, Any]:
        value = self.document["components"]["examples"][name]["value"]
        copied: dict[str, Any] = json.loads(json.dumps(value))
        return copied

    def operation(self, method: str, path: str) -> Operation | None:
        for template, pattern in self._patterns.items():
            found = pattern.fullmatch(path)
            described = self.document["paths"][template].get(method.lower())
            if found and described:
                place = f"#/paths/{_escaped(template)}/{method.lower()}"
                given = {name: unquote(value) for name, value in found.groupdict().items()}
                return Operation(place, described, given)
        return None

    def request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> Iterator[str]:
        """Yield what is wrong with a request."""
        operation = self.operation(method, path)
        if operation is None:
            yield f"{method} {path} is not described"
            return
        yield from self._parameters(operation, query)
        if "requestBody" in operation.described:
            place = f"{operation.place}/requestBody/content/application~1json/schema"
            yield from self._body(place, body)
        elif body:
            yield f"{method} {path} takes no body"

    def answer(self, method: str, path: str, status: int, document: Any) -> Iterator[str]:
        """Yield what is wrong with an answer."""
        operation = self.operation(method, path)
        if operation is None or status in UNDESCRIBED:
            return
        described = self._at(operation.described["responses"].get(str(status)))
        if described is None:
            yield f"{method} {path}: status {status} is not described"
        elif "content" in described:
            schema = described["content"]["application/json"]["schema"]
            yield from self._errors(_with_null(schema), document)
        elif document is not None:
            yield f"{method} {path}: status {status} has no body"

    def _parameters(self, operation: Operation, query: Mapping[str, str]) -> Iterator[str]:
        known = {}
        for parameter in map(self._at, operation.described.get("parameters", ())):
            assert parameter is not None
            known[parameter["name"]] = parameter
        for name, value in {**operation.given, **query}.items():
            if name not in known:
                yield f"there is no parameter {name}"
                continue
            schema = known[name]["schema"]
            yield from self._errors(_with_null(schema), _typed(value, schema))

    def _body(self, place: str, body: bytes) -> Iterator[str]:
        try:
            document = json.loads(body)
        except ValueError:
            yield "the body is not JSON"
            return
        yield from self._errors({"$ref": place}, document)
        known = self._resolved(place)["properties"]
        if isinstance(document, dict):
            yield from (f"there is no field {name}" for name in document if name not in known)

    def _errors(self, schema: dict[str, Any], document: Any) -> Iterator[str]:
        validator = Draft202012Validator({**self.schemas, "allOf": [schema]})
        for error in validator.iter_errors(document):
            yield f"{error.json_path}: {error.message[:200]}"

    def _at(self, part: dict[str, Any] | None) -> dict[str, Any] | None:
        return self._resolved(part["$ref"]) if part and "$ref" in part else part

    def _resolved(self, place: str) -> dict[str, Any]:
        part: dict[str, Any] = self.document
        for name in place.removeprefix("#/").split("/"):
            part = part[unquote(name).replace("~1", "/").replace("~0", "~")]
        return part


def _with_null(schema: Any) -> Any:
    """Turn ``nullable`` into a choice with null, wherever it stands."""
    if isinstance(schema, list):
        return [_with_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _with_null(value) for name, value in schema.items() if name != "nullable"}
    if schema.get("nullable") is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _typed(value: str, schema: dict[str, Any]) -> Any:
    if schema.get("type") == "integer" and re.fullmatch(r"-?\d+", value):
        return int(value)
    return value


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\?\{(\w+)\\?\}", r"(?P<\1>[^/]+)", template))


def _escaped(template: str) -> str:
    return quote(template.replace("~", "~0").replace("/", "~1"), safe="~")
