"""The CPU's instruction set as Inductor will see it (torch/_inductor/cpu_vec_isa.py), from ``/proc``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# What -march=x86-64-v4 stands for and ATen's own kernels ask for; torch.cpu is content with avx512f alone.
_AVX512 = frozenset({"avx512f", "avx512cd", "avx512dq", "avx512vl", "avx512bw", "avx2", "fma", "f16c"})
_AVX2 = frozenset({"avx2", "fma", "f16c"})
# Linux does not list this flag, so the processors that have it are named: Granite Rapids, server and SoC.
_AMX_FP16_MODELS = frozenset({("GenuineIntel", "6", "173"), ("GenuineIntel", "6", "174")})


class Cpu(NamedTuple):
    """A processor.

    Attributes:
        isa: what Inductor generates code for: ``avx2``, ``avx512_vnni``, ``avx512_vnni_bf16_amx``, ``neon``,
            ``sve256``, ``sve128_sve2``; ``default`` when it does not vectorise.
        model: the marketing name, empty where Linux does not know one.
    """

    isa: str
    model: str


def read_cpu(machine: str, root: Path = Path("/")) -> Cpu:
    """Read the processor from ``/proc`` under ``root``; without ``/proc/cpuinfo`` its ISA is ``default``."""
    return parse_cpu(
        machine,
        _read(root / "proc/cpuinfo"),
        # prctl(PR_SVE_GET_VL), which torch asks, starts out as this default.
        sve_bytes=_read(root / "proc/sys/abi/sve_default_vector_length").strip(),
    )


def parse_cpu(machine: str, cpuinfo: str, *, sve_bytes: str = "") -> Cpu:
    """Decide the ISA from the text of ``/proc/cpuinfo``; ``sve_bytes`` is the length of an SVE register.

    The first processor decides, as in torch: a host whose cores differ is not one that servers run on.
    """
    fields: dict[str, str] = {}
    for line in cpuinfo.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    if machine in ("x86_64", "AMD64"):
        isa = _x86_isa(fields)
    elif machine in ("aarch64", "arm64"):
        isa = _arm_isa(frozenset(fields.get("Features", "").split()), sve_bytes)
    else:
        isa = "default"
    return Cpu(isa=isa, model=fields.get("model name", ""))


def _x86_isa(fields: dict[str, str]) -> str:
    flags = frozenset(fields.get("flags", "").split())
    if not flags >= _AVX2:
        return "default"
    if not flags >= _AVX512:
        return "avx2"
    parts = ["avx512"]
    if "avx512_vnni" in flags:
        parts.append("vnni")
    if "avx512_bf16" in flags:
        parts.append("bf16")
    # VecAMX asks for VNNI besides its own flag.
    if {"avx512_vnni", "amx_tile"} <= flags:
        parts.append("amx")
        model = (fields.get("vendor_id", ""), fields.get("cpu family", ""), fields.get("model", ""))
        if "amx_fp16" in flags or model in _AMX_FP16_MODELS:
            parts.append("amxfp16")
    return "_".join(parts)


def _arm_isa(features: frozenset[str], sve_bytes: str) -> str:
    if "asimd" not in features:
        return "default"
    if not (features & {"sve", "sve2"} and "bf16" in features):
        return "neon"
    # Inductor knows two lengths: 128 bit, and 256 for everything else.
    length = "sve128" if sve_bytes == "16" else "sve256"
    return f"{length}_sve2" if "sve2" in features else length


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
