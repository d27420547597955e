"""A real artifact in a layout folder, and ways to damage and to forge it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glowplug.core.oci import INDEX_TYPE, digest_of, encode
from glowplug.core.record import RECORD_LABEL
from integration.services import RegistryService, find_program

Change = Callable[[dict[str, Any]], None]
TAG = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Artifact:
    """One target's artifact in the layout ``folder``; ``v1`` is its index, ``tag`` its own tag."""

    folder: Path

    @property
    def tag(self) -> str:
        return next(tag for tag in self._tags() if tag != "v1")

    @property
    def digest(self) -> str:
        return self._tags()[self.tag]["digest"]

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads(self.blob(self.digest).read_bytes())

    @property
    def index(self) -> dict[str, Any]:
        return json.loads(self.blob(self._tags()["v1"]["digest"]).read_bytes())

    @property
    def record(self) -> dict[str, Any]:
        config = json.loads(self.blob(self.manifest["config"]["digest"]).read_bytes())
        return json.loads(config["config"]["Labels"][RECORD_LABEL])

    def blob(self, digest: str) -> Path:
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def part(self, name: str) -> str:
        """The digest of a part: ``index``, ``manifest``, ``config``, ``first layer`` or ``last layer``."""
        layers = [layer["digest"] for layer in self.manifest["layers"]]
        return {
            "index": self._tags()["v1"]["digest"],
            "manifest": self.digest,
            "config": self.manifest["config"]["digest"],
            "first layer": layers[0],
            "last layer": layers[-1],
        }[name]

    def copy_to(self, folder: Path) -> Artifact:
        return Artifact(Path(shutil.copytree(self.folder, folder)))

    def push_to(self, registry: RegistryService, name: str) -> str:
        """Copy it as it is, by a tool that is not ours; return the repository."""
        for tag in ("v1", self.tag):
            command = [find_program("skopeo", package="skopeo"), "copy", "--quiet", "--all"]
            command += ["--preserve-digests", "--dest-tls-verify=false"]
            command += [f"oci:{self.folder}:{tag}", f"docker://{registry.host}/{name}:{tag}"]
            subprocess.run(command, check=True, capture_output=True)
        return f"{registry.host}/{name}"

    def forge(self, *, record: Change | None = None, manifest: Change | None = None) -> None:
        """Change what it says of itself, with every digest right, as its publisher could."""
        body = self.manifest
        if record:
            config = json.loads(self.blob(body["config"]["digest"]).read_bytes())
            said = self.record
            record(said)
            config["config"]["Labels"][RECORD_LABEL] = json.dumps(said)
            raw = self._put(config)
            body["config"].update(digest=digest_of(raw), size=len(raw))
        if manifest:
            manifest(body)
        self._point(self.tag, self._put(body))
        index = self.index
        index["manifests"][0].update(self._descriptor(self.tag), annotations=body["annotations"])
        self._point("v1", self._put(index))

    def forge_index(self, change: Change) -> None:
        """Change what the index says of its entry."""
        index = self.index
        change(index["manifests"][0])
        self._point("v1", self._put(index))

    def point_to(self, tag: str, body: dict[str, Any]) -> None:
        """Give any document a tag."""
        self._point(tag, self._put(body), body["mediaType"])

    def _put(self, body: dict[str, Any]) -> bytes:
        raw = encode(body)
        self.blob(digest_of(raw)).write_bytes(raw)
        return raw

    def _point(self, tag: str, raw: bytes, media_type: str = INDEX_TYPE) -> None:
        top = json.loads((self.folder / "index.json").read_bytes())
        known = [entry for entry in top["manifests"] if entry["annotations"][TAG] == tag]
        entry = known[0] if known else {"mediaType": media_type, "annotations": {TAG: tag}}
        entry.update(digest=digest_of(raw), size=len(raw))
        top["manifests"] += [] if known else [entry]
        (self.folder / "index.json").write_bytes(encode(top))

    def _descriptor(self, tag: str) -> dict[str, Any]:
        return {name: self._tags()[tag][name] for name in ("digest", "size")}

    def _tags(self) -> dict[str, dict[str, Any]]:
        top = json.loads((self.folder / "index.json").read_bytes())
        return {entry["annotations"][TAG]: entry for entry in top["manifests"]}


def damage(file: Path, how: str) -> None:
    """Change what a file holds without changing its name."""
    content = bytearray(file.read_bytes())
    if how == "one bit":
        content[len(content) // 2] ^= 1
    elif how == "shorter":
        del content[-10:]
    elif how == "longer":
        content += b"more"
    else:
        content.clear()
    file.write_bytes(content)
