"""NVIDIA's GPUs, asked of NVML: it comes with the driver, is quick, and creates no CUDA context."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from glowplug.host.gpu import Gpu, Gpus

# nvml.h
_SUCCESS = 0
_NO_PERMISSION = 4
_NOT_FOUND = 6
_DRIVER_NOT_LOADED = 9
_NAME_BYTES = 96
_UUID_BYTES = 96
_VERSION_BYTES = 81
_ERROR_NAMES = {
    4: "NVML_ERROR_NO_PERMISSION",
    9: "NVML_ERROR_DRIVER_NOT_LOADED",
    12: "NVML_ERROR_LIBRARY_NOT_FOUND",
    15: "NVML_ERROR_GPU_IS_LOST",
    18: "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
}


class _NvmlError(Exception):
    """An NVML call failed; ends up in ``Gpus.problem``."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {_ERROR_NAMES.get(code, f'NVML error {code}')}")
        self.code = code


class _Device(NamedTuple):
    """A GPU or MIG slice as NVML lists it."""

    uuid: str
    gpu: Gpu
    is_mig: bool = False


def read_nvidia(environ: Mapping[str, str], library: str = "libnvidia-ml.so.1") -> Gpus:
    """Return the NVIDIA GPUs that CUDA will show to a process with this environment.

    No driver on this machine is an ordinary answer; a driver that fails is one with a ``problem``.
    """
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return Gpus()
    try:
        with _initialised(nvml):
            driver = _text(nvml, "nvmlSystemGetDriverVersion", _VERSION_BYTES)
            return Gpus(_visible(_devices(nvml), environ), driver)
    except _NvmlError as error:
        if error.code == _DRIVER_NOT_LOADED:
            return Gpus()
        return Gpus(problem=f"the NVIDIA driver cannot be asked for its GPUs ({error})")


@contextlib.contextmanager
def _initialised(nvml: ctypes.CDLL) -> Iterator[None]:
    _call(nvml, "nvmlInit_v2")
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _call(nvml: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = int(getattr(nvml, function)(*arguments))
    if code != _SUCCESS:
        raise _NvmlError(function, code)


def _text(nvml: ctypes.CDLL, function: str, size_bytes: int, *arguments: object) -> str:
    buffer = ctypes.create_string_buffer(size_bytes)
    _call(nvml, function, *arguments, buffer, ctypes.c_uint(size_bytes))
    return buffer.value.decode("utf-8", errors="replace")


def _devices(nvml: ctypes.CDLL) -> list[_Device]:
    """List every GPU; of one that is partitioned (MIG) its slices, since CUDA does not use it whole."""
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    devices = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        _call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        arch = _compute_capability(nvml, handle)
        slices = list(_mig_slices(nvml, handle))
        devices += [_describe(nvml, mig, arch, is_mig=True) for mig in slices] or [
            _describe(nvml, handle, arch)
        ]
    return devices


def _compute_capability(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call(nvml, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    return f"sm_{major.value}{minor.value}"


def _mig_slices(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
    current, pending, limit = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    try:
        _call(nvml, "nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
        if current.value == 0:
            return
        _call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(limit))
    except (_NvmlError, AttributeError):
        # Not a GPU that can be partitioned, or a driver from before there were any.
        return
    for index in range(limit.value):
        mig = ctypes.c_void_p()
        try:
            _call(
                nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index), ctypes.byref(mig)
            )
        except _NvmlError as error:
            if error.code not in (_NOT_FOUND, _NO_PERMISSION):
                raise
        else:
            yield mig


def _describe(nvml: ctypes.CDLL, handle: ctypes.c_void_p, arch: str, *, is_mig: bool = False) -> _Device:
    name = _text(nvml, "nvmlDeviceGetName", _NAME_BYTES, handle)
    uuid = _text(nvml, "nvmlDeviceGetUUID", _UUID_BYTES, handle)
    return _Device(uuid, Gpu(name, arch), is_mig=is_mig)


def _visible(devices: Sequence[_Device], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Apply ``CUDA_VISIBLE_DEVICES`` as CUDA does: entries count up to the first that names nothing."""
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    migs = [device for device in devices if device.is_mig]
    if wanted is None:
        # CUDA uses one slice at most, and a whole GPU only where there is no slice.
        return tuple(device.gpu for device in (migs[:1] or devices))
    chosen: list[_Device] = []
    for entry in (part.strip() for part in wanted.split(",")):
        if entry.isdigit():
            found = devices[int(entry) : int(entry) + 1]
        else:
            found = [d for d in devices if entry.startswith(("GPU-", "MIG-")) and d.uuid.startswith(entry)]
        if len(found) != 1:
            break
        if found[0] in chosen:
            return ()
        chosen += found
    chosen_migs = [device for device in chosen if device.is_mig]
    return tuple(device.gpu for device in (chosen_migs[:1] or chosen))
