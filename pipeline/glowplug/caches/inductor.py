"""TorchInductor's folder: FX graphs, AOTAutograd entries, generated code, CPU kernels, autotuning."""

from __future__ import annotations

from glowplug.caches.kind import Kind

# Folders in which a leaf is named after its own, not reproducible, content; the folder above it is the key
# (torch/_inductor/codecache.py, FxGraphCache; torch/_functorch/_aot_autograd/autograd_cache.py).
_CONTENT_NAMED = ("fxgraph", "aotautograd")

_DROPPED_FOLDERS = (
    "locks",  # a lock file of another owner is a PermissionError at start (codecache.py, get_lock_dir)
    "precompiled_headers",  # 147 MB that only serve compiling (codecache.py, _HEADER_DIR)
    # Inductor executes its modules from their source (runtime/compile_tasks.py), so bytecode is not read; and
    # bytecode is tied to its source's mtime, which unpacking does not keep.
    "__pycache__",
)
_DROPPED_SUFFIXES = (
    ".lock",
    ".tmp",  # write_atomic, cutedsl_cache.py and pgo.py before their rename
    ".error",  # CUTLASS: a failed build that would be replayed as a failure (codecache.py, binary_error_path)
    "CxxBuild",  # the build folder of cpp_builder.py
)


def _belongs(path: str) -> bool:
    name = path.rpartition("/")[2]
    # "tmp." is triton_bundler.py, which lays a kernel's files out before its rename.
    return not (name in _DROPPED_FOLDERS or name.endswith(_DROPPED_SUFFIXES) or name.startswith("tmp."))


def _key(path: str) -> str:
    top, slash, _ = path.partition("/")
    return path.rpartition("/")[0] if slash and top in _CONTENT_NAMED else ""


def _is_result(path: str) -> bool:
    # The rest is code that entries refer to, and the probes of the CPU that every process compiles.
    return _key(path) != ""


INDUCTOR = Kind("inductor", "TORCHINDUCTOR_CACHE_DIR", _belongs, _is_result, _key)
