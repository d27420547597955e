"""Which GPUs a container asks the engine for (Docker Engine API, HostConfig.DeviceRequests)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glowplug.core.image_spec import Gpus

# What CUDA programs and nvidia-smi need. Images made for GPUs say it themselves; for others, the toolkit's own
# default leaves out nvidia-smi's part (NVIDIA Container Toolkit, "Driver Capabilities").
_CAPABILITIES = ("compute", "utility")
_EVERY_GPU = -1


def device_requests(gpus: Gpus, image_env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what ``run.docker.gpus`` means to the engine.

    A name with ``=`` in it, such as ``amd.com/gpu=all``, is a device of the Container Device Interface; any other is
    an index, a UUID or a MIG device of NVIDIA's runtime.
    """
    own = () if image_env.get("NVIDIA_DRIVER_CAPABILITIES") else _CAPABILITIES
    capabilities = [["gpu", *own]]
    if gpus is None:
        return []
    if isinstance(gpus, tuple):
        by_interface = [name for name in gpus if "=" in name]
        by_runtime = [name for name in gpus if "=" not in name]
        requests: list[dict[str, Any]] = []
        if by_runtime:
            requests.append({"DeviceIDs": by_runtime, "Capabilities": capabilities})
        if by_interface:
            requests.append({"Driver": "cdi", "DeviceIDs": by_interface})
        return requests
    return [{"Count": _EVERY_GPU if gpus == "all" else gpus, "Capabilities": capabilities}]
