import os
import re
import subprocess
from pathlib import Path

import pytest

from glowplug.build.spec_file import load_spec
from glowplug.core.reference import LayoutRepository, RegistryRepository
from glowplug.core.spec import CogWorkload, ImageVersion, Overrides
from glowplug.core.spec_schema import KEYS
from glowplug.errors import SpecError, ToolMissingError

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "spec.md"

ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def write(folder, version="v3", run="python: mymodel:warm", artifact="ghcr.io/acme/flux-cache"):
    path = folder / "glowplug.yaml"
    path.write_text(f"model:\n  name: flux\n  version: {version}\nrun:\n  {run}\nartifact: {artifact}\n")
    return path


def error_of(path, environ=ENVIRON, kind=SpecError):
    with pytest.raises(kind) as caught:
        load_spec(path, environ)
    return caught.value


def git(folder, *arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=ENVIRON, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    write(tmp_path, "{git: describe}")
    git(tmp_path, "add", ".")
    return tmp_path


def test_a_spec_is_loaded_with_its_version_folder_and_origins(tmp_path, monkeypatch):
    path = write(tmp_path, '"${SHA}"')
    monkeypatch.chdir(tmp_path)
    loaded = load_spec(Path(path.name), {"SHA": "abc"})
    assert (loaded.version, loaded.folder) == ("abc", tmp_path)
    assert loaded.spec.artifact == RegistryRepository("ghcr.io", "acme/flux-cache")
    assert loaded.origins == {"version": "spec", "artifact": "spec"}


def test_the_digest_does_not_depend_on_the_folder(tmp_path):
    digests = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        digests.add(load_spec(write(tmp_path / name, artifact="oci:cache"), {}).spec.digest())
    assert len(digests) == 1


def test_problems_carry_the_line_of_the_file(tmp_path):
    path = write(tmp_path, "1.10", "pyhton: mymodel:warm", "ghcr.io/acme/Flux")
    assert str(error_of(path)).replace(f"{tmp_path}/", "").splitlines() == [
        "glowplug.yaml:3: model.version: 1.10 was read by YAML as the number 1.1; quote it",
        "glowplug.yaml:4: run: names nothing to run; write python: mymodel:warm, cog: . or command: [...]",
        "glowplug.yaml:5: run.pyhton: unknown key; did you mean 'python'?",
        (
            "glowplug.yaml:6: artifact: 'ghcr.io/acme/Flux' has no valid repository name; "
            "repository names are lower-case"
        ),
    ]


def test_keys_written_twice_are_reported_with_the_rest(tmp_path):
    path = write(tmp_path, run="seed: x\n  python: a:b\n  seed: 1.5")
    assert str(error_of(path)).replace(f"{tmp_path}/", "").splitlines() == [
        "glowplug.yaml:7: run.seed: is written twice, first on line 5",
        "glowplug.yaml:7: run.seed: must be a whole number, but is the number 1.5",
    ]


def test_a_layout_in_the_spec_is_relative_to_the_spec(tmp_path):
    assert load_spec(write(tmp_path, artifact="oci:./build/cache"), {}).spec.artifact == LayoutRepository(
        f"{tmp_path}/build/cache"
    )
    assert load_spec(write(tmp_path, artifact="oci:/cache"), {}).spec.artifact == LayoutRepository("/cache")


def test_overrides_keep_their_origin_and_stay_as_given(tmp_path):
    path = write(tmp_path, '"${UNSET}"')
    environ = {"GLOWPLUG_VERSION": "v8", "GLOWPLUG_ARTIFACT": "oci:here"}
    loaded = load_spec(path, environ, Overrides(version="v9"))
    assert loaded.version == "v9"
    assert loaded.spec.artifact == LayoutRepository("here")
    assert loaded.origins == {"version": "flag", "artifact": "environment"}


def test_cog_yaml_is_found_from_the_spec(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "cog.yaml").write_text("run: predict.py:Predictor\nenvironment: [A=1]\n")
    loaded = load_spec(write(tmp_path, run="cog: model"), {})
    assert loaded.spec.run.workload == CogWorkload("model", "predict.py:Predictor", {"A": "1"})


def test_a_problem_of_cog_yaml_names_both_files(tmp_path):
    (tmp_path / "cog.yaml").write_text("run: 3\n")
    assert str(error_of(write(tmp_path, run="cog: ."))).replace(f"{tmp_path}/", "") == (
        "glowplug.yaml:5: run.cog: cog.yaml:1: run: 3 was read by YAML as the number 3; quote it"
    )


def test_git_describes_tags_and_changes(repository):
    spec = repository / "glowplug.yaml"
    git(repository, "commit", "-qm", "first")
    commit = git(repository, "rev-parse", "HEAD")
    assert commit.startswith(load_spec(spec, ENVIRON).version)
    git(repository, "tag", "v1.0")
    assert load_spec(spec, ENVIRON).version == "v1.0"
    with spec.open("a") as file:
        file.write("# changed\n")
    assert load_spec(spec, ENVIRON).version == "v1.0-dirty"


def test_git_commit_is_the_full_hash_whatever_tags_there_are(repository):
    write(repository, "{git: commit}")
    git(repository, "commit", "-qam", "first")
    git(repository, "tag", "v1.0")
    commit = git(repository, "rev-parse", "HEAD")
    assert load_spec(repository / "glowplug.yaml", ENVIRON).version == commit
    write(repository, '{git: "commit"}')
    assert load_spec(repository / "glowplug.yaml", ENVIRON).version == f"{commit}-dirty"


def test_git_without_a_commit(repository):
    error = error_of(repository / "glowplug.yaml")
    assert str(error) == (
        f"{repository}/glowplug.yaml:3: model.version: the git repository of {repository} has no commit yet"
    )
    assert "--version" in error.hint


def test_git_outside_a_repository(tmp_path):
    error = error_of(write(tmp_path, "{git: describe}"))
    assert str(error) == f"{tmp_path}/glowplug.yaml:3: model.version: {tmp_path} is not in a git repository"
    assert "GLOWPLUG_VERSION" in error.hint


def test_git_that_is_not_installed(tmp_path):
    error = error_of(write(tmp_path, "{git: describe}"), {"PATH": str(tmp_path)}, ToolMissingError)
    assert str(error) == "model.version asks git, which is not installed"
    assert error.hint.startswith("install git, or write the version as text")


@pytest.mark.parametrize(
    ("stderr", "message", "hint"),
    [
        (
            "fatal: detected dubious ownership in repository at '/x'",
            "git does not trust {folder}, which belongs to another user",
            "git config --global --add safe.directory {folder}",
        ),
        (
            "warning: x\nfatal: out of luck",
            "git failed: fatal: out of luck",
            'write the version as text ("${{GIT_SHA}}"), or give it with --version or GLOWPLUG_VERSION',
        ),
    ],
)
def test_what_git_refuses(tmp_path, stderr, message, hint):
    program = tmp_path / "git"
    program.write_text(f'#!/bin/sh\necho "{stderr}" >&2\nexit 128\n')
    program.chmod(0o755)
    error = error_of(write(tmp_path, "{git: describe}"), {"PATH": str(tmp_path)})
    assert str(error).endswith(f": model.version: {message.format(folder=tmp_path)}")
    assert error.hint == hint.format(folder=tmp_path)


def test_a_tag_of_git_may_be_too_long(repository):
    git(repository, "commit", "-qm", "first")
    git(repository, "tag", "v" * 65)
    error = error_of(repository / "glowplug.yaml")
    assert "is 65 characters long, which leaves no room for the GPU type in a tag; use at most 64" in str(
        error
    )


def test_a_file_version_follows_the_content(tmp_path):
    path = write(tmp_path, "{file: weights.bin}")
    (tmp_path / "weights.bin").write_bytes(b"abc")
    assert load_spec(path, {}).version == "sha256-ba7816bf8f01cfea"  # FIPS 180-2, appendix B.1
    (tmp_path / "weights.bin").write_bytes(b"abd")
    assert load_spec(path, {}).version != "sha256-ba7816bf8f01cfea"


def folder_version(folder, files):
    weights = folder / "weights"
    for name, content in files.items():
        (weights / name).parent.mkdir(parents=True, exist_ok=True)
        (weights / name).write_bytes(content)
    return load_spec(write(folder, "{file: weights}"), {}).version


@pytest.mark.parametrize(
    ("files", "same"),
    [
        ({"b/y": b"2", "a": b"1"}, True),
        ({"a": b"1", "b/y": b"3"}, False),
        ({"a": b"1", "b/z": b"2"}, False),
        ({"a": b"1", "b/y": b"2", "c": b""}, False),
    ],
)
def test_a_folder_version_follows_names_and_contents(tmp_path, files, same):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = folder_version(tmp_path / "one", {"a": b"1", "b/y": b"2"})
    assert (folder_version(tmp_path / "two", files) == first) is same


def test_a_link_in_a_folder_counts_as_the_file(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "weights").mkdir(parents=True)
    (tmp_path / "blob").write_bytes(b"1")
    (tmp_path / "two" / "weights" / "a").symlink_to(tmp_path / "blob")
    assert folder_version(tmp_path / "one", {"a": b"1"}) == folder_version(tmp_path / "two", {})


def test_weights_that_cannot_be_hashed(tmp_path):
    place = f"{tmp_path}/glowplug.yaml:3: model.version: "
    path = write(tmp_path, "{file: weights}")
    assert str(error_of(path)) == f"{place}{tmp_path}/weights cannot be read: No such file or directory"
    (tmp_path / "weights").mkdir()
    assert str(error_of(path)) == f"{place}{tmp_path}/weights holds no file"
    (tmp_path / "weights" / "link").symlink_to(tmp_path)
    assert str(error_of(path)) == (
        f"{place}{tmp_path}/weights/link is a link to a folder, and links to folders are not followed"
    )


def test_the_reference_documents_exactly_the_keys_there_are():
    expected = {f"{section}.{key}" if section else key for section, keys in KEYS.items() for key in keys}
    documented = re.findall(r"^#+ `([a-z_.]+)`", REFERENCE.read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(expected)


def test_the_examples_of_the_reference_are_valid(repository):
    git(repository, "commit", "-qm", "first")
    (repository / "cog.yaml").write_text("run: predict.py:Predictor\n")
    (repository / "weights.bin").write_bytes(b"w")
    (repository / "cat.png").write_bytes(b"a cat")
    examples = re.findall(r"^```yaml\n(.*?)^```", REFERENCE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        (repository / "glowplug.yaml").write_text(example)
        loaded = load_spec(repository / "glowplug.yaml", ENVIRON | {"GIT_SHA": "abc"})
        assert bool(loaded.version) != isinstance(loaded.spec.model.version_source, ImageVersion)
