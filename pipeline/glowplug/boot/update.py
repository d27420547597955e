"""Update: what a running server compiled on top of its artifact goes back to the repository, as one more layer.

Keys of entries are hashes of what was compiled, so entries of two servers can be united and never contradict each other.
Old layers are referred to, not sent again.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from glowplug import __version__
from glowplug.archive.format import MAX_LAYERS, TITLE, title
from glowplug.archive.layer_writer import PackedLayer, isal_gzip
from glowplug.archive.pack import pack, pack_files
from glowplug.archive.unpack import Layer, unpack
from glowplug.boot.fetch import read_config
from glowplug.boot.resolve import Resolution
from glowplug.caches.table import ARTIFACT_ROOT, relocation
from glowplug.caches.walk import take_inventory
from glowplug.core.artifact import DescribedLayer, compose
from glowplug.core.inventory import Inventory, inventory_from_json
from glowplug.core.leaks import find_secrets, require_absent
from glowplug.core.oci import Document, Manifest, decode, encode, parse_manifest
from glowplug.core.record import START_FILE, Record, Update
from glowplug.core.spec import version_tag
from glowplug.core.target import target_from_annotations
from glowplug.errors import GlowplugError, IntegrityError
from glowplug.registry.cache_index import update_index
from glowplug.registry.sink import Sink

# Rounds of a race for one tag; each loser starts again from what the winner wrote.
_MAX_ROUNDS = 6
# Longer than a competitor takes between its last look at the tag and its write.
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Published:
    """One artifact as it is in the repository: what an update builds on."""

    digest: str
    manifest: Manifest
    diff_ids: tuple[str, ...]
    record: Record
    inventory: Inventory

    @property
    def tag(self) -> str:
        """The tag of this target's artifact."""
        return f"{version_tag(self.record.version)}-{self.record.target.gpu_type}"


@dataclass(frozen=True)
class Changes:
    """What a server has in its private folder now.

    Attributes:
        cache_root: that folder.
        inventory: what belongs to a cache in it.
        environ: the server's environment, whose secrets must not be published.
    """

    cache_root: Path
    inventory: Inventory
    environ: Mapping[str, str]

    def since(self, published: Published) -> Inventory:
        """Return the entries that the artifact does not have."""
        known = published.inventory.key_set()
        return Inventory(tuple(e for e in self.inventory.files if (e.key or e.path) not in known))


def look_for_changes(cache_root: Path, environ: Mapping[str, str]) -> Changes:
    """List what is in a server's private folder."""
    return Changes(cache_root, take_inventory(cache_root), environ)


def publish_pending(sink: Sink, published: Published, changes: Changes) -> str | None:
    """Publish an artifact with the changes under a tag of its own, for someone to prove and promote.

    Returns the tag, ``<version>-<gpu type>.pending-<short digest>``; ``None`` when there is nothing new.

    Raises:
        GlowplugError: a secret is in what would be published, or the repository refuses.
    """
    with tempfile.TemporaryDirectory(prefix="glowplug-update-") as work:
        document = _push(sink, published, changes, Path(work))
        if document is None:
            return None
        tag = f"{published.tag}.pending-{document.digest.removeprefix('sha256:')[:12]}"
        sink.put_document(document, tag)
        return tag


def publish_direct(
    sink: Sink, published: Published, changes: Changes, sleep: Callable[[float], None] = time.sleep
) -> str | None:
    """Move the artifact's own tag to one that has the changes too, whatever others have made of it meanwhile.

    Registries have no compare-and-swap. So each writer looks at the tag right before it writes, and once more a
    moment later: whoever was overwritten starts again from what is there.

    Returns the manifest's digest; ``None`` when all is there already.

    Raises:
        GlowplugError: a secret is in what would be published, the repository refuses, or the race has no end.
    """
    for _ in range(_MAX_ROUNDS):
        current = read_published(sink, published.tag)
        if current.digest != published.digest:
            # Who moved the tag may have been killed before the index, which then leads every server to the old artifact.
            update_index(sink, published.record.model, published.record.version)
        with tempfile.TemporaryDirectory(prefix="glowplug-update-") as work:
            document = _push(sink, current, changes, Path(work))
        if document is None:
            return None if current.digest == published.digest else current.digest
        if sink.resolve(published.tag).digest != current.digest:
            continue
        sink.put_document(document, published.tag)
        sleep(_SETTLE_S)
        if sink.resolve(published.tag).digest == document.digest:
            update_index(sink, published.record.model, published.record.version)
            return document.digest
    raise GlowplugError(
        f"{published.tag} kept changing while it was updated", hint="publish with --update pending instead"
    )


