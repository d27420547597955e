import gzip
import json
from dataclasses import replace

import pytest

from glowplug.core.artifact import architecture_of
from glowplug.core.oci import CONFIG_TYPE, digest_of, parse_manifest
from glowplug.core.record import parse_record
from glowplug.errors import GlowplugError
from unit.artifacts import FILES, RUN, make_sealed, make_session
from unit.samples import CPU, H100, PROOF


def config_of(sealed):
    (path,) = [path for descriptor, path in sealed.blobs if descriptor.media_type == CONFIG_TYPE]
    return json.loads(path.read_bytes())


@pytest.fixture
def sealed(tmp_path):
    return make_sealed(make_session(tmp_path))


def test_the_same_capture_gives_the_same_digests(tmp_path, sealed):
    (tmp_path / "elsewhere").mkdir()
    backwards = dict(reversed(FILES.items()))
    other = make_sealed(make_session(tmp_path / "elsewhere"), backwards)
    assert other.document == sealed.document
    assert [descriptor for descriptor, _ in other.blobs] == [descriptor for descriptor, _ in sealed.blobs]


@pytest.mark.parametrize(
    ("target", "files", "proof"),
    [
        (CPU, FILES, PROOF),
        (H100, FILES | {"triton/A/add.cubin": b"other"}, PROOF),
        (H100, FILES, PROOF._replace(shortfalls=("x",))),
    ],
)
def test_anything_else_gives_another_digest(tmp_path, sealed, target, files, proof):
    (tmp_path / "elsewhere").mkdir()
    other = make_sealed(make_session(tmp_path / "elsewhere", target), files, proof)
    assert other.document.digest != sealed.document.digest


def test_every_blob_is_what_the_manifest_says(sealed):
    manifest = parse_manifest(sealed.document)
    assert manifest == sealed.manifest
    assert [descriptor for descriptor, _ in sealed.blobs] == [*manifest.layers, manifest.config]
    for descriptor, path in sealed.blobs:
        content = path.read_bytes()
        assert (digest_of(content), len(content)) == (descriptor.digest, descriptor.size_bytes)


def test_the_config_is_an_image_s(sealed):
    config = config_of(sealed)
    assert (config["os"], config["architecture"], config["rootfs"]["type"]) == ("linux", "amd64", "layers")
    layers = [path for _, path in sealed.blobs[:-1]]
    assert config["rootfs"]["diff_ids"] == [digest_of(gzip.decompress(path.read_bytes())) for path in layers]
    assert len(config["history"]) == len(layers)
    assert config["created"] == "2026-01-02T03:04:05Z"


def test_the_record_is_a_label_and_its_summary_annotations(sealed):
    labels = config_of(sealed)["config"]["Labels"]
    assert parse_record(labels["dev.glowplug.record"].encode()) == sealed.record
    assert sealed.manifest.annotations == sealed.record.annotations()
    assert labels.items() >= sealed.record.annotations().items()


def test_the_record_says_what_was_captured(sealed):
    record = sealed.record
    assert (record.model, record.version, record.target, record.proof) == ("flux-schnell", "v3", H100, PROOF)
    assert {name: kind.files for name, kind in record.kinds.items()} == {"inductor": 2, "triton": 2}
    assert record.coverage == RUN.inputs
    assert record.size_bytes == sealed.inventory.size_bytes


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_machines_are_named_as_images_name_them(tmp_path, machine, architecture):
    assert architecture_of(machine) == architecture
    sealed = make_sealed(make_session(tmp_path, CPU._replace(machine=machine, device_arch="default")))
    assert config_of(sealed)["architecture"] == architecture


@pytest.mark.parametrize("machine", ["riscv64", "ppc64le", "arm64", ""])
def test_no_artifact_is_made_on_another_machine(machine):
    with pytest.raises(GlowplugError, match=f"no artifact can be made on {machine}"):
        architecture_of(machine)


def test_a_secret_in_the_record_stops_the_publication(tmp_path):
    run = replace(RUN, inputs=({"prompt": 'quoted "correct horse" battery'},))
    session = make_session(tmp_path, environ={"HF_TOKEN": 'quoted "correct horse"'}, run=run)
    with pytest.raises(GlowplugError, match=r"the value of HF_TOKEN is in the artifact's record\.json"):
        make_sealed(session)
