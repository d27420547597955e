"""Why a run left no compile cache: the first reason that fits, in a sentence with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glowplug.core.compile_work import CompileWork

# Settings that turn the caches off (torch/_inductor/config.py), or compilation itself (torch/_dynamo/config.py).
_CACHES_OFF = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
}
_COMPILER_OFF = {"TORCH_COMPILE_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"}


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong, and what to do about it."""

    reason: str
    hint: str


def switched_off(environ: Mapping[str, str]) -> Diagnosis | None:
    """Find a setting by which nothing can be captured, before any model runs."""
    for settings, what in ((_CACHES_OFF, "torch's compile caches"), (_COMPILER_OFF, "torch.compile")):
        for name, value in settings.items():
            if environ.get(name) == value:
                return Diagnosis(f"{name}={value} turns {what} off", f"unset {name}")
    return None


def why_nothing(work: CompileWork, *, compiler_loaded: bool, left_code: bool = False) -> Diagnosis:
    """Explain why a finished run left no entry, from what was seen of it.

    ``left_code``: it left other files, as Inductor does that compiles without its caches.
    """
    if not compiler_loaded:
        return Diagnosis(
            "the model never called torch.compile",
            "compile it in setup(), or in the module that the callable is in",
        )
    if work.frames == 0:
        return Diagnosis(
            "torch.compile was prepared, but no compiled function was called",
            "give inputs that reach the compiled part",
        )
    if work.fx_bypasses or work.aot_bypasses:
        return Diagnosis(
            "Inductor could not cache any of the graphs",
            "run with TORCH_LOGS=+inductor to see what it bypasses",
        )
    if work.graph_breaks:
        return Diagnosis(
            f"every graph fell back to eager: {'; '.join(work.reasons[:3])}",
            "run with TORCH_LOGS=graph_breaks, and use fullgraph=True to find the first one",
        )
    if work.total == 0 and not left_code:
        return Diagnosis(
            "Dynamo traced the model, but no graph reached Inductor",
            "use backend='inductor', and check that the compiled part computes on tensors",
        )
    compiled = f"it compiled ({work.describe()})" if work.total else "it compiled"
    return Diagnosis(
        f"{compiled}, but torch stored no entry",
        "check that the model's code does not set torch._inductor.config.force_disable_caches or fx_graph_cache",
    )
