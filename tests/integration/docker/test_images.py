"""The image has to be there, to fit, and to have room, before a container is made of it."""

import hashlib
import io
import json
import os
import socket
import tarfile

import pytest

from glowplug.core.image_spec import Volume
from glowplug.engine.docker.client import connect
from glowplug.errors import DeniedError, EngineError, NotFoundError, UnavailableError
from integration.docker.images import TORCH
from integration.docker.runs import Runs
from integration.services import free_port


@pytest.fixture
def pushed(docker, registry):
    """A small image in a registry, which the engine does not have."""
    name = f"{registry.host}/docker-engine/tiny"
    docker.build(f"{name}:1", "FROM scratch\nCOPY Dockerfile /some-file\nENV GREETING=hello\n")
    for event in docker.api.push(name, "1", stream=True, decode=True):
        assert "error" not in event, event
    docker.api.remove_image(f"{name}:1")
    return f"{name}:1"


def opened(docker, tmp_path, image, **spec):
    with Runs(docker, tmp_path).engine(image, **spec) as engine:
        return engine.image


def refused(docker, tmp_path, image, **spec):
    """Return the message of an image without Python that is otherwise all right: it got as far as to look for that."""
    with pytest.raises(EngineError, match="has no python and no python3") as caught:
        opened(docker, tmp_path, image, **spec)
    assert docker.containers() == []
    return str(caught.value)


def test_what_the_image_says_of_itself(docker, tmp_path, app_image):
    image = opened(docker, tmp_path, app_image)
    assert image.entrypoint == ("/bin/sh", "/entrypoint.sh")
    assert image.command[0] == "python"
    assert (str(image.workdir), image.user, image.env["FROM_IMAGE"]) == ("/home/app", "app", "yes")
    assert image.digest is None
    assert image.identity == docker.api.inspect_image(app_image)["Id"]
    assert image.size_bytes > 100_000_000


@pytest.mark.parametrize("pull", ["missing", "always"])
def test_a_missing_image_is_pulled(docker, tmp_path, pushed, pull):
    assert "tiny" in refused(docker, tmp_path, pushed, pull=pull)
    docker.api.remove_image(pushed)


def test_a_pulled_image_has_a_digest(docker, tmp_path, pushed, registry):
    refused(docker, tmp_path, pushed)
    repository, digest = docker.api.inspect_image(pushed)["RepoDigests"][0].split("@")
    assert repository == f"{registry.host}/docker-engine/tiny"
    by_digest = f"{repository}@{digest}"
    docker.api.remove_image(pushed)
    assert by_digest in refused(docker, tmp_path, by_digest)


def test_an_image_that_must_not_be_pulled_is_not(docker, tmp_path, pushed):
    with pytest.raises(NotFoundError, match="has no image") as caught:
        opened(docker, tmp_path, pushed, pull="never")
    assert "run.docker.pull" in caught.value.hint


def test_an_unknown_tag_is_not_found(docker, tmp_path, pushed):
    with pytest.raises(NotFoundError, match="there is no image"):
        opened(docker, tmp_path, f"{pushed}-other")


def test_a_registry_that_wants_a_login_denies(docker, tmp_path, private_registry):
    with pytest.raises(DeniedError, match="does not hand out") as caught:
        opened(docker, tmp_path, f"{private_registry.host}/secret/model:1")
    assert "docker login" in caught.value.hint


def test_a_registry_that_is_down_is_unavailable(docker, tmp_path):
    with pytest.raises(UnavailableError, match="cannot be reached"):
        opened(docker, tmp_path, f"127.0.0.1:{free_port()}/model:1")


def test_a_name_that_no_image_has_is_refused(docker, tmp_path):
    with pytest.raises(EngineError, match="Flux:1 is no name of an image"):
        opened(docker, tmp_path, "Flux:1")


def test_an_image_for_another_architecture_is_refused(docker, tmp_path):
    other = "arm64" if docker.api.version()["Arch"] != "arm64" else "amd64"
    list(docker.api.load_image(saved_image("glowplug-test/other:1", other)))
    with pytest.raises(EngineError, match=f"is made for {other}"):
        opened(docker, tmp_path, "glowplug-test/other:1")


def saved_image(reference, architecture):
    """Return an empty image as `docker save` writes it."""
    layer = archive({})
    diff_id = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {
        "architecture": architecture,
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    documents = {"config.json": config, "manifest.json": manifest}
    return archive({"layer.tar": layer, **{n: json.dumps(value).encode() for n, value in documents.items()}})


def archive(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def test_programs_for_another_architecture_are_told(docker, tmp_path):
    """A text that is no script fails as a program for another processor does."""
    docker.build("glowplug-test/broken:1", "FROM scratch\nENV PATH=/bin\nCOPY Dockerfile /bin/python\n")
    runs = Runs(docker, tmp_path)
    with (
        runs.engine("glowplug-test/broken:1", init=False) as engine,
        pytest.raises(EngineError, match="architecture"),
    ):
        runs.within(engine, "")


def test_an_unknown_user_is_told(docker, tmp_path):
    docker.build("glowplug-test/nobody:1", f"FROM {TORCH}\nUSER ghost\n")
    with pytest.raises(EngineError, match="USER is ghost"):
        opened(docker, tmp_path, "glowplug-test/nobody:1")


def test_an_unknown_network_is_told(runs):
    with pytest.raises(EngineError, match="no network no-such-net") as caught:
        runs.python("", network="no-such-net")
    assert "run.docker.network" in caught.value.hint


def test_a_missing_folder_of_a_volume_is_told(runs):
    with pytest.raises(EngineError, match="has no folder /no/such/folder"):
        runs.python("", volumes=(Volume("/no/such/folder", "/x"),))


def test_no_engine_is_told(tmp_path, docker):
    gone = type(docker)(tmp_path, docker.api)
    with pytest.raises(EngineError, match="there is no such socket") as caught:
        opened(gone, tmp_path, TORCH)
    assert "DOCKER_HOST" in caught.value.hint


def test_a_socket_without_an_engine_is_told(tmp_path, docker):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "socket"))
    with pytest.raises(EngineError, match="the connection is refused"):
        opened(type(docker)(tmp_path, docker.api), tmp_path, TORCH)


def test_an_engine_of_somebody_else_is_told(docker, tmp_path):
    docker.folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(EngineError, match="this user may not use the Docker engine") as caught:
            opened(docker, tmp_path, TORCH)
    finally:
        os.seteuid(0)
    assert "group docker" in caught.value.hint


def test_a_full_disk_is_told(plain_docker, tmp_path, pushed):
    with plain_docker.full_disk():
        with pytest.raises(EngineError, match=r"disk has 0\.0 GiB left"):
            opened(plain_docker, tmp_path, "tiny:1")
        with pytest.raises(EngineError, match="disk is full"):
            opened(plain_docker, tmp_path, pushed)


def test_the_engine_is_the_one_of_dockers_current_context(docker, tmp_path, monkeypatch):
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"builder").hexdigest()
    meta.mkdir(parents=True)
    host = docker.environ["DOCKER_HOST"]
    (tmp_path / "config.json").write_text('{"currentContext": "builder"}')
    (meta / "meta.json").write_text(
        json.dumps({"Name": "builder", "Metadata": {}, "Endpoints": {"docker": {"Host": host}}})
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with connect({}) as client:
        assert client.host == host
