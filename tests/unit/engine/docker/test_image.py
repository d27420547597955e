import pytest

from glowplug.engine.docker.image import image_from_json, owner_ids
from glowplug.errors import EngineError

PASSWD = "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1000:1001::/home/app:/bin/sh\n2000:x:7:8::/:/bin/sh\n"
GROUP = "root:x:0:\nstaff:x:50:app\n"


@pytest.mark.parametrize(
    ("user", "ids"),
    [
        ("", (0, 0)),
        ("root", (0, 0)),
        ("app", (1000, 1001)),
        ("1000", (1000, 1001)),
        ("app:staff", (1000, 50)),
        ("1000:50", (1000, 50)),
        ("4242", (4242, 0)),
        ("4242:4343", (4242, 4343)),
        ("2000", (2000, 0)),  # digits are never a name
    ],
)
def test_a_user_is_found_as_the_engine_finds_it(user, ids):
    assert owner_ids(user, PASSWD, GROUP) == ids


def test_an_image_without_tables_has_numbers_only():
    assert owner_ids("1000:1000", "", "") == (1000, 1000)


@pytest.mark.parametrize(("user", "named"), [("ghost", "ghost"), ("app:ghosts", "ghosts")])
def test_a_name_that_the_image_does_not_know_is_told(user, named):
    with pytest.raises(EngineError, match=named) as caught:
        owner_ids(user, PASSWD, GROUP)
    assert "Dockerfile" in caught.value.hint


DIGESTS = ["ghcr.io/acme/flux@sha256:aa", "localhost:5000/flux@sha256:bb"]


@pytest.mark.parametrize(
    ("reference", "digest"),
    [
        ("ghcr.io/acme/flux:v1", DIGESTS[0]),
        ("localhost:5000/flux", DIGESTS[1]),
        ("localhost:5000/flux:v1", DIGESTS[1]),
        ("localhost:5000/flux@sha256:bb", DIGESTS[1]),
        ("sha256:1234", DIGESTS[0]),
    ],
)
def test_the_digest_is_the_one_of_the_named_repository(reference, digest):
    assert image_from_json(reference, {"Id": "sha256:1234", "RepoDigests": DIGESTS}).digest == digest


def test_an_image_that_was_only_built_has_no_digest():
    image = image_from_json("flux:1", {"Id": "sha256:1234", "RepoDigests": None, "Config": None})
    assert (image.digest, image.identity) == (None, "sha256:1234")
