"""Build: plan, capture, prove, pack, publish, index, in the order that spends GPU time last and moves tags at the end."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from glowplug.archive.layer_writer import PackedLayer
from glowplug.archive.pack import pack
from glowplug.archive.unpack import Layer, unpack
from glowplug.build.capture import Capture, capture, require_caches_on, run_eager
from glowplug.build.engines import open_engine
from glowplug.build.image_link import link_image
from glowplug.build.prove import prove
from glowplug.build.seal import Sealed, seal
from glowplug.build.session import (
    Session,
    require_compiler,
    require_no_secret_in_spec,
    work_folder,
)
from glowplug.build.spec_file import load_spec
from glowplug.caches.table import ARTIFACT_ROOT, relocation
from glowplug.core.inventory import Inventory, inventory_from_json
from glowplug.core.oci import MANIFEST_TYPE, Manifest, decode, parse_manifest
from glowplug.core.record import ANNOTATION_KEY, ANNOTATION_PROOF, PROOF_COMPLETE
from glowplug.core.reference import Reference
from glowplug.core.spec import Overrides, version_tag
from glowplug.errors import IntegrityError, NotFoundError, ProofError
from glowplug.registry.cache_index import update_index
from glowplug.registry.options import Options
from glowplug.registry.sink import Sink, open_sink
from glowplug.report.console import Console, size_text


@dataclass(frozen=True)
class BuildRequest:
    """What the command line asks for.

    Attributes:
        spec_path: ``glowplug.yaml``.
        overrides: version and artifact, when flags give them.
        target_overrides: fields of the target to pretend; for trying a second GPU type without having it.
        rebuild: capture again although the artifact exists.
        allow_partial: publish with the shortfall recorded when the proof fails.
        registry: timeouts and transport.
    """

    spec_path: Path
    overrides: Overrides
    target_overrides: Mapping[str, str]
    rebuild: bool
    allow_partial: bool
    registry: Options


@dataclass(frozen=True)
class BuildResult:
    """What a build did.

    Attributes:
        outcome: ``published``, ``present`` (nothing had to run) or ``unchanged`` (a rebuild found the same keys).
        reference: the artifact by tag.
        digest: its manifest's digest.
        manifest: the manifest itself.
        index: the version's index by tag.
        targets: GPU types in the index.
        sealed: the new artifact, ``None`` when nothing ran.
    """

    outcome: str
    reference: Reference
    digest: str
    manifest: Manifest
    index: Reference
    targets: tuple[str, ...]
    sealed: Sealed | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result for scripts."""
        proof = self.sealed.record.proof.to_json() if self.sealed else None
        return {
            "outcome": self.outcome,
            "reference": str(self.reference),
            "digest": self.digest,
            "size_bytes": self.manifest.size_bytes,
            "index": str(self.index),
            "targets": list(self.targets),
            "proof": proof,
        }


def build(request: BuildRequest, environ: Mapping[str, str], console: Console) -> BuildResult:
    """Make sure that the artifact for this spec, version and machine exists.

    Raises:
        GlowplugError: one of its kinds, for whatever stopped it; then no tag was moved and no file is left.
    """
    spec = load_spec(request.spec_path, environ, request.overrides)
    with (
        work_folder() as work,
        open_engine(spec, environ, work, console, request.target_overrides) as (loaded, engine, facts),
    ):
        session = Session(loaded, facts, engine, environ, work, console, frozenset(request.target_overrides))
        console.line(f"{session.spec.model.name} {loaded.version} for {facts.target.gpu_type}")
        for note in facts.notes:
            console.warn(note)
        with open_sink(loaded.spec.artifact, request.registry) as sink:
            present = _find_present(sink, session, request)
            if present and not request.rebuild:
                console.line(f"{session.reference} is there already; nothing to do")
                return _finish("present", session, sink, present, request.registry)
            require_caches_on(session)
            require_compiler(session)
            require_no_secret_in_spec(session)
            sink.check_push()
        sealed = _make(session, request)
        # Opened anew: the budget for the network does not include the time that the model ran.
        with open_sink(loaded.spec.artifact, request.registry) as sink:
            if present and not _keys_changed(session, sink, present.manifest, sealed):
                return replace(_finish("unchanged", session, sink, present, request.registry), sealed=sealed)
            _publish(session, sink, sealed)
            made = _Artifact(sealed.document.digest, sealed.manifest)
            return replace(_finish("published", session, sink, made, request.registry), sealed=sealed)


@dataclass(frozen=True)
class _Artifact:
    digest: str
    manifest: Manifest


