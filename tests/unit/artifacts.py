"""Whole artifacts from made-up caches, without running a model."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from glowplug.archive.pack import pack
from glowplug.build.capture import Capture
from glowplug.build.engines import local_engine
from glowplug.build.seal import Sealed, seal
from glowplug.build.session import Session
from glowplug.build.spec_file import LoadedSpec
from glowplug.caches.table import ARTIFACT_ROOT, relocation
from glowplug.caches.walk import take_inventory
from glowplug.core.facts import Facts
from glowplug.core.oci import CONFIG_TYPE, Descriptor, Document, Manifest
from glowplug.core.proof import Proof
from glowplug.core.reference import LayoutRepository
from glowplug.core.spec import LiteralVersion, ModelSpec, PythonWorkload, RunSpec, Spec
from glowplug.core.target import Target
from glowplug.registry.sink import Sink
from glowplug.report.console import Console
from unit.samples import H100, PROOF, make_record

RUN = RunSpec(PythonWorkload("model:warm"))
FILES = {
    "inductor/fxgraph/ab/key/content": b"graph" * 1000,
    "inductor/xx/ckernel.main.so": b"\x7fELF" * 2000,
    "triton/A/add.cubin": b"cubin" * 3000,
    "triton/A/__grp__add.json": b'{"child_paths": {"add.cubin": "/somewhere/triton/A/add.cubin"}}',
}


def make_session(
    work: Path, target: Target = H100, environ: Mapping[str, str] | None = None, run: RunSpec = RUN
) -> Session:
    spec = Spec(ModelSpec("flux-schnell", LiteralVersion("v3")), run, LayoutRepository(str(work / "layout")))
    loaded = LoadedSpec(spec, "v3", work, {"version": "spec", "artifact": "spec"})
    ours = replace(spec, run=replace(run, interpreter=sys.executable))
    engine = local_engine(replace(loaded, spec=ours), environ or {})
    return Session(loaded, Facts(target), engine, environ or {}, work, Console(io.StringIO()))


def make_sealed(session: Session, files: Mapping[str, bytes] = FILES, proof: Proof = PROOF) -> Sealed:
    root = session.work / "captured"
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    inventory = take_inventory(root)
    layers = pack(root, inventory, session.work / "packed", relocation(ARTIFACT_ROOT))
    contract = {"TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1"}
    run = None  # sealing does not look at it
    return seal(session, Capture(run, root, inventory, contract, "2026-01-02T03:04:05Z"), layers, proof)  # type: ignore[arg-type]


def publish(sink: Sink, sealed: Sealed, tag: str | None) -> None:
    for descriptor, path in sealed.blobs:
        sink.put_blob(descriptor, path)
    sink.put_document(sealed.document, tag)


def make_document(target: Target = H100, version: str = "v3") -> Document:
    """Return the manifest of an artifact whose blobs do not exist."""
    record = make_record(target)._replace(version=version)
    return Manifest(Descriptor(CONFIG_TYPE, "sha256:" + "c" * 64, 2), (), record.annotations()).document()
