"""What an artifact says about itself: ``glowplug/record.json`` in its first layer, and a label of its config.

docs/reference/artifact-format.md is the specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from glowplug.core.contract import may_be_set
from glowplug.core.facts import Facts
from glowplug.core.inventory import KindSummary
from glowplug.core.oci import decode, digest_of, encode
from glowplug.core.proof import Proof, proof_from_json
from glowplug.core.target import Target, target_from_json
from glowplug.errors import IntegrityError

FORMAT = 1
RECORD_LABEL = "dev.glowplug.record"

# Beside the caches in every artifact; a start puts its folder on PYTHONPATH (agent/start/sitecustomize.py says why).
START_FILE = "start/sitecustomize.py"

ANNOTATION_FORMAT = "dev.glowplug.format"
ANNOTATION_KEY = "dev.glowplug.key"
ANNOTATION_MODEL = "dev.glowplug.model.name"
ANNOTATION_VERSION = "dev.glowplug.model.version"
ANNOTATION_IMAGE = "dev.glowplug.image"
ANNOTATION_PROOF = "dev.glowplug.proof"
PROOF_COMPLETE, PROOF_PARTIAL = "complete", "partial"


class Update(NamedTuple):
    """What one server added: when (UTC, RFC 3339), to which manifest, how many files and bytes."""

    created: str
    base: str
    files: int
    size_bytes: int


class Record(NamedTuple):
    """Everything known about one artifact except its files.

    Attributes:
        model, version: which model it belongs to.
        key: digest over spec and facts; two builds with one key would make the same artifact.
        target: what the cache is valid for.
        facts: what else was found out about the machine that captured it.
        contract: environment variables that must be set at start as they were at capture.
        kinds: what is inside, by kind.
        coverage: the inputs that were warmed, as given.
        proof: the evidence.
        builder: name and version of the tool.
        created: UTC time of the capture, or of the last update, RFC 3339.
        updates: what running servers added since the capture; it was not proved.
        image: the image that the model ran in, by its digest in a registry, else by that of its configuration; empty
            when it ran in none.
    """

    model: str
    version: str
    key: str
    target: Target
    facts: Mapping[str, Any]
    contract: Mapping[str, str]
    kinds: Mapping[str, KindSummary]
    coverage: tuple[Any, ...]
    proof: Proof
    builder: str
    created: str
    updates: tuple[Update, ...] = ()
    image: str = ""

    @property
    def files(self) -> int:
        """Cache files over all kinds."""
        return sum(kind.files for kind in self.kinds.values())

    @property
    def size_bytes(self) -> int:
        """Unpacked bytes over all kinds."""
        return sum(kind.size_bytes for kind in self.kinds.values())

    def to_json(self) -> dict[str, Any]:
        """Return the record as it is stored."""
        return {
            "format": FORMAT,
            "model": {"name": self.model, "version": self.version},
            "key": self.key,
            "target": self.target.to_json(),
            "facts": dict(self.facts),
            "contract": dict(self.contract),
            "kinds": {
                name: {"files": kind.files, "size_bytes": kind.size_bytes}
                for name, kind in self.kinds.items()
            },
            "coverage": list(self.coverage),
            "proof": self.proof.to_json(),
            "builder": self.builder,
            "created": self.created,
            **({"image": self.image} if self.image else {}),
            "updates": [update._asdict() for update in self.updates],
        }

    def annotations(self) -> dict[str, str]:
        """Return what a manifest and its index entry say, so that choosing needs one request."""
        proof = self.proof
        eager = {"dev.glowplug.proof.eager-s": f"{proof.eager.first_answer_s:.2f}"} if proof.eager else {}
        return {
            ANNOTATION_FORMAT: str(FORMAT),
            ANNOTATION_KEY: self.key,
            ANNOTATION_MODEL: self.model,
            ANNOTATION_VERSION: self.version,
            **({ANNOTATION_IMAGE: self.image} if self.image else {}),
            **self.target.to_annotations(),
            "dev.glowplug.files": str(self.files),
            "dev.glowplug.bytes": str(self.size_bytes),
            ANNOTATION_PROOF: PROOF_COMPLETE if proof.holds else PROOF_PARTIAL,
            "dev.glowplug.proof.cold-s": f"{proof.cold.first_answer_s:.2f}",
            "dev.glowplug.proof.warm-s": f"{proof.warm.first_answer_s:.2f}",
            **eager,
            **({"dev.glowplug.updates": str(len(self.updates))} if self.updates else {}),
            "org.opencontainers.image.title": f"{self.model} compile cache for {self.target.gpu_type}",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.created": self.created,
        }


def build_key(spec_digest: str, version: str, facts: Facts, image_id: str = "") -> str:
    """Name what a build would make: equal keys mean that nothing has to run.

    Args:
        spec_digest: of all in the spec that matters.
        version: of the model.
        facts: their target counts.
        image_id: digest of the configuration of the image that the model runs in, which is the same in every registry
            and before a push; empty without an image.
    """
    body = {"format": FORMAT, "spec": spec_digest, "version": version, "target": facts.target.to_json()}
    return digest_of(encode(body | ({"image": image_id} if image_id else {})))


def parse_record(raw: bytes) -> Record:
    """Read a record.

    Raises:
        IntegrityError: it is no record of a format this version reads.
    """
    try:
        value = decode(raw)
    except ValueError as error:
        raise IntegrityError("the artifact's record is not JSON") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        raise IntegrityError(
            f"the artifact's record has format {found!r}; this version reads format {FORMAT}",
            hint="update glowplug, or build the artifact again",
        )
    try:
        return Record(
            str(value["model"]["name"]),
            str(value["model"]["version"]),
            str(value["key"]),
            target_from_json(value["target"]),
            dict(value["facts"]),
            _environment(value["contract"]),
            {
                str(name): KindSummary(int(kind["files"]), int(kind["size_bytes"]))
                for name, kind in value["kinds"].items()
            },
            tuple(value["coverage"]),
            proof_from_json(value["proof"]),
            str(value["builder"]),
            str(value["created"]),
            tuple(
                Update(str(item["created"]), str(item["base"]), int(item["files"]), int(item["size_bytes"]))
                for item in value["updates"]
            ),
            str(value.get("image", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise IntegrityError(f"the artifact's record cannot be read ({error!r})") from error


def _environment(value: Any) -> dict[str, str]:
    """Read the contract; only variables of compilers may come out of an artifact and into an environment."""
    contract = {str(name): str(text) for name, text in value.items()}
    foreign = sorted(name for name in contract if not may_be_set(name, contract[name]))
    if foreign:
        raise IntegrityError(f"the artifact's record would set {foreign[0]!r}, which no cache needs")
    return contract
