import pytest

from glowplug.core.document import Document, Problems, Section
from glowplug.core.image_schema import parse_image
from glowplug.core.image_spec import ImageSpec, Volume
from glowplug.errors import SpecError

ENVIRON = {"GIT_SHA": "0f3c", "HOME": "/home/ci", "TOKEN": "hush"}


def parse(run):
    problems = Problems(Document("glowplug.yaml", {"run": run}))
    image = parse_image(Section(problems, "run", run), problems, ENVIRON, ["TOKEN"])
    problems.raise_if_any()
    return image


def docker(**keys):
    return parse({"image": "flux:v3", "docker": keys})


def problems_of(run):
    with pytest.raises(SpecError) as caught:
        parse(run)
    return [line.removeprefix("glowplug.yaml: ") for line in str(caught.value).splitlines()]


def test_without_an_image_the_model_runs_here():
    assert parse({"python": "m:f"}) is None


def test_an_image_alone_gets_the_defaults():
    assert parse({"image": "flux:v3"}) == ImageSpec("flux:v3", None, None, None, None, "missing", None, ())


def test_every_key_is_read():
    assert docker(
        gpus="all",
        entrypoint=["/bin/env"],
        init=False,
        network="host",
        pull="never",
        shm_size="8GiB",
        volumes=["hub:/hub", "./weights:/weights:ro", "${HOME}/data:/data/:rw", "/a:/b"],
    ) == ImageSpec(
        "flux:v3",
        gpus="all",
        entrypoint=("/bin/env",),
        init=False,
        network="host",
        pull="never",
        shm_size_bytes=8 * 1024**3,
        volumes=(
            Volume("hub", "/hub"),
            Volume("./weights", "/weights", read_only=True),
            Volume("/home/ci/data", "/data"),
            Volume("/a", "/b"),
        ),
    )


@pytest.mark.parametrize(
    "reference",
    [
        "flux",
        "flux:${GIT_SHA}",
        "ghcr.io/acme/flux:v3",
        "localhost:5000/flux",
        f"ghcr.io/acme/flux@sha256:{'a' * 64}",
    ],
)
def test_names_of_images_are_taken_as_docker_takes_them(reference):
    assert parse({"image": reference}).reference == reference.replace("${GIT_SHA}", "0f3c")


@pytest.mark.parametrize(
    "reference", ["Flux:1", "flux:", "flux@sha256:12", "oci:./layout:v1", "a b", "${TOKEN}"]
)
def test_what_is_no_image_is_a_problem(reference):
    assert problems_of({"image": reference})[0].startswith("run.image: ")


@pytest.mark.parametrize("gpus", ["all", 1, 8])
def test_gpus_by_number(gpus):
    assert docker(gpus=gpus).gpus == gpus


def test_gpus_by_name():
    assert docker(gpus=["0", "MIG-1"]).gpus == ("0", "MIG-1")


def test_an_empty_entrypoint_is_not_the_same_as_none():
    assert docker(entrypoint=[]).entrypoint == ()


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("64KiB", 65536), ("512MiB", 512 << 20), ("8 GiB", 8 << 30)]
)
def test_sizes_have_units(text, size_bytes):
    assert docker(shm_size=text).shm_size_bytes == size_bytes


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"gpu": "all"}, "run.docker.gpu: unknown key; did you mean 'gpus'?"),
        ({"gpus": "2"}, "run.docker.gpus: must be all, a number of GPUs or a list of their names, but is the text '2'"),
        ({"gpus": 0}, "run.docker.gpus: must be a number of at least 1, but is 0"),
        ({"gpus": True}, "run.docker.gpus: must be a number, but is the truth value true"),
        ({"gpus": []}, "run.docker.gpus: lists nothing; leave the key out for no GPU"),
        ({"gpus": [0]}, "run.docker.gpus[0]: must be text, but is the number 0; quote it"),
        ({"gpus": None}, "run.docker.gpus: is empty; write a value, or leave the key out"),
        ({"init": "yes"}, "run.docker.init: must be true or false, but is the text 'yes'"),
        ({"entrypoint": "tini"}, "run.docker.entrypoint: must be a list, one '- ' line per entry, but is the text 'tini'"),
        ({"entrypoint": [""]}, "run.docker.entrypoint[0]: is empty"),
        ({"pull": "sometimes"}, "run.docker.pull: must be missing, always or never, but is the text 'sometimes'"),
        ({"shm_size": 8}, "run.docker.shm_size: has no unit; write 8GiB or 512MiB"),
        ({"shm_size": "8GB"}, "run.docker.shm_size: must be a size such as 8GiB or 512MiB, but is the text '8GB'"),
        ({"network": 1}, "run.docker.network: must be text, but is the number 1; quote it"),
        ({"volumes": ["~/w:/w"]}, "run.docker.volumes[0]: the text '~/w:/w': '~' is not replaced; write ${HOME}"),
        ({"volumes": ["/a:/b", "/c:/b/"]}, "run.docker.volumes[1]: /b has a volume already"),
        ({"volumes": ["${TOKEN}:/b"]}, "run.docker.volumes[0]: ${TOKEN} is a secret (run.secrets), and would be recorded here"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(keys, problem):
    assert problems_of({"image": "flux:v3", "docker": keys}) == [problem]


@pytest.mark.parametrize(
    "volume", ["/weights", "/a:b", "/a:/", "/a:/b:rx", "/a:/b:ro:z", "we ights:/a", ":/a", "x:/a"]
)
def test_a_volume_has_two_sides(volume):
    [problem] = problems_of({"image": "flux:v3", "docker": {"volumes": [volume]}})
    assert problem.startswith("run.docker.volumes[0]: ")
    assert "write NAME:/PATH or ./PATH:/PATH" in problem


def test_all_problems_are_told_at_once():
    assert (
        len(problems_of({"image": "Flux", "docker": {"gpus": 0, "init": 1, "pull": "x", "volumes": ["a"]}}))
        == 5
    )


def test_docker_without_an_image_is_a_problem():
    assert problems_of({"docker": {}}) == [
        "run.docker: says how containers of an image are made, but run.image names none"
    ]
