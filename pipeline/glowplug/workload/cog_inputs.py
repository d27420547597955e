"""The inputs of a Cog predictor, as its OpenAPI schema describes them, and values for those that nobody gives."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glowplug.errors import SpecError

_SCHEMAS = "#/components/schemas/"
_MAX_REFS = 8
# For an input that has no default, and of which the spec says nothing.
_EXAMPLE_TEXT = "a photo of a cat"
_EXAMPLES: Mapping[str, Any] = {"string": _EXAMPLE_TEXT, "boolean": False, "object": {}}


@dataclass(frozen=True)
class CogInput:
    """One input of a predictor.

    Attributes:
        name: as the predictor calls it.
        type: ``string``, ``integer``, ``number``, ``boolean``, ``array``, ``file``, or ``""`` for anything.
        default: what the predictor takes when it is left out, if it may be.
        required: whether it has to be given.
        choices: the only values it may have; empty for any.
        minimum, maximum: limits of a number.
        example: a value that the predictor takes; ``None`` when none can be made up, as for a file.
    """

    name: str
    type: str = ""
    default: Any = None
    required: bool = False
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    example: Any = None


def complete_inputs(given: Sequence[Any], inputs: Sequence[CogInput]) -> tuple[Any, ...]:
    """Return the spec's inputs with an example for each value that the predictor needs and the spec leaves out.

    What has a default is left to the predictor, which may make something else of it than JSON can say.

    Raises:
        SpecError: one line for each input that does not exist, or of which no example can be made up.
    """
    problems: list[str] = []
    completed = []
    for number, values in enumerate(given):
        place = f"run.inputs[{number}]"
        if not isinstance(values, Mapping):
            problems.append(f"{place}: must map the predictor's inputs to values")
            continue
        problems += [f"{place}.{problem}" for problem in _problems(values, inputs)]
        examples = {i.name: i.example for i in inputs if i.required and i.name not in values}
        completed.append({**values, **examples})
    if problems:
        raise SpecError("\n".join(problems), hint="the image's labels say which inputs its predictor takes")
    return tuple(completed)


def _problems(values: Mapping[str, Any], inputs: Sequence[CogInput]) -> list[str]:
    names = [one.name for one in inputs]
    problems = [_unknown(str(name), names) for name in values if name not in names]
    for one in inputs:
        if one.name in values:
            if one.choices and values[one.name] not in one.choices:
                problems.append(f"{one.name}: must be one of {', '.join(map(repr, one.choices))}")
        elif one.required and one.example is None:
            problems.append(f"{one.name}: is missing, and no {one.type or 'value'} can be made up; give one")
    return problems


def _unknown(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"{name}: no such input; " + (
        f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}"
    )


def read_inputs(schema: Mapping[str, Any]) -> tuple[CogInput, ...]:
    """Read the predictor's inputs from its OpenAPI schema; what it says in another way than Cog does reads as absent."""
    schemas = _at(schema, "components", "schemas")
    described = _at(schemas, "Input")
    properties = _at(described, "properties")
    required = described.get("required")
    needed = required if isinstance(required, list) else []
    found = [
        (_order(value, number), _input(name, _resolved(value, schemas), needed=name in needed))
        for number, (name, value) in enumerate(properties.items())
    ]
    return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))


def _input(name: str, said: Mapping[str, Any], *, needed: bool) -> CogInput:
    kind = _text(said.get("type"))
    if kind == "string" and said.get("format") == "uri":
        kind = "file"
    choices = said.get("enum")
    default = said.get("default")
    one = CogInput(
        name=name,
        type=kind,
        default=default,
        required=needed and default is None,
        choices=tuple(choices) if isinstance(choices, list) else (),
        minimum=_number(said.get("minimum")),
        maximum=_number(said.get("maximum")),
    )
    return replace(one, example=_example(one, said))


def _example(one: CogInput, said: Mapping[str, Any]) -> Any:
    examples = said.get("examples")
    for stated in (one.default, said.get("example"), *(examples if isinstance(examples, list) else [])):
        if stated is not None:
            return stated
    if one.choices:
        return one.choices[0]
    if one.type in ("integer", "number"):
        within = 1 if one.minimum is None else max(one.minimum, 1)
        value = within if one.maximum is None else min(within, one.maximum)
        return int(value) if one.type == "integer" or value == int(value) else value
    if one.type == "array":
        return _example_list(said)
    return _EXAMPLES.get(one.type)


def _example_list(said: Mapping[str, Any]) -> list[Any] | None:
    items = _at(said, "items")
    kind = _text(items.get("type"))
    if kind not in ("string", "integer", "number", "boolean") or items.get("format") == "uri":
        return None
    return [_example(CogInput("", kind, minimum=_number(items.get("minimum"))), items)]


def _resolved(value: Any, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow ``$ref``, ``allOf`` and the one schema of an ``anyOf`` that is not null; the outer one has the last word.

    Pydantic writes an enumeration as ``{"allOf": [{"$ref": "#/components/schemas/style"}], "default": ...}``, and an
    optional value as ``{"anyOf": [{"type": "integer"}, {"type": "null"}]}``.
    """
    said = dict(value) if isinstance(value, Mapping) else {}
    for _ in range(_MAX_REFS):
        ref = said.pop("$ref", None)
        inner: Any = _at(schemas, ref.removeprefix(_SCHEMAS)) if isinstance(ref, str) else None
        for key in ("allOf", "anyOf", "oneOf"):
            parts = said.pop(key, None)
            if inner is None and isinstance(parts, list):
                inner = next((p for p in parts if isinstance(p, Mapping) and p.get("type") != "null"), None)
        if inner is None:
            break
        said = {**inner, **said}
    return said


def _at(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return the object under keys, an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _order(value: Any, number: int) -> tuple[float, int]:
    order = _number(value.get("x-order")) if isinstance(value, Mapping) else None
    return (float(number) if order is None else order, number)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
