"""Seal: the record's layer, the image config and the manifest, around layers that are packed already.

docs/reference/artifact-format.md is the specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from glowplug import __version__
from glowplug.archive.layer_writer import PackedLayer
from glowplug.archive.pack import pack_files
from glowplug.build.capture import Capture
from glowplug.build.leaks import require_absent
from glowplug.build.model_run import AGENT
from glowplug.build.session import Session
from glowplug.core.inventory import Inventory
from glowplug.core.oci import CONFIG_TYPE, Descriptor, Document, Manifest, digest_of, encode
from glowplug.core.proof import Proof
from glowplug.core.record import RECORD_LABEL, START_FILE, Record
from glowplug.errors import GlowplugError

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Sealed:
    """A complete artifact on disk.

    Attributes:
        record: what it says about itself.
        inventory: its cache files.
        manifest: the image manifest.
        document: the manifest's bytes, whose digest names the artifact.
        blobs: every blob with its file: layers first, then the config.
    """

    record: Record
    inventory: Inventory
    manifest: Manifest
    document: Document
    blobs: tuple[tuple[Descriptor, Path], ...]


def seal(session: Session, captured: Capture, layers: tuple[PackedLayer, ...], proof: Proof) -> Sealed:
    """Describe the artifact and close it; equal arguments give equal digests.

    Raises:
        GlowplugError: a secret is in what would be published.
    """
    target = session.facts.target
    record = Record(
        model=session.spec.model.name,
        version=session.loaded.version,
        key=session.key,
        target=target,
        facts={
            "cpu_model": session.facts.cpu_model,
            "driver": session.facts.driver,
            "device_count": session.facts.device_count,
        },
        contract=captured.contract,
        kinds=captured.inventory.by_kind(),
        coverage=session.spec.run.inputs,
        proof=proof,
        builder=f"glowplug {__version__}",
        created=captured.created,
    )
    out_dir = session.work / "packed"
    files = {
        "record.json": encode(record.to_json()),
        "inventory.json": encode(captured.inventory.to_json()),
        START_FILE: (AGENT / START_FILE).read_bytes(),
    }
    for name, content in files.items():
        require_absent(session.secrets, content, f"the artifact's {name}")
    described = (pack_files(files, out_dir), *layers)
    config = encode(_config(record, described, architecture_of(target.machine)))
    config_path = out_dir / "config.json"
    config_path.write_bytes(config)
    config_descriptor = Descriptor(CONFIG_TYPE, digest_of(config), len(config))
    manifest = Manifest(
        config_descriptor, tuple(layer.descriptor for layer in described), record.annotations()
    )
    blobs = (*((layer.descriptor, layer.path) for layer in described), (config_descriptor, config_path))
    return Sealed(record, captured.inventory, manifest, manifest.document(), blobs)


def architecture_of(machine: str) -> str:
    """Return the image-spec's word for a machine (GOARCH).

    Raises:
        GlowplugError: torch.compile caches are not made for it.
    """
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        raise GlowplugError(
            f"no artifact can be made on {machine}", hint="build on x86_64 or aarch64"
        ) from None


def _config(record: Record, layers: tuple[PackedLayer, ...], architecture: str) -> dict[str, object]:
    """Return a config with which every container tool takes the artifact for the image that it is."""
    labels = {**record.annotations(), RECORD_LABEL: encode(record.to_json()).decode()}
    return {
        "architecture": architecture,
        "os": "linux",
        "created": record.created,
        "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": record.created, "created_by": record.builder} for _ in layers],
    }
