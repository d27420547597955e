"""A registry behind TLS whose certificate only the environment vouches for."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from glowplug.core.oci import MANIFEST_TYPE, Document, encode
from glowplug.core.reference import RegistryRepository
from glowplug.errors import UnavailableError
from glowplug.registry.source import open_source
from integration.registry.artifacts import Connect
from integration.registry.scripted import Answer, Request, Script, Serve
from integration.services import find_program

DOCUMENT = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE}))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The server's certificate."""
    return self_signed(tmp_path / "certificate.pem")


def self_signed(path: Path) -> Path:
    """Make a certificate for 127.0.0.1, with its key in the same file."""
    openssl = find_program("openssl", package="openssl")
    command = (
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=tests"
    )
    subprocess.run(
        [
            *command.split(),
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(path),
            "-out",
            f"{path}.crt",
        ],
        check=True,
        capture_output=True,
    )
    with path.open("ab") as out:
        out.write(Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def encrypted(serve: Serve, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """A registry over TLS that must not be taken for one on this machine, where plain HTTP is the rule."""
    monkeypatch.setattr(RegistryRepository, "is_loopback", property(lambda _: False))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def decide(request: Request) -> Answer:
        return Answer(201 if request.method == "PUT" else 200, DOCUMENT.raw, {"Content-Type": MANIFEST_TYPE})

    return serve(decide, context)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_with_the_certificate(
    connect: Connect, encrypted: Script, certificate: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(certificate))
    with connect(encrypted.repository()) as sink:
        sink.put_document(DOCUMENT, "v1")
    with open_source(encrypted.repository()) as source:
        assert source.resolve("v1") == DOCUMENT
    assert [r.method for r in encrypted.requests] == ["PUT", "GET"]


def test_without_the_certificate(connect: Connect, encrypted: Script) -> None:
    with open_source(encrypted.repository()) as source, pytest.raises(UnavailableError) as caught:
        source.resolve("v1")
    assert "self-signed certificate" in str(caught.value)
    assert "SSL_CERT_FILE" in caught.value.hint
    with connect(encrypted.repository()) as sink, pytest.raises(UnavailableError, match="self-signed"):
        sink.put_document(DOCUMENT, "v1")
    assert encrypted.requests == []


def test_a_named_certificate_is_the_only_one_trusted(
    connect: Connect, encrypted: Script, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(certificate))  # as if it were public
    monkeypatch.setenv("SSL_CERT_FILE", str(self_signed(tmp_path / "other.pem")))
    with connect(encrypted.repository()) as sink, pytest.raises(UnavailableError, match="cannot trust"):
        sink.put_document(DOCUMENT, "v1")


def test_a_certificate_file_that_is_not_there(
    connect: Connect, encrypted: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    with open_source(encrypted.repository()) as source, pytest.raises(UnavailableError, match=r"absent\.pem"):
        source.resolve("v1")
    with (
        pytest.raises(UnavailableError, match=r"absent\.pem"),
        connect(encrypted.repository()) as sink,
    ):
        sink.check_push()
