import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.errors import UsageError
from glowplug.host import amd, facts, nvidia
from glowplug.host.cpu import Cpu
from glowplug.host.facts import combine, gather_facts
from glowplug.host.gpu import Gpu, Gpus
from glowplug.host.python_env import PythonEnv

CPU = Cpu("avx512_vnni", "Some Processor")
H100 = Gpu("NVIDIA H100 80GB HBM3", "sm_90")
MI300X = Gpu("AMD Instinct MI300X", "gfx942")


def env(torch, *, cuda="", hip=""):
    return PythonEnv("3.11", "glibc-2.36", "linux", "x86_64", torch, cuda, hip, "3.5.1", ())


def test_a_gpu_s_target():
    found = combine(env("2.9.1+cu130", cuda="13.0"), CPU, Gpus((H100, H100), "570.86.15"), {})
    target = found.target
    assert (target.device_kind, target.device_name, target.device_arch) == ("cuda", H100.name, "sm_90")
    assert (target.accelerator, target.triton, target.libc) == ("13.0", "3.5.1", "glibc-2.36")
    assert (found.device_count, found.driver, found.cpu_model) == (2, "570.86.15", "Some Processor")
    assert target.gpu_type == "h100-80gb-hbm3-sm90"


def test_the_first_of_different_gpus_decides():
    l40s = Gpu("NVIDIA L40S", "sm_89")
    found = combine(env("2.9.1+cu130", cuda="13.0"), CPU, Gpus((l40s, H100)), {})
    assert (found.target.device_name, found.device_count) == ("NVIDIA L40S", 2)
    assert found.notes == (
        f"GPUs of several kinds (NVIDIA L40S, {H100.name}): the first visible one decides",
    )


def test_what_is_wrong_with_the_gpus_is_noted():
    problem = "the NVIDIA driver does not answer"
    assert combine(env("2.9.1+cu130", cuda="13.0"), CPU, Gpus(problem=problem), {}).notes == (problem,)
    assert combine(env("2.9.1+cu130", cuda="13.0"), CPU, Gpus((H100, H100)), {}).notes == ()


def test_an_amd_target():
    found = combine(env("2.9.1+rocm6.4", hip="6.4.43484"), CPU, Gpus((MI300X,)), {})
    assert (found.target.device_kind, found.target.gpu_type) == ("rocm", "mi300x-gfx942")


@pytest.mark.parametrize(
    ("python", "kind"),
    [
        (env("2.9.1+cu130", cuda="13.0"), "cuda"),
        (env("2.9.1+rocm6.4", hip="6.4.43484"), "rocm"),
        (env("2.9.1+cpu"), "cpu"),
        (env(""), "cpu"),
    ],
)
def test_a_gpu_counts_only_for_the_torch_that_was_built_for_it(monkeypatch, python, kind):
    monkeypatch.setattr(facts, "read_python_env", lambda interpreter: python)
    monkeypatch.setattr(facts, "read_cpu", lambda machine: CPU)
    monkeypatch.setattr(nvidia, "read_nvidia", lambda environ: Gpus((H100,)))
    monkeypatch.setattr(amd, "read_amd", lambda environ: Gpus((MI300X,)))
    target = gather_facts().target
    assert target.device_kind == kind
    assert target.device_arch == {"cuda": "sm_90", "rocm": "gfx942", "cpu": "avx512_vnni"}[kind]


def test_a_cuda_torch_without_a_gpu_runs_on_the_cpu():
    target = combine(env("2.9.1+cu130", cuda="13.0"), CPU, Gpus(), {}).target
    assert (target.device_kind, target.device_name, target.accelerator) == ("cpu", "cpu", "13.0")


def test_an_override_stands_for_another_machine():
    target = gather_facts(
        overrides={"device_kind": "cuda", "device_name": "NVIDIA L40S", "device_arch": "sm_89"}
    ).target
    assert target.gpu_type == "l40s-sm89"
    assert target.python == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_an_override_of_nothing_is_refused():
    with pytest.raises(UsageError, match="no field 'device_nam'") as refused:
        gather_facts(overrides={"device_nam": "x"})
    assert refused.value.hint == "did you mean device_name?"


def test_facts_are_gathered_without_torch_or_the_slow_parts_of_the_library():
    source = "import sys; from glowplug.host.facts import gather_facts; gather_facts(); print(*sys.modules)"
    pipeline = Path(facts.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", source], env={"PYTHONPATH": str(pipeline)}, capture_output=True, check=True
    )
    loaded = set(done.stdout.decode().split())
    assert "glowplug.host.facts" in loaded
    assert not loaded & {
        "torch",
        "triton",
        "importlib.metadata",
        "yaml",
        "oras",
        "docker",
        "requests",
        "urllib3",
    }
