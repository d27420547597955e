"""The compilers that torch and Triton would find."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

# Inductor asks for g++ (torch/_inductor/config.py, cpp.cxx), Triton for gcc or clang (triton/runtime/build.py); the others
# are CUDA's and ROCm's.
_NAMES = ("g++", "gcc", "clang++", "clang", "nvcc", "ptxas", "hipcc")
# What either is told to use instead.
_VARIABLES = ("CXX", "CC")


def find_compilers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the compilers on ``PATH``, and those that ``CXX`` and ``CC`` name, with their paths."""
    path = environ.get("PATH", os.defpath)
    names = [*filter(None, map(environ.get, _VARIABLES)), *_NAMES]
    found = ((name, shutil.which(name, path=path)) for name in names)
    return {name: place for name, place in found if place is not None}
