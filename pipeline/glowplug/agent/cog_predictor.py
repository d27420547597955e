"""Runs a Cog predictor in this process, as Cog's own server would run it.

A stand-alone file for the model's environment: Python 3.9, the standard library, ``cog`` inside functions.
It serves both lines of Cog: up to 0.16 a Python server, where ``Input()`` makes pydantic's ``FieldInfo``, and
since then coglet, a Rust server, where it makes Cog's own. Neither has a public way to turn a JSON input into
the arguments of ``run()``; ``bind`` does it. As torch.compile tells ``3`` from ``3.0``, it passes on what the
servers do: a default as it is written, and under coglet an integer for a ``float`` as an integer.
"""

import asyncio
import contextlib
import difflib
import enum
import functools
import inspect
import io
import os
import re
import types
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Optional, Union, get_args, get_origin, get_type_hints

_UNIONS = (Union, getattr(types, "UnionType", Union))
_MISSING = inspect.Parameter.empty


class InputError(ValueError):
    """An input that the predictor would refuse, or a predictor that is not there: one sentence."""


class _Field(NamedTuple):
    """One input; ``default`` may be ``_MISSING``, ``info`` is what ``Input()`` recorded, or None."""

    name: str
    annotation: Any
    default: Any
    info: Any


def load(ref: str, folder: str) -> Any:
    """The predictor (instance or function) that ``ref`` names inside ``folder``: ``predict.py:Predictor``.

    As in Cog's worker, ``folder`` must be the current directory, ``''`` must lead ``sys.path``, and no module may
    hold ``torch`` yet: torch's cache keys name the first one that does (pickle, of ``torch.contiguous_format``).
    Raises InputError if there is no such file, and what its module raises.
    """
    from cog.predictor import load_predictor_from_ref

    file, colon, name = ref.partition(":")
    path = os.path.join(os.path.abspath(folder), file)
    if not os.path.isfile(path):
        raise InputError(f"The predictor {ref!r} is not there: {path} does not exist.")
    return load_predictor_from_ref(path + colon + name)


def setup(predictor: Any, weights: Optional[str] = None) -> None:
    """Run ``setup()``, sync or async; it gets the weights if it has a parameter of that name.

    ``weights`` is a path or URL that stands in for ``COG_WEIGHTS``; None leaves that variable as it is.
    """
    from cog.predictor import extract_setup_weights, has_setup_weights

    if weights is not None:
        os.environ["COG_WEIGHTS"] = weights
    if not hasattr(predictor, "setup"):
        return
    arguments = {"weights": extract_setup_weights(predictor)} if has_setup_weights(predictor) else {}
    _finished(predictor.setup(**arguments))


def bind(predictor: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments for ``call`` that a request with ``inputs`` (JSON values) would lead to.

    Fills defaults, converts by annotation and checks the limits declared with ``Input()``. A file is a path
    relative to the current directory, a ``data:`` URI, or a URL that Cog downloads.

    Raises InputError for an unknown, missing or unfit input. No message holds the value of a secret.
    """
    fields, takes_any = _fields(_entry(predictor))
    others = {name: value for name, value in inputs.items() if name not in fields}
    if others and not takes_any:
        name = next(iter(others))
        close = difflib.get_close_matches(name, fields, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(
            f"No input is called {name!r}; {guess}the inputs are: {', '.join(fields) or 'none'}."
        )
    return {**{field.name: _value(field, inputs) for field in fields.values()}, **others}


def call(predictor: Any, kwargs: dict[str, Any]) -> Any:
    """The output of one prediction; what a generator yields (sync or async) comes as a list, not joined."""
    with _metrics_scope():
        result = _finished(_entry(predictor)(**kwargs))
        if inspect.isasyncgen(result):
            return _finished(_collected(result))
        if isinstance(result, Iterator) and not isinstance(result, io.IOBase):
            return list(result)
        return result


def _metrics_scope() -> contextlib.AbstractContextManager:
    """What ``current_scope().record_metric()`` needs around a prediction up to 0.16; coglet needs nothing."""
    try:
        from cog.server.scope import Scope, scope
    except ImportError:
        return contextlib.nullcontext()
    return scope(Scope(record_metric=lambda *_metric: None))


def _entry(predictor: Any) -> Callable[..., Any]:
    """The user's own ``predict()`` or ``run()`` (Cog's base classes bridge them), or the function itself."""
    if inspect.isfunction(predictor):
        return predictor
    # predict goes first: up to 0.16 a run beside it is any method, later versions refuse a class with both.
    for name in ("predict", "run"):
        for owner in type(predictor).__mro__:
            if name in vars(owner) and not owner.__module__.startswith("cog."):
                return getattr(predictor, name)
    raise InputError(f"{type(predictor).__name__} has neither run() nor predict().")


@functools.lru_cache(maxsize=None)
def _loop() -> asyncio.AbstractEventLoop:
    """One loop for setup and all predictions, as in Cog's worker: what setup() makes may be bound to it."""
    return asyncio.new_event_loop()


def _finished(value: Any) -> Any:
    return _loop().run_until_complete(value) if inspect.isawaitable(value) else value


async def _collected(generator: AsyncGenerator) -> list[Any]:
    return [item async for item in generator]


