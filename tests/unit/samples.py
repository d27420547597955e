"""Example values that tests of several folders share."""

from __future__ import annotations

from glowplug.core.compile_work import CompileWork
from glowplug.core.inventory import KindSummary
from glowplug.core.proof import Comparison, InputRun, Proof, RunReport
from glowplug.core.record import Record
from glowplug.core.target import Target

CPU = Target(
    device_kind="cpu",
    device_name="cpu",
    device_arch="avx512_vnni",
    os="linux",
    machine="x86_64",
    libc="glibc-2.36",
    python="3.11",
    torch="2.13.0+cpu",
    accelerator="",
    triton="",
)
H100 = Target(
    device_kind="cuda",
    device_name="NVIDIA H100 80GB HBM3",
    device_arch="sm_90",
    os="linux",
    machine="x86_64",
    libc="glibc-2.36",
    python="3.11",
    torch="2.13.0+cu130",
    accelerator="13.0",
    triton="3.9.0",
)

SAME = Comparison(equal=True, max_difference=0.0, compared=1, reason="")
COLD = RunReport(
    ready_at_s=5.0,
    first_answer_s=60.0,
    warmed_at_s=61.0,
    inputs=(InputRun(55.0, 0.25, SAME),),
    work=CompileWork(
        builds=26, build_s=48.5, fx_misses=1, aot_misses=1, frames=2, processes=3, built=("a.so",)
    ),
)
WARM = RunReport(
    ready_at_s=5.0,
    first_answer_s=6.0,
    warmed_at_s=7.0,
    inputs=(InputRun(1.0, 0.25, SAME),),
    work=CompileWork(fx_hits=1, aot_hits=1, frames=2, processes=1),
)
PROOF = Proof(None, COLD, WARM, (SAME,), (), {"home": "empty"})


def make_record(
    target: Target = H100, proof: Proof = PROOF, contract: dict[str, str] | None = None
) -> Record:
    return Record(
        model="flux-schnell",
        version="v3",
        key="sha256:" + "5" * 64,
        target=target,
        facts={"driver": "580.1", "device_count": 1, "cpu_model": "Example CPU"},
        contract={"TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1"} if contract is None else contract,
        kinds={"inductor": KindSummary(7, 200_000), "triton": KindSummary(8, 300_000)},
        coverage=({"prompt": "a cat", "width": 1024}, [1, None], "text"),
        proof=proof,
        builder="glowplug 0.1.0",
        created="2026-01-02T03:04:05Z",
    )
