import pytest

from glowplug.host.amd import read_amd
from glowplug.host.gpu import Gpu, Gpus

MI300X = Gpu("AMD Instinct MI300X", "gfx942")
MI210 = Gpu("AMD Instinct MI210", "gfx90a")


@pytest.fixture
def host(tmp_path):
    """A tree as Linux shows it: one processor, an MI300X, an MI210."""

    def node(index, properties):
        folder = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{index}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text("".join(f"{name} {value}\n" for name, value in properties.items()))

    def card(minor, **files):
        folder = tmp_path / f"sys/class/drm/renderD{minor}/device"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text + "\n")
        (tmp_path / "dev/dri").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"dev/dri/renderD{minor}").touch()

    node(0, {"cpu_cores_count": 96, "simd_count": 0, "gfx_target_version": 0})
    node(1, {"simd_count": 1216, "gfx_target_version": 90402, "drm_render_minor": 128, "unique_id": 0xABC})
    node(10, {"simd_count": 416, "gfx_target_version": 90010, "drm_render_minor": 129, "unique_id": 0xDEF})
    card(128, product_name="AMD Instinct MI300X", device="0x74a1", revision="0x00")
    card(129, product_name="", device="0x740f", revision="0x02")
    ids = tmp_path / "usr/share/libdrm/amdgpu.ids"
    ids.parent.mkdir(parents=True)
    ids.write_text(
        "# List of AMDGPU IDs\n1.0.0\n740F,\t01,\tAMD Instinct MI200\n740F,\t02,\tAMD Instinct MI210\n"
    )
    module = tmp_path / "sys/module/amdgpu"
    module.mkdir(parents=True)
    (module / "version").write_text("6.12.12\n")
    return tmp_path


def test_names_architectures_and_driver(host):
    assert read_amd({}, host) == Gpus((MI300X, MI210), driver="6.12.12")


def test_without_a_name_the_architecture_stands_for_it(host):
    (host / "usr/share/libdrm/amdgpu.ids").unlink()
    assert read_amd({}, host).gpus[1] == Gpu("gfx90a", "gfx90a")


def test_a_gpu_that_was_not_handed_to_the_container_is_not_there(host):
    (host / "dev/dri/renderD128").unlink()
    assert read_amd({}, host).gpus == (MI210,)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, (MI210,)),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, (MI210, MI300X)),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, (MI300X,)),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000def"}, (MI210,)),
        (
            {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"},
            (MI210,),
        ),  # the second counts within the first
        ({"HIP_VISIBLE_DEVICES": "0,-1,1"}, (MI300X,)),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"ROCR_VISIBLE_DEVICES": ""}, ()),
    ],
)
def test_visible_devices(host, environ, expected):
    assert read_amd(environ, host).gpus == expected


def test_no_compute_driver(tmp_path):
    assert read_amd({}, tmp_path) == Gpus()
