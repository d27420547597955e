import subprocess
from pathlib import Path

import pytest

from glowplug.host.gpu import Gpu, Gpus
from glowplug.host.nvidia import read_nvidia

H100 = ("NVIDIA H100 80GB HBM3", "GPU-aaaa1111-0000-0000-0000-000000000000", 9, 0, -1)
H100_B = ("NVIDIA H100 80GB HBM3", "GPU-aaaa2222-0000-0000-0000-000000000000", 9, 0, -1)
L40S = ("NVIDIA L40S", "GPU-bbbb3333-0000-0000-0000-000000000000", 8, 9, -1)
SLICE_A = ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "MIG-cccc4444-0000-0000-0000-000000000000", 9, 0, 0)
SLICE_B = ("NVIDIA H100 80GB HBM3 MIG 2g.20gb", "MIG-dddd5555-0000-0000-0000-000000000000", 9, 0, 0)


@pytest.fixture
def fake_nvml(tmp_path):
    """Build a fake driver library that lists these devices."""

    def build(*devices: tuple[str, str, int, int, int], init_code: int = 0) -> str:
        rows = ", ".join(f'{{"{d[0]}", "{d[1]}", {d[2]}, {d[3]}, {d[4]}}}' for d in devices) or "{0}"
        header = f'#define INIT_CODE {init_code}\n#define DRIVER "570.86.15"\n#define DEVICES {{{rows}}}\n'
        (tmp_path / "devices.h").write_text(header)
        library = tmp_path / "libfake-nvidia-ml.so"
        source = Path(__file__).with_name("fake_nvml.c")
        subprocess.run(["gcc", "-shared", "-fPIC", f"-I{tmp_path}", "-o", library, source], check=True)
        return str(library)

    return build


def gpus(*devices):
    return tuple(Gpu(name, f"sm_{major}{minor}") for name, _uuid, major, minor, _parent in devices)


def test_names_capability_and_driver_come_from_the_library(fake_nvml):
    assert read_nvidia({}, fake_nvml(H100, L40S)) == Gpus(gpus(H100, L40S), driver="570.86.15")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", (L40S,)),
        ("2,0", (H100_B, H100)),
        (L40S[1], (L40S,)),
        ("GPU-bbbb", (L40S,)),
        ("GPU-aaaa", ()),  # names two
        ("", ()),
        ("-1", ()),
        ("0,-1,1", (H100,)),  # what comes after an invalid entry does not count
        ("0,9,1", (H100,)),
        ("1,1", ()),
        ("NoDevFiles", ()),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(fake_nvml, visible, expected):
    found = read_nvidia({"CUDA_VISIBLE_DEVICES": visible}, fake_nvml(H100, L40S, H100_B))
    assert found.gpus == gpus(*expected)
    assert found.problem == ""


def test_of_a_partitioned_gpu_one_slice_is_used(fake_nvml):
    library = fake_nvml(H100, SLICE_A, SLICE_B)
    assert read_nvidia({}, library).gpus == gpus(SLICE_A)
    assert read_nvidia({"CUDA_VISIBLE_DEVICES": SLICE_B[1]}, library).gpus == gpus(SLICE_B)
    assert read_nvidia({"CUDA_VISIBLE_DEVICES": f"{SLICE_A[1]},{SLICE_B[1]}"}, library).gpus == gpus(SLICE_A)


def test_a_gpu_from_before_partitioning_is_whole(fake_nvml):
    v100 = ("Tesla V100-SXM2-16GB", "GPU-eeee6666", 7, 0, -1)
    assert read_nvidia({}, fake_nvml(v100)).gpus == gpus(v100)


def test_no_gpu_behind_the_driver(fake_nvml):
    assert read_nvidia({}, fake_nvml()) == Gpus(driver="570.86.15")


def test_no_driver_on_this_machine_is_no_problem(fake_nvml):
    assert read_nvidia({}, "libthere-is-no-such-library.so.1") == Gpus()
    assert read_nvidia({}, fake_nvml(H100, init_code=9)) == Gpus()


@pytest.mark.parametrize(
    ("init_code", "name"),
    [(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"), (4, "NVML_ERROR_NO_PERMISSION"), (999, "NVML error 999")],
)
def test_a_driver_that_fails_says_why(fake_nvml, init_code, name):
    found = read_nvidia({}, fake_nvml(H100, init_code=init_code))
    assert found.gpus == ()
    assert name in found.problem
