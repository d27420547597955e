# mypy: disable-error-code="import-untyped"
# ruff: noqa: ANN001, ANN201, N803, PLR0913, PLR0917 -- how kernels are written
"""Fills ``TRITON_CACHE_DIR`` with what an NVIDIA GPU machine would have written; no GPU is needed.

Usage: triton_kernels.py ENTRIES
"""

from __future__ import annotations

import itertools
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HOPPER = GPUTarget("cuda", 90, 32)
Job = tuple[Any, dict[str, str], dict[str, int], dict[str, int]]


@triton.jit  # type: ignore[untyped-decorator]
def gated_activation(gate, up, out, count, SIZE: tl.constexpr, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = index < count
    x = tl.load(gate + index, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(up + index, mask=inside, other=0.0).to(tl.float32)
    if KIND == 0:
        x = x * tl.sigmoid(x)
    elif KIND == 1:
        x = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)
    else:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.70710678))
    tl.store(out + index, x * y, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def row_softmax(scores, out, width, scale, SIZE: tl.constexpr, CAUSAL: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    index = tl.arange(0, SIZE)
    inside = index < width
    if CAUSAL:
        inside = inside & (index <= row)
    x = tl.load(scores + row * width + index, mask=inside, other=-float("inf")).to(tl.float32) * scale
    x = tl.exp(x - tl.max(x, 0))
    tl.store(out + row * width + index, x / tl.sum(x, 0), mask=index < width)


@triton.jit  # type: ignore[untyped-decorator]
def linear(a, b, bias, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, RELU: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        depth = start + tl.arange(0, K)
        left = tl.load(
            a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0
        )
        right = tl.load(
            b + depth[:, None] * n + columns[None, :],
            mask=(depth[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        total = tl.dot(left, right, total)
    total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :].to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16), mask=inside)


def jobs() -> list[Job]:
    """Return kernels with their signatures, constants and options, as an autotuner would try them."""
    product = itertools.product
    activations: list[Job] = [
        (
            gated_activation,
            {"gate": dtype, "up": dtype, "out": dtype, "count": "i32"},
            {"SIZE": size, "KIND": kind},
            {"num_warps": warps},
        )
        for dtype, size, kind, warps in product(
            ("*bf16", "*fp16", "*fp32"), (256, 512, 1024, 2048), range(3), (2, 4, 8)
        )
    ]
    softmaxes: list[Job] = [
        (
            row_softmax,
            {"scores": dtype, "out": dtype, "width": "i32", "scale": "fp32"},
            {"SIZE": size, "CAUSAL": causal},
            {"num_warps": warps},
        )
        for dtype, size, causal, warps in product(
            ("*bf16", "*fp16", "*fp32"), (512, 1024, 2048, 4096), (0, 1), (4, 8, 16)
        )
    ]
    signature = {
        "a": "*bf16",
        "b": "*bf16",
        "bias": "*bf16",
        "out": "*bf16",
        "m": "i32",
        "n": "i32",
        "k": "i32",
    }
    linears: list[Job] = [
        (
            linear,
            signature,
            {"M": m, "N": n, "K": k, "RELU": relu},
            {"num_warps": warps, "num_stages": stages},
        )
        for m, n, k, relu, warps, stages in product((64, 128), (64, 128), (32, 64), (0, 1), (4, 8), (2, 3, 4))
    ]
    return activations + softmaxes + linears


def compile_job(number: int) -> None:
    kernel, signature, constants, options = jobs()[number]
    names = list(kernel.arg_names)
    source = ASTSource(
        fn=kernel,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    triton.compile(source, target=HOPPER, options=options)


def main(count: int) -> None:
    numbers = list(range(len(jobs())))
    random.Random(0).shuffle(numbers)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_job, numbers[:count]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
