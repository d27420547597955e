"""The documents of an artifact around its layers (docs/reference/artifact-format.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glowplug.core.oci import CONFIG_TYPE, Descriptor, Manifest, digest_of, encode
from glowplug.core.record import RECORD_LABEL, Record
from glowplug.errors import GlowplugError

# The image-spec's words (GOARCH) for the machines that caches are made for.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class DescribedLayer:
    """A layer as the documents know it: its descriptor, and the digest of what it unpacks to."""

    descriptor: Descriptor
    diff_id: str


@dataclass(frozen=True)
class Documents:
    """The config's bytes, and the manifest."""

    config: bytes
    manifest: Manifest


def compose(record: Record, layers: Sequence[DescribedLayer]) -> Documents:
    """Return config and manifest for layers, the record's first; equal arguments give equal bytes.

    The config is one with which every container tool takes the artifact for the image that it is.
    """
    labels = {**record.annotations(), RECORD_LABEL: encode(record.to_json()).decode()}
    config = encode(
        {
            "architecture": architecture_of(record.target.machine),
            "os": "linux",
            "created": record.created,
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": record.created, "created_by": record.builder} for _ in layers],
        }
    )
    descriptor = Descriptor(CONFIG_TYPE, digest_of(config), len(config))
    manifest = Manifest(descriptor, tuple(layer.descriptor for layer in layers), record.annotations())
    return Documents(config, manifest)


def architecture_of(machine: str) -> str:
    """Return the image-spec's word for a machine (GOARCH).

    Raises:
        GlowplugError: torch.compile caches are not made for it.
    """
    try:
        return ARCHITECTURES[machine]
    except KeyError:
        raise GlowplugError(
            f"no artifact can be made on {machine}", hint="build on x86_64 or aarch64"
        ) from None
