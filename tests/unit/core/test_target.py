import pytest

from glowplug.core.reference import is_tag
from glowplug.core.spec import MAX_GPU_TYPE_LENGTH, MAX_VERSION_LENGTH, version_flaw, version_tag
from glowplug.core.target import FIELD_NAMES, slug, target_from_annotations, target_from_json
from glowplug.errors import IntegrityError
from unit.samples import CPU, H100

# The names are what drivers say: NVML's nvmlDeviceGetName, and amdgpu's marketing names.
GPU_TYPES = [
    ("cuda", "NVIDIA H100 80GB HBM3", "sm_90", "h100-80gb-hbm3-sm90"),
    ("cuda", "NVIDIA H100 PCIe", "sm_90", "h100-pcie-sm90"),
    ("cuda", "NVIDIA H100 NVL", "sm_90", "h100-nvl-sm90"),
    ("cuda", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "sm_90", "h100-80gb-hbm3-mig-1g.10gb-sm90"),
    ("cuda", "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "sm_90", "h100-80gb-hbm3-mig-1g.10gb-me-sm90"),
    ("cuda", "NVIDIA H200", "sm_90", "h200-sm90"),
    ("cuda", "NVIDIA GH200 480GB", "sm_90", "gh200-480gb-sm90"),
    ("cuda", "NVIDIA B200", "sm_100", "b200-sm100"),
    ("cuda", "NVIDIA GB200", "sm_100", "gb200-sm100"),
    ("cuda", "NVIDIA A100-SXM4-80GB", "sm_80", "a100-sxm4-80gb-sm80"),
    ("cuda", "NVIDIA A100 80GB PCIe", "sm_80", "a100-80gb-pcie-sm80"),
    ("cuda", "NVIDIA A10G", "sm_86", "a10g-sm86"),
    ("cuda", "NVIDIA L4", "sm_89", "l4-sm89"),
    ("cuda", "NVIDIA L40S", "sm_89", "l40s-sm89"),
    ("cuda", "Tesla T4", "sm_75", "tesla-t4-sm75"),
    ("cuda", "Tesla V100-SXM2-16GB", "sm_70", "tesla-v100-sxm2-16gb-sm70"),
    ("cuda", "NVIDIA GeForce RTX 4090", "sm_89", "rtx-4090-sm89"),
    ("cuda", "NVIDIA GeForce GTX 1080 Ti", "sm_61", "gtx-1080-ti-sm61"),
    ("cuda", "NVIDIA RTX 6000 Ada Generation", "sm_89", "rtx-6000-ada-generation-sm89"),
    ("cuda", "Quadro RTX 8000", "sm_75", "quadro-rtx-8000-sm75"),
    (
        "cuda",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "sm_120",
        "rtx-pro-6000-blackwell-max-q-workstation-edition-sm120",
    ),
    ("cuda", "NVIDIA TITAN RTX", "sm_75", "titan-rtx-sm75"),
    ("cuda", "Orin", "sm_87", "orin-sm87"),
    ("rocm", "AMD Instinct MI300X", "gfx942", "mi300x-gfx942"),
    ("rocm", "AMD Instinct MI300X VF", "gfx942", "mi300x-vf-gfx942"),
    ("rocm", "AMD Instinct MI250X/MI250", "gfx90a", "mi250x-mi250-gfx90a"),
    ("rocm", "AMD Radeon RX 7900 XTX", "gfx1100", "radeon-rx-7900-xtx-gfx1100"),
    ("rocm", "AMD Radeon Graphics", "gfx1103", "radeon-gfx1103"),
    ("cpu", "cpu", "avx512_vnni", "cpu-x86_64-avx512_vnni"),
    ("cpu", "cpu", "avx512_vnni_bf16_amx_amxfp16", "cpu-x86_64-avx512_vnni_bf16_amx_amxfp16"),
    ("cpu", "cpu", "default", "cpu-x86_64-default"),
]


@pytest.mark.parametrize(("kind", "name", "arch", "expected"), GPU_TYPES)
def test_the_gpu_type(kind, name, arch, expected):
    target = H100._replace(device_kind=kind, device_name=name, device_arch=arch)
    assert target.gpu_type == expected
    assert len(expected) <= MAX_GPU_TYPE_LENGTH
    assert is_tag(expected)


def test_gpu_types_differ_where_devices_do():
    slugs = [expected for *_, expected in GPU_TYPES]
    assert len(set(slugs)) == len(slugs)


def test_the_gpu_type_of_an_arm_cpu():
    assert CPU._replace(machine="aarch64", device_arch="sve128_sve2").gpu_type == "cpu-aarch64-sve128_sve2"


def test_the_longest_version_and_gpu_type_make_a_tag():
    version = "v" * MAX_VERSION_LENGTH
    assert version_flaw(version) is None
    assert is_tag(f"{version_tag(version)}-{'g' * MAX_GPU_TYPE_LENGTH}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1", "v1"),
        ("release/2026 beta", "release-2026-beta"),
        ("1.2+cu130", "1.2-cu130"),
        ("a---b", "a-b"),
        ("..v1-", "v1"),
        ("_v1", "_v1"),
        ("größe", "gr-e"),
        ("!?", ""),
    ],
)
def test_a_slug_is_a_tag_or_nothing(text, expected):
    assert slug(text) == expected
    assert not expected or is_tag(expected)


@pytest.mark.parametrize("target", [CPU, H100])
def test_what_was_written_is_read_again(target):
    assert target_from_json(target.to_json()) == target
    assert target_from_annotations(target.to_annotations() | {"foreign": "x"}) == target


def test_the_annotations_have_these_names():
    assert H100.to_annotations() == {
        "dev.glowplug.target.device.kind": "cuda",
        "dev.glowplug.target.device.name": "NVIDIA H100 80GB HBM3",
        "dev.glowplug.target.device.arch": "sm_90",
        "dev.glowplug.target.os": "linux",
        "dev.glowplug.target.machine": "x86_64",
        "dev.glowplug.target.libc": "glibc-2.36",
        "dev.glowplug.target.python": "3.11",
        "dev.glowplug.target.torch": "2.13.0+cu130",
        "dev.glowplug.target.accelerator": "13.0",
        "dev.glowplug.target.triton": "3.9.0",
    }


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_a_target_is_whole_or_none(name):
    values = H100.to_json()
    for wrong in (None, 7, ["x"]):
        with pytest.raises(IntegrityError, match="which target"):
            target_from_json({**values, name: wrong})
    del values[name]
    with pytest.raises(IntegrityError, match="which target"):
        target_from_json(values)
    annotations = H100.to_annotations()
    del annotations["dev.glowplug.target." + name.replace("_", ".")]
    assert target_from_annotations(annotations) is None


@pytest.mark.parametrize("value", [None, [], "text", 7])
def test_what_is_no_target(value):
    with pytest.raises(IntegrityError, match="which target"):
        target_from_json(value)
