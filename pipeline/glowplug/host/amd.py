"""AMD's GPUs, read from what the kernel's compute driver (KFD) shows in sysfs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from glowplug.host.gpu import Gpu, Gpus

_NODES = "sys/class/kfd/kfd/topology/nodes"
# The table from PCI id and revision to marketing name that HIP takes its names from.
_NAME_TABLES = ("usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids")


class _Device(NamedTuple):
    """A GPU node of the topology; its uuid is spelt as ``ROCR_VISIBLE_DEVICES`` spells it."""

    uuid: str
    gpu: Gpu


def read_amd(environ: Mapping[str, str], root: Path = Path("/")) -> Gpus:
    """Return the AMD GPUs that HIP will show to a process with this environment.

    The name is the board's own where it has one, so that it is the same in every image; else libdrm's, else
    the architecture. Inductor's key on ROCm holds only the latter (codecache.py, CacheBase.get_system).
    """
    devices = _devices(root)
    devices = _chosen(devices, environ.get("ROCR_VISIBLE_DEVICES"))
    devices = _chosen(devices, environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES"))
    driver = _text(root / "sys/module/amdgpu/version") if devices else ""
    return Gpus(tuple(device.gpu for device in devices), driver)


def _devices(root: Path) -> list[_Device]:
    try:
        nodes = sorted((root / _NODES).iterdir(), key=lambda node: int(node.name))
    except (OSError, ValueError):
        return []
    devices = []
    for node in nodes:
        properties = _properties(node / "properties")
        minor = properties.get("drm_render_minor", 0)
        # The topology lists the processors too, and in a container the GPUs that were not handed in.
        if properties.get("gfx_target_version") and (root / f"dev/dri/renderD{minor}").exists():
            arch = _gfx(properties["gfx_target_version"])
            name = _name(root, root / f"sys/class/drm/renderD{minor}/device") or arch
            devices.append(_Device(f"GPU-{properties.get('unique_id', 0):016x}", Gpu(name, arch)))
    return devices


def _gfx(version: int) -> str:
    """Spell a target version: 90402 is ``gfx942``, 90010 is ``gfx90a``."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _name(root: Path, device: Path) -> str:
    board = _text(device / "product_name")
    if board:
        return board
    wanted = (
        _text(device / "device").removeprefix("0x").upper(),
        _text(device / "revision").removeprefix("0x").upper(),
    )
    for table in _NAME_TABLES:
        for line in _text(root / table).splitlines():
            # 74A1,	00,	AMD Instinct MI300X
            fields = [field.strip() for field in line.split(",", 2)]
            if len(fields) == 3 and (fields[0].upper(), fields[1].upper()) == wanted:
                return fields[2]
    return ""


def _chosen(devices: Sequence[_Device], wanted: str | None) -> list[_Device]:
    """Apply a list of visible devices as HIP does: entries count up to the first that names nothing."""
    if wanted is None:
        return list(devices)
    chosen: list[_Device] = []
    for entry in (part.strip() for part in wanted.split(",")):
        found = [d for index, d in enumerate(devices) if entry in (str(index), d.uuid)]
        if len(found) != 1:
            break
        chosen += found
    return chosen


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
