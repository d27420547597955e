"""Loads a Python callable and calls it, whatever kind of callable it is.

A stand-alone file for the model's environment: Python 3.9, the standard library.
"""

import asyncio
import importlib
import inspect


class PythonCallable:
    """``module:callable``; a mapping gives keyword arguments, a list positional ones, anything else is one argument."""

    def __init__(self, target):
        module_name, _, attributes = target.partition(":")
        function = importlib.import_module(module_name)
        for name in attributes.split("."):
            function = getattr(function, name)
        if not callable(function):
            raise TypeError("%s is a %s, not a callable" % (target, type(function).__name__))
        self._function = function

    def call(self, value):
        """Call it once and collect what it gives."""
        if isinstance(value, dict):
            return _collect(self._function(**value))
        arguments = value if isinstance(value, list) else [] if value is None else [value]
        return _collect(self._function(*arguments))


def _collect(value):
    """Drive a coroutine or a generator to its end."""
    if inspect.isawaitable(value):
        return asyncio.run(_await(value))
    if inspect.isasyncgen(value):
        return asyncio.run(_drain(value))
    return list(value) if inspect.isgenerator(value) else value


async def _await(value):
    return await value


async def _drain(generator):
    return [item async for item in generator]