def _find_present(sink: Sink, session: Session, request: BuildRequest) -> _Artifact | None:
    """Return the artifact that this build would make again, if there is one.

    One that was published with a shortfall does not count, unless a shortfall would be accepted again.
    """
    try:
        document = sink.resolve(session.reference.selector)
    except NotFoundError:
        return None
    except IntegrityError as error:
        if not request.rebuild:
            raise IntegrityError(str(error), hint="glowplug build --rebuild replaces it") from error
        return None
    if document.media_type != MANIFEST_TYPE:
        return None
    manifest = parse_manifest(document)
    proved = manifest.annotations.get(ANNOTATION_PROOF) == PROOF_COMPLETE or request.allow_partial
    if manifest.annotations.get(ANNOTATION_KEY) != session.key or not proved:
        return None
    return _Artifact(document.digest, manifest)


def _make(session: Session, request: BuildRequest) -> Sealed:
    created = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    eager = run_eager(session)
    captured = capture(session, created)
    layers = pack_capture(session, captured)
    proof = prove(session, captured, layers, eager)
    for shortfall in proof.shortfalls:
        session.console.warn(shortfall)
    if not proof.holds and not request.allow_partial:
        raise ProofError(
            f"the cache is not proved: {proof.shortfalls[0]}",
            hint="fix what differs between two starts, such as a random seed, a path or the time; "
            "or publish it as partial with --allow-partial",
        )
    return seal(session, captured, layers, proof)


def pack_capture(session: Session, captured: Capture) -> tuple[PackedLayer, ...]:
    """Pack the captured caches into layers below the work folder."""
    with session.console.step("Pack") as step:
        layers = pack(
            captured.cache_root, captured.inventory, session.work / "packed", relocation(ARTIFACT_ROOT)
        )
        size_bytes = sum(layer.descriptor.size_bytes for layer in layers)
        step.result = f"{size_text(size_bytes)} in {len(layers)} {'layer' if len(layers) == 1 else 'layers'}"
    return layers


def _publish(session: Session, sink: Sink, sealed: Sealed) -> None:
    """Push blobs, then the manifest under its tag: a reader never sees a tag whose blobs are missing."""
    with session.console.step(f"Publish {session.reference}") as step:
        for descriptor, path in sealed.blobs:
            step.progress(f"{descriptor.digest[:19]} {size_text(descriptor.size_bytes)}")
            sink.put_blob(descriptor, path)
        sink.put_document(sealed.document, session.reference.tag)
        step.result = sealed.document.digest


def _finish(
    outcome: str, session: Session, sink: Sink, artifact: _Artifact, registry: Options
) -> BuildResult:
    document, entries = update_index(sink, session.spec.model.name, session.loaded.version)
    tag = version_tag(session.loaded.version)
    targets = tuple(entry.tag.removeprefix(f"{tag}-") for entry in entries)
    index = Reference(session.spec.artifact, tag=tag, digest=document.digest)
    if session.loaded.image is not None:
        reference = session.reference._replace(digest=artifact.digest)
        link_image(session.loaded.image, reference, artifact.manifest, registry, session.console)
    return BuildResult(outcome, session.reference, artifact.digest, artifact.manifest, index, targets)


def _keys_changed(session: Session, sink: Sink, published: Manifest, sealed: Sealed) -> bool:
    """Say whether a new capture holds other keys than the published artifact; a damaged one holds none.

    Two captures of one thing differ in their bytes, since torch's entries are pickles, but not in their keys.
    """
    try:
        with tempfile.TemporaryFile(dir=session.work) as scratch:
            for descriptor in (published.config, *published.layers):
                sink.copy_blob(descriptor, scratch)
        changed = _published_inventory(sink, published, session.work).difference(sealed.inventory)
    except (IntegrityError, NotFoundError) as error:
        session.console.warn(f"the published artifact is damaged, and is replaced: {error}")
        return True
    if changed:
        session.console.note(
            f"{len(changed.added)} new keys, {len(changed.removed)} gone since the published artifact"
        )
    else:
        session.console.line("the capture has the same keys as the published artifact, which stays")
    return bool(changed)


def _published_inventory(sink: Sink, manifest: Manifest, work: Path) -> Inventory:
    """Read the file list of a published artifact, which lies in the record's layer: the first one."""
    folder = work / "published"
    record_layer = manifest.layers[0]
    unpack([Layer(record_layer, partial(sink.copy_blob, record_layer))], folder)
    try:
        listed = decode((folder / "inventory.json").read_bytes())
    except (OSError, ValueError) as error:
        raise IntegrityError(f"layer {record_layer.digest} holds no inventory") from error
    return inventory_from_json(listed)
