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
from glowplug.build.model_run import AGENT
from glowplug.build.session import Session
from glowplug.core.artifact import DescribedLayer, compose
from glowplug.core.inventory import Inventory
from glowplug.core.leaks import require_absent
from glowplug.core.oci import Descriptor, Document, Manifest, encode
from glowplug.core.proof import Proof
from glowplug.core.record import START_FILE, Record


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
        image=session.loaded.image.recorded if session.loaded.image else "",
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
    documents = compose(record, [DescribedLayer(layer.descriptor, layer.diff_id) for layer in described])
    config_path = out_dir / "config.json"
    config_path.write_bytes(documents.config)
    manifest = documents.manifest
    blobs = (*((layer.descriptor, layer.path) for layer in described), (manifest.config, config_path))
    return Sealed(record, captured.inventory, manifest, manifest.document(), blobs)
