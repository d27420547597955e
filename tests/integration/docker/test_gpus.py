"""GPUs through the engine's own way to hand them out: a hook that stands in for NVIDIA's, and an engine without."""

import pytest

from glowplug.errors import EngineError
from integration.docker.runs import Runs

SHOWN = "print(*(os.environ.get('NVIDIA_' + name) for name in ('VISIBLE_DEVICES', 'DRIVER_CAPABILITIES')))"


@pytest.mark.parametrize(
    ("gpus", "visible"),
    [
        ("all", "all"),
        (2, "0,1"),
        (("1", "GPU-0d1b"), "1,GPU-0d1b"),
        (("MIG-3f4c", "0:1"), "MIG-3f4c,0:1"),
    ],
)
def test_the_gpus_of_the_spec_are_asked_for(runs, gpus, visible):
    assert runs.python(SHOWN, gpus=gpus).log == f"{visible} compute,utility\n"


def test_what_the_image_says_about_its_gpus_is_left_alone(runs, cog_image):
    assert runs.python(SHOWN, cog_image, gpus="all").log == "all all\n"


def test_without_gpus_none_is_asked_for(runs):
    assert runs.python(SHOWN).log == "None None\n"


# What nvidia-container-cli writes (libnvidia-container, src/cli).
REFUSALS = {
    "initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file": (
        "no working NVIDIA driver"
    ),
    "initialization error: nvml error: driver not loaded": "no working NVIDIA driver",
    "device error: 7: unknown device": "has no GPU 7",
    "requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version": (
        "driver of the engine's machine is too old for .*, which requires cuda>=12.8"
    ),
}


@pytest.mark.parametrize("said", REFUSALS)
def test_what_nvidias_hook_says_is_explained(runs, said):
    runs.docker.gpu_refusal.write_text(f"nvidia-container-cli: {said}\n")
    try:
        with pytest.raises(EngineError, match=REFUSALS[said]) as caught:
            runs.python(SHOWN, gpus="all")
    finally:
        runs.docker.gpu_refusal.unlink()
    assert "nvidia-smi" in caught.value.hint or "driver" in caught.value.hint


def test_an_engine_without_nvidias_toolkit_says_so(plain_docker, tmp_path):
    with pytest.raises(EngineError, match="NVIDIA Container Toolkit is missing") as caught:
        Runs(plain_docker, tmp_path).python(SHOWN, "tiny:1", gpus="all")
    assert "nvidia-ctk" in caught.value.hint
    assert plain_docker.containers() == []
