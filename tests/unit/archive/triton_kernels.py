"""Compiles two small kernels for an NVIDIA GPU that need not be there, into ``TRITON_CACHE_DIR``.

Prints for each kernel whether Triton found it there: ``hit`` or ``miss``.
"""

from __future__ import annotations

import sys

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HOPPER = GPUTarget("cuda", 90, 32)


@triton.jit
def scale_kernel(source, out, count, factor, BLOCK: tl.constexpr):  # noqa: N803 -- Triton's convention
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    tl.store(out + index, tl.load(source + index, mask=inside) * factor, mask=inside)


@triton.jit
def a_kernel_with_a_name_as_long_as_those_that_inductor_makes_when_it_fuses_many_operations_into_a_single_one(
    source,
    out,
    BLOCK: tl.constexpr,  # noqa: N803
):
    index = tl.arange(0, BLOCK)
    value = tl.load(source + index)
    tl.store(out + index, tl.exp(value - tl.max(value, 0)))


SOURCES = [
    ASTSource(
        fn=scale_kernel,
        signature={"source": "*fp32", "out": "*fp32", "count": "i32", "factor": "fp32", "BLOCK": "constexpr"},
        constexprs={(4,): 256},
    ),
    ASTSource(
        fn=a_kernel_with_a_name_as_long_as_those_that_inductor_makes_when_it_fuses_many_operations_into_a_single_one,
        signature={"source": "*fp32", "out": "*fp32", "BLOCK": "constexpr"},
        constexprs={(2,): 128},
    ),
]


def report(*, cache_hit: bool, **_: object) -> None:
    sys.stdout.write("hit\n" if cache_hit else "miss\n")


if __name__ == "__main__":
    knobs.compilation.listener = report
    for source in SOURCES:
        triton.compile(source, target=HOPPER)
