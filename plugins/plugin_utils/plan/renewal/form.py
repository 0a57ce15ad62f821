# SPDX-License-Identifier: Apache-2.0
"""Whether data has the form of matrix.schema.json, without the library for it, which a controller does not have.

It knows the words of JSON Schema (draft 2020-12) that the schema uses; a test compares its answers with the library's.
"""

from __future__ import annotations

import re
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def first_problem(data: Any, schema: dict[str, Any], whole: dict[str, Any], place: str = "") -> str:
    """Where data does not have the form of `schema`, a part of the schema `whole`; "" if it has."""
    for check in (_by_value, _of_text, _of_list, _of_object, _combined):
        problem = check(data, schema, whole, place)
        if problem:
            return problem
    return ""


def _by_value(data: Any, schema: dict[str, Any], whole: dict[str, Any], place: str) -> str:
    if "$ref" in schema:
        problem = first_problem(data, _target(schema, whole), whole, place)
        if problem:
            return problem
    kind = schema.get("type")
    # In Python, True is a whole number.
    if kind and (not isinstance(data, TYPES[kind]) or (isinstance(data, bool) and kind != "boolean")):
        return f"{place}: {data!r} is no {kind}"
    if "const" in schema and data != schema["const"]:
        return f"{place}: {data!r} is not {schema['const']!r}"
    if "enum" in schema and data not in schema["enum"]:
        return f"{place}: {data!r} is none of {schema['enum']}"
    if "maximum" in schema and isinstance(data, int | float) and data > schema["maximum"]:
        return f"{place}: {data} is more than {schema['maximum']}"
    if "minimum" in schema and isinstance(data, int | float) and data < schema["minimum"]:
        return f"{place}: {data} is less than {schema['minimum']}"
    return ""


def _of_text(data: Any, schema: dict[str, Any], _whole: dict[str, Any], place: str) -> str:
    if not isinstance(data, str):
        return ""
    if len(data) < schema.get("minLength", 0) or not re.search(schema.get("pattern", ""), data):
        return f"{place}: {data!r} is not written as it should be"
    return ""


def _of_list(data: Any, schema: dict[str, Any], whole: dict[str, Any], place: str) -> str:
    if not isinstance(data, list):
        return ""
    if len(data) < schema.get("minItems", 0):
        return f"{place}: it has {len(data)} entries"
    if schema.get("uniqueItems") and any(one in data[:number] for number, one in enumerate(data)):
        return f"{place}: an entry is there twice"
    found = (
        first_problem(one, schema.get("items", {}), whole, f"{place}[{number}]") for number, one in enumerate(data)
    )
    return next(filter(None, found), "")


def _of_object(data: Any, schema: dict[str, Any], whole: dict[str, Any], place: str) -> str:
    if not isinstance(data, dict):
        return ""
    missing = [name for name in schema.get("required", []) if name not in data]
    if missing:
        return f"{place}: {missing[0]} is missing"
    if len(data) < schema.get("minProperties", 0):
        return f"{place}: it is empty"
    for name, value in data.items():
        if not isinstance(name, str):
            return f"{place}: the name {name!r} is no text"
        if "propertyNames" in schema:
            problem = first_problem(name, schema["propertyNames"], whole, f"{place}: name")
            if problem:
                return problem
        rules = _rules_for(name, schema)
        rest = schema.get("additionalProperties", True)
        if not rules and rest is False or not _evaluated(name, schema, whole):
            return f"{place}: {name} is not known"
        for rule in rules or ([rest] if isinstance(rest, dict) else []):
            problem = first_problem(value, rule, whole, f"{place}.{name}" if place else name)
            if problem:
                return problem
    return ""


def _rules_for(name: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = [schema["properties"][name]] if name in schema.get("properties", {}) else []
    return found + [rule for pattern, rule in schema.get("patternProperties", {}).items() if re.search(pattern, name)]


def _evaluated(name: str, schema: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a property is known here or in what the schema refers to, where no others are allowed."""
    return bool(schema.get("unevaluatedProperties", True)) or _knows(name, schema, whole)


def _knows(name: str, schema: dict[str, Any], whole: dict[str, Any]) -> bool:
    if _rules_for(name, schema):
        return True
    parts = [*schema.get("allOf", []), *schema.get("anyOf", [])] + (
        [_target(schema, whole)] if "$ref" in schema else []
    )
    return any(_knows(name, part, whole) for part in parts)


def _combined(data: Any, schema: dict[str, Any], whole: dict[str, Any], place: str) -> str:
    for part in schema.get("allOf", []):
        problem = first_problem(data, part, whole, place)
        if problem:
            return problem
    ways = schema.get("anyOf", [])
    if ways and all(first_problem(data, way, whole, place) for way in ways):
        return first_problem(data, ways[0], whole, place)
    if "not" in schema and not first_problem(data, schema["not"], whole, place):
        return f"{place}: it has what it may not have"
    if "if" in schema:
        branch = "else" if first_problem(data, schema["if"], whole, place) else "then"
        return first_problem(data, schema.get(branch, {}), whole, place)
    return ""


def _target(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    target: Any = whole
    for part in schema["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return dict(target)
