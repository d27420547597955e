"""Packs a data set, and publishes it as an artifact for this machine. Run as a process of its own, to be measured.

Usage: artifact.py pack ROOT OUT
       artifact.py publish ROOT OUT REFERENCE [--one-layer]
       artifact.py update ROOT OUT REFERENCE
       artifact.py zlib PACKED     (prints the size that zlib's level 6 would give)
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import zlib
from pathlib import Path

from glowplug.archive.layer_writer import PackedLayer, libdeflate_gzip, new_layer
from glowplug.archive.pack import pack
from glowplug.boot.update import look_for_changes, publish_pending, read_published
from glowplug.build.capture import Capture
from glowplug.build.seal import seal
from glowplug.caches.table import ARTIFACT_ROOT, relocation
from glowplug.caches.walk import take_inventory
from glowplug.core.inventory import Inventory
from glowplug.core.reference import parse_reference
from glowplug.host.facts import gather_facts
from glowplug.registry.sink import open_sink, open_sink_without_extras
from unit.artifacts import make_session
from unit.samples import PROOF


def pack_folder(root: Path, out_dir: Path) -> tuple[Inventory, tuple[PackedLayer, ...]]:
    """Do what a build does after its capture."""
    shutil.rmtree(out_dir, ignore_errors=True)
    inventory = take_inventory(root)
    return inventory, pack(root, inventory, out_dir, relocation(ARTIFACT_ROOT))


def pack_as_one_layer(root: Path, out_dir: Path) -> tuple[Inventory, tuple[PackedLayer, ...]]:
    """Pack as other tools do, for a comparison."""
    shutil.rmtree(out_dir, ignore_errors=True)
    inventory = take_inventory(root)
    rewritten = relocation(ARTIFACT_ROOT)
    with new_layer(out_dir, libdeflate_gzip) as writer:
        for entry in inventory.files:
            content, rewrite = (root / entry.path).read_bytes(), rewritten(entry.path)
            chunks = [rewrite(content) if rewrite else content]
            writer.add_file(entry.path, entry.size_bytes, chunks, executable=entry.executable)
        return inventory, (writer.finish(1),)


def publish(root: Path, work: Path, text: str, *, one_layer: bool) -> int:
    """Publish a data set and return the size of its layers in bytes."""
    reference = parse_reference(text)
    inventory, layers = (pack_as_one_layer if one_layer else pack_folder)(root, work / "packed")
    session = make_session(work, gather_facts(Path(sys.executable)).target)
    captured = Capture(None, root, inventory, {}, "2026-01-02T03:04:05Z")  # type: ignore[arg-type]
    sealed = seal(session, captured, layers, PROOF)
    with open_sink(reference.repository) as sink:
        for descriptor, path in sealed.blobs:
            sink.put_blob(descriptor, path)
        sink.put_document(sealed.document, reference.selector)
    return sum(layer.descriptor.size_bytes for layer in layers)


def update(place: Path, text: str) -> None:
    """Publish what is new in the folder of a server, as ``glowplug run --update`` does."""
    reference = parse_reference(text)
    with open_sink_without_extras(reference.repository) as sink:
        publish_pending(sink, read_published(sink, reference.selector), look_for_changes(place, {}))


def zlib_size_bytes(packed: Path) -> int:
    """Return what the layers in a folder would be if everybody's compressor had made them."""
    archives = (gzip.decompress(path.read_bytes()) for path in packed.glob("*.tar.gz"))
    return sum(len(zlib.compress(archive, 6)) for archive in archives)


def main(verb: str, root: str, out: str = "", *rest: str) -> None:
    if verb == "zlib":
        print(zlib_size_bytes(Path(root)))
        return
    if verb == "publish":
        publish(Path(root), Path(out), rest[0], one_layer="--one-layer" in rest)
        return
    if verb == "update":
        update(Path(root), rest[0])
        return
    _, layers = pack_folder(Path(root), Path(out))
    descriptors = [layer.descriptor for layer in layers]
    result = {"layers": [d.digest for d in descriptors], "size_bytes": sum(d.size_bytes for d in descriptors)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
