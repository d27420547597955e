"""A small artifact for this machine in the real registry."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.build.seal import Sealed
from glowplug.core.oci import parse_manifest
from glowplug.host.facts import gather_facts
from glowplug.registry.cache_index import update_index
from glowplug.registry.sink import open_sink
from integration.faults.settings import Stage
from integration.services import RegistryService
from unit import artifacts
from unit.artifacts import make_sealed, make_session

REPOSITORY = "faults/cache"
# Does not shrink, so that there is something to break off; and nothing in it depends on where it is put.
FILES = {
    "inductor/fxgraph/ab/key/content": random.Random(1).randbytes(200_000),
    "inductor/xx/main.so": b"\x7fELF" * 9,
}


Publish = Callable[[str], Sealed]


@pytest.fixture(scope="session")
def publish(registry: RegistryService, tmp_path_factory: pytest.TempPathFactory) -> Publish:
    """Publish the artifact in a repository."""
    target = gather_facts(Path(sys.executable)).target
    session = make_session(tmp_path_factory.mktemp("artifact"), target)
    sealed = make_sealed(session, FILES)

    def publish_to(repository: str) -> Sealed:
        with open_sink(registry.repository(repository)) as sink:
            artifacts.publish(sink, sealed, session.reference.tag)
            update_index(sink, "flux-schnell", "v3")
        return sealed

    return publish_to


@pytest.fixture(scope="session")
def parts(publish: Publish) -> dict[str, str]:
    """Publish the artifact; return the paths of its parts at the registry."""
    sealed = publish(REPOSITORY)
    manifest = parse_manifest(sealed.document)
    layer = max(manifest.layers, key=lambda layer: layer.size_bytes)
    names = {"tag": "manifests/v3", "manifest": f"manifests/{sealed.document.digest}"}
    return {**names, "config": f"blobs/{manifest.config.digest}", "layer": f"blobs/{layer.digest}"}


@pytest.fixture
def stage(registry: RegistryService, parts: dict[str, str], tmp_path: Path) -> Stage:
    return Stage(registry.host, parts, tmp_path)
