"""Starts glowplug's probe in this process, then hands over to the sitecustomize that would have been imported."""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(_HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _start_probe():
    _load("_glowplug_commands")
    _load("_glowplug_counters")
    _load("_glowplug_probe").start()


def _chain():
    # The folder leaves sys.path so that the model sees the path it would have had; children get it from PYTHONPATH.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start_probe()
except Exception as error:  # the model must run with or without us; a silent run is caught by the builder
    sys.stderr.write("glowplug: the probe did not start: %r\n" % (error,))
_chain()