def read_published(sink: Sink, selector: str) -> Published:
    """Read an artifact's documents and its list of files.

    Raises:
        NotFoundError: nothing has this name.
        IntegrityError: it is no artifact, or not whole.
    """
    document = sink.resolve(selector)
    manifest = parse_manifest(document)
    target = target_from_annotations(manifest.annotations)
    if target is None:
        raise IntegrityError(f"manifest {document.digest} is not that of a glowplug artifact")
    record, diff_ids = read_config(sink, Resolution(document.digest, manifest, target, ()))
    with tempfile.TemporaryDirectory(prefix="glowplug-update-") as work:
        place = Path(work) / "record"
        unpack([Layer(manifest.layers[0], partial(sink.copy_blob, manifest.layers[0]))], place)
        inventory = read_inventory(place)
    return Published(document.digest, manifest, diff_ids, record, inventory)


def read_inventory(place: Path) -> Inventory:
    """Read the list of files that an unpacked artifact has of itself.

    Raises:
        IntegrityError: it has none that can be read.
    """
    try:
        return inventory_from_json(decode((place / "inventory.json").read_bytes()))
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{place} holds no inventory") from error


def _push(sink: Sink, base: Published, changes: Changes, work: Path) -> Document | None:
    """Push all blobs of the new artifact, and return its manifest, which no tag names yet."""
    added = changes.since(base)
    if not added.files:
        return None
    secrets = find_secrets(changes.environ, ())
    for entry in added.files:
        content = (changes.cache_root / entry.path).read_bytes()
        require_absent(secrets, content, f"the new cache file {entry.path}")
    everything = Inventory(tuple(sorted((*base.inventory.files, *added.files))))
    kept = list(zip(base.manifest.layers[1:], base.diff_ids[1:], strict=True))
    packed = _pack(changes.cache_root, added, work)
    if 1 + len(kept) + len(packed) > MAX_LAYERS:
        kept, everything = [], _complete(base, changes)
        packed = _pack(changes.cache_root, everything, work)
    record = _updated(base, added, everything)
    described = pack_files(_descriptions(record, everything, changes.cache_root), work, isal_gzip)
    for layer in (described, *packed):
        sink.put_blob(layer.descriptor, layer.path)
    layers = [
        DescribedLayer(described.descriptor, described.diff_id),
        *(DescribedLayer(descriptor, diff_id) for descriptor, diff_id in kept),
        *(DescribedLayer(layer.descriptor, layer.diff_id) for layer in packed),
    ]
    documents = compose(record, [_titled(layer, position) for position, layer in enumerate(layers)])
    config = work / "config.json"
    config.write_bytes(documents.config)
    sink.put_blob(documents.manifest.config, config)
    return documents.manifest.document()


def _complete(base: Published, changes: Changes) -> Inventory:
    """Return all entries, to be packed anew into few layers.

    Raises:
        GlowplugError: this server does not have them all, since another one has added some.
    """
    if not base.inventory.key_set() <= changes.inventory.key_set():
        raise GlowplugError(
            f"{base.tag} has {len(base.manifest.layers)} layers, and this server cannot pack them anew",
            hint="glowplug build --rebuild",
        )
    return changes.inventory


def _pack(cache_root: Path, inventory: Inventory, work: Path) -> tuple[PackedLayer, ...]:
    return pack(cache_root, inventory, work, relocation(ARTIFACT_ROOT), isal_gzip)


def _updated(base: Published, added: Inventory, everything: Inventory) -> Record:
    created = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    update = Update(created, base.digest, len(added.files), added.size_bytes)
    return base.record._replace(
        kinds=everything.by_kind(),
        builder=f"glowplug {__version__}",
        created=created,
        updates=(*base.record.updates, update),
    )


def _descriptions(record: Record, everything: Inventory, cache_root: Path) -> dict[str, bytes]:
    return {
        "record.json": encode(record.to_json()),
        "inventory.json": encode(everything.to_json()),
        START_FILE: (cache_root / START_FILE).read_bytes(),
    }


def _titled(layer: DescribedLayer, position: int) -> DescribedLayer:
    """Give a layer the title of its place among the others: oras wants all titles to differ."""
    annotations = {**layer.descriptor.annotations, TITLE: title(position)}
    return replace(layer, descriptor=layer.descriptor._replace(annotations=annotations))
