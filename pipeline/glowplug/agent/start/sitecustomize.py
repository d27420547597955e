"""Makes torch's cache keys independent of which module imported torch first. Travels with every artifact.

torch's key pickler meets memory formats (``torch.contiguous_format``), objects that do not say which module they belong
to. Pickle then takes the first module in ``sys.modules`` that has an attribute ``torch``: that is the user's own module, and
another one under ``uvicorn app:app`` than under a capture. The key differs, and a complete cache is not found. So
capture and start both write memory formats by name alone. Only keys are pickled that way, never what is stored.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PICKLER_MODULE = "torch._inductor.codecache"


def _name_only(memory_format):
    return str, (str(memory_format),)


def _stabilize(module):
    """Give FxGraphCachePickler, and AOTAutogradCachePickler below it, a way to write memory formats."""
    import torch

    pickler = module.FxGraphCachePickler
    init = pickler.__init__

    def stable_init(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.dispatch_table[torch.memory_format] = _name_only

    pickler.__init__ = stable_init


class _AfterImport:
    """Calls ``_stabilize`` when the pickler's module has been executed, before anyone uses it."""

    def find_spec(self, name, path=None, target=None):
        if name != _PICKLER_MODULE:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                _stabilize(module)
            except Exception as error:  # another torch: keys stay as they are, and at worst it compiles
                sys.stderr.write("glowplug: keys depend on the import order: %r\n" % (error,))

        loader.exec_module = exec_module


def _chain():
    """Hand over to the sitecustomize that would have been imported, with the path that it would have seen."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _AfterImport())
if __name__ == "sitecustomize":  # glowplug.prefetch loads this file by another name
    _chain()
