"""Stores what a model returned, and compares it with what it returned in another process.

A result is flattened into leaves; a leaf is a tensor, a number, a text, bytes, or the content of a file that was
returned as a path. Images are compared by pixel.
"""

import collections.abc
import dataclasses
import os
import sys

SUFFIX = ".pt"  # of the files that ``save`` writes
# Eight-bit images round: two results that differ by less than the tolerance may still land on neighbouring levels.
IMAGE_LEVEL = 1.0 / 255.0
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def flatten(value, path="output"):
    """Return the leaves of a result as a list of ``[path, kind, content]``."""
    kind, content = _leaf(value)
    if kind:
        return [[path, kind, content]]
    children = _children(value)
    if children is None:
        return [[path, "opaque", type(value).__name__]]
    kind = "structure" if children else "text"
    leaves = [[path, kind, "%s of %d" % (type(value).__name__, len(children))]]
    for name, child in children:
        leaves.extend(flatten(child, "%s%s" % (path, name)))
    return leaves


def _leaf(value):
    import torch

    if isinstance(value, torch.Tensor):
        return "tensor", value.detach().to("cpu").as_subclass(torch.Tensor).contiguous().clone()
    if value is None or isinstance(value, (bool, str)):
        return "text", repr(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "text", repr(value)
    if isinstance(value, (int, float, complex)):
        return "tensor", torch.tensor(value)
    if isinstance(value, (bytes, bytearray)):
        return "bytes", bytes(value)
    if isinstance(value, os.PathLike):
        return _file(os.fspath(value))
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "dtype"):
        return _array(value)
    if type(value).__module__.startswith("PIL."):
        return "image", _pixels(value)
    if hasattr(value, "read") and hasattr(value, "seek"):
        value.seek(0)
        data = value.read()
        return "bytes", data if isinstance(data, bytes) else str(data).encode()
    return "", None


def _array(value):
    import numpy as np
    import torch

    if value.dtype.kind == "O":
        return "", None
    if value.dtype.kind not in "biufc":
        return "text", repr(value.tolist())
    # Flipped and big-endian arrays are no tensors as they are.
    return "tensor", torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("=")))


def _file(path):
    if path.lower().endswith(_IMAGE_SUFFIXES):
        try:
            from PIL import Image

            with Image.open(path) as image:
                return "image", _pixels(image)
        except (ImportError, OSError):  # nothing can read it as an image
            pass
    with open(path, "rb") as stream:
        return "bytes", stream.read()


def _pixels(image):
    import torch

    image = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGB")
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.reshape(image.height, image.width, -1).clone()


def _children(value):
    if isinstance(value, collections.abc.Mapping):
        return [("[%r]" % (key,), value[key]) for key in value]
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return [("[%d]" % index, item) for index, item in enumerate(items)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [("." + field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if hasattr(value, "model_dump"):  # a pydantic model, which Cog's BaseModel was up to 0.16
        return [("." + name, child) for name, child in value.model_dump().items()]
    return None


def save(leaves, path):
    """Write the leaves of one result."""
    import torch

    torch.save([list(leaf) for leaf in leaves], path)


def load(path):
    """Read what ``save`` wrote; only plain values and tensors are unpickled."""
    import torch

    return torch.load(path, weights_only=True)


def compare(expected, actual, tolerance):
    """Compare two flattened results.

    Two numbers agree when ``|a - b| <= tolerance + tolerance * |a|``; NaN equals NaN. Returns a dictionary: ``equal``,
    ``max_difference`` (absolute), ``compared`` (leaves that could be compared) and ``reason`` (of the first mismatch).
    """
    report = {"equal": True, "max_difference": 0.0, "compared": 0, "reason": ""}
    if [leaf[:2] for leaf in expected] != [leaf[:2] for leaf in actual]:
        report.update(equal=False, reason="the results differ in structure")
        return report
    for (path, kind, want), (_, _, got) in zip(expected, actual):
        if kind == "opaque":
            continue
        report["compared"] += kind != "structure"
        difference, reason = _compare_leaf(kind, want, got, tolerance)
        # JSON knows no infinity.
        report["max_difference"] = max(report["max_difference"], min(difference, sys.float_info.max))
        if reason and report["equal"]:
            report.update(equal=False, reason="%s: %s" % (path, reason))
    return report


def _compare_leaf(kind, want, got, tolerance):
    if kind in ("structure", "text", "bytes"):
        return 0.0, "" if want == got else "%s differs" % kind
    if want.shape != got.shape or want.dtype != got.dtype:
        return 0.0, "%s %s became %s %s" % (want.dtype, tuple(want.shape), got.dtype, tuple(got.shape))
    if want.numel() == 0:
        return 0.0, ""
    return _compare_numbers(kind, want, got, tolerance)


def _compare_numbers(kind, want, got, tolerance):
    import torch

    wide = torch.complex128 if want.is_complex() else torch.float64
    scale = 255.0 if kind == "image" else 1.0
    a, b = want.to(wide) / scale, got.to(wide) / scale
    absolute = tolerance + (IMAGE_LEVEL if kind == "image" else 0.0)
    if kind != "image" and not want.is_floating_point() and not want.is_complex():
        tolerance = absolute = 0.0  # a token's number is right or wrong
    close = torch.isclose(a, b, rtol=tolerance, atol=absolute, equal_nan=True)
    gap = torch.nan_to_num((a - b).abs(), nan=0.0, posinf=float("inf"))
    largest = float(gap.max())
    if bool(close.all()):
        return largest, ""
    return largest, "%d of %d values differ by more than %g (largest difference %.3g)" % (
        int((~close).sum()), close.numel(), tolerance, largest,
    )  # fmt: skip