def _fields(function: Callable[..., Any]) -> tuple[dict[str, _Field], bool]:
    """The inputs by name, in order, and whether ``**kwargs`` takes any other."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # names for type checkers only, or syntax newer than this Python
        hints = {}
    parameters = inspect.signature(function).parameters.values()
    named = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    fields = {each.name: _field(each, hints.get(each.name, each.annotation)) for each in named}
    return fields, len(named) < len(parameters)


def _field(parameter: inspect.Parameter, annotation: Any) -> _Field:
    info = parameter.default
    if type(info).__name__ != "FieldInfo":
        return _Field(parameter.name, annotation, parameter.default, None)
    # How a record says "no default": pydantic has marks, Cog has None, which only optional inputs take.
    marks = ("PydanticUndefinedType", "UndefinedType", "ellipsis") if _is_pydantic(info) else ("NoneType",)
    default = _MISSING if type(info.default).__name__ in marks else info.default
    return _Field(parameter.name, annotation, default, info)


def _is_pydantic(info: Any) -> bool:
    return type(info).__module__.startswith("pydantic")


def _value(field: _Field, inputs: dict[str, Any]) -> Any:
    if field.name in inputs:
        value = _convert(field.name, field.annotation, inputs[field.name])
        for item in value if isinstance(value, list) else [value]:
            _check(field, item)
        return value
    if field.default is not _MISSING:
        return field.default
    if type(None) in _union_members(field.annotation):
        return None
    raise InputError(f"Input {field.name!r} ({_type_name(field.annotation)}) is required.")


def _check(field: _Field, value: Any) -> None:
    """Raises InputError if ``value`` breaks a limit that ``Input()`` declares."""
    name, info = field.name, field.info
    choices = _choices(info)
    if choices and value is not None and value not in choices:
        raise InputError(_not_among(name, value, choices))
    if isinstance(value, (int, float)):
        _check_range(f"Input {name!r} is", value, _limit(info, "ge"), _limit(info, "le"))
    if isinstance(value, str):
        least, most = _limit(info, "min_length"), _limit(info, "max_length")
        _check_range(f"The length of input {name!r} is", len(value), least, most)
        pattern = _limit(info, "regex", "pattern")
        if pattern is not None and not re.search(pattern, value):
            raise InputError(f"Input {name!r} does not match the pattern {pattern!r}.")


def _check_range(subject: str, value: float, least: Any, most: Any) -> None:
    if least is not None and value < least:
        raise InputError(f"{subject} {value!r}, but must be at least {least!r}.")
    if most is not None and value > most:
        raise InputError(f"{subject} {value!r}, but must be at most {most!r}.")


def _limit(info: Any, *names: str) -> Any:
    """A limit from ``Input()``: on Cog's record itself, or on an entry of the metadata of pydantic's."""
    holders = [info, *(getattr(info, "metadata", None) or ())]
    found = [getattr(holder, name, None) for holder in holders for name in names]
    return next((limit for limit in found if limit is not None), None)


def _choices(info: Any) -> list[Any]:
    extra = getattr(info, "json_schema_extra", None) or getattr(info, "extra", None) or {}
    choices = getattr(info, "choices", None) or extra.get("enum") or []
    return [choice.value if isinstance(choice, enum.Enum) else choice for choice in choices]


def _not_among(name: str, value: Any, choices: Iterable[Any]) -> str:
    return f"Input {name!r} is {value!r}, but must be one of: {', '.join(map(repr, choices))}."


def _type_name(annotation: Any) -> str:
    is_plain = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if is_plain else str(annotation).replace("typing.", "")


def _unfit(name: str, annotation: Any, value: Any) -> InputError:
    return InputError(f"Input {name!r} must be {_type_name(annotation)}, but is {type(value).__name__}.")


def _union_members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in _UNIONS else ()


def _convert(name: str, annotation: Any, value: Any) -> Any:
    """``value`` as the annotation asks for it; what neither line of Cog converts passes through."""
    members = _union_members(annotation)
    if members:
        return _convert_union(name, members, value)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal and value not in arguments:
        raise InputError(_not_among(name, value, arguments))
    if list in (origin, annotation):
        if not isinstance(value, list):
            raise _unfit(name, annotation, value)
        return [_convert(name, arguments[0], item) for item in value] if arguments else value
    is_class = isinstance(annotation, type) and origin is None
    return _convert_class(name, annotation, value) if is_class else value


def _convert_union(name: str, members: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in members:
        return None
    members = tuple(member for member in members if member is not type(None))
    if len(members) == 1:
        return _convert(name, members[0], value)
    # The member of the value's own type first, so that 3 stays an int in float | int.
    for member in sorted(members, key=lambda each: type(value) is not (get_origin(each) or each)):
        try:
            return _convert(name, member, value)
        except InputError:
            continue
    raise _unfit(name, " or ".join(map(_type_name, members)), value)


def _convert_class(name: str, wanted: type, value: Any) -> Any:
    import cog

    if wanted in (int, float, bool, str):
        return _convert_scalar(name, wanted, value)
    is_file = issubclass(wanted, (os.PathLike, io.IOBase))
    if not is_file and not issubclass(wanted, cog.Secret):
        return value
    if not isinstance(value, str):
        raise _unfit(name, wanted, value)
    return _open(name, wanted, value) if is_file else wanted(value)


def _convert_scalar(name: str, wanted: type, value: Any) -> Any:
    import cog

    if wanted is float and type(value) is int:
        return float(value) if _is_pydantic(cog.Input()) else value
    if wanted is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is wanted:
        return value
    raise _unfit(name, wanted, value)


def _open(name: str, wanted: type, value: str) -> Any:
    """A ``cog.Path`` to a local file, downloaded if need be, or an open binary file for a ``cog.File``."""
    import cog

    is_path = issubclass(wanted, os.PathLike)
    if value.partition(":")[0] in ("data", "http", "https"):
        try:
            return cog.Path.validate(value).convert() if is_path else cog.File.validate(value)
        except (OSError, ValueError) as error:  # requests' errors are OSErrors
            raise InputError(f"Input {name!r} cannot be fetched: {error}.") from error
    path = cog.Path(os.path.abspath(value))
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise InputError(f"Input {name!r} names {str(path)!r}, which is not a readable file.")
    return path if is_path else path.open("rb")
