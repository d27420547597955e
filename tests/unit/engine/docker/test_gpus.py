import pytest

from glowplug.engine.docker.gpus import device_requests

CAPABILITIES = [["gpu", "compute", "utility"]]


@pytest.mark.parametrize(
    ("gpus", "requests"),
    [
        (None, []),
        ("all", [{"Count": -1, "Capabilities": CAPABILITIES}]),
        (2, [{"Count": 2, "Capabilities": CAPABILITIES}]),
        (("0", "MIG-1"), [{"DeviceIDs": ["0", "MIG-1"], "Capabilities": CAPABILITIES}]),
        (("amd.com/gpu=all",), [{"Driver": "cdi", "DeviceIDs": ["amd.com/gpu=all"]}]),
        (
            ("nvidia.com/gpu=0", "1"),
            [
                {"DeviceIDs": ["1"], "Capabilities": CAPABILITIES},
                {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]},
            ],
        ),
    ],
)
def test_what_the_spec_says_becomes_a_request(gpus, requests):
    assert device_requests(gpus, {}) == requests


def test_an_image_that_names_its_capabilities_is_asked_for_no_others():
    requests = device_requests("all", {"NVIDIA_DRIVER_CAPABILITIES": "all"})
    assert requests == [{"Count": -1, "Capabilities": [["gpu"]]}]
