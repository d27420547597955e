from __future__ import annotations

import json
from pathlib import Path

import pytest

from glowplug.build.model_image import settle_image
from glowplug.build.spec_file import LoadedSpec, load_spec
from glowplug.core.image import ModelImage
from glowplug.core.spec import CogWorkload, ImageVersion, Overrides
from glowplug.errors import SpecError

DIGEST = "sha256:" + "ab" * 32
ID = "sha256:" + "cd" * 32
LABELS = {
    "run.cog.config": json.dumps({"predict": "predict.py:Predictor"}),
    "run.cog.openapi_schema": json.dumps(
        {
            "components": {
                "schemas": {
                    "Input": {
                        "required": ["prompt"],
                        "properties": {
                            "prompt": {"type": "string"},
                            "steps": {"type": "integer", "default": 4},
                        },
                    }
                }
            }
        }
    ),
}


def image(labels=LABELS, digest=f"ghcr.io/acme/flux@{DIGEST}"):
    return ModelImage("ghcr.io/acme/flux:v3", ID, digest, "amd64", 0, labels=labels)


def load(tmp_path: Path, run: str, version: str = "v3", overrides: Overrides | None = None) -> LoadedSpec:
    path = tmp_path / "glowplug.yaml"
    path.write_text(
        f"model: {{name: flux, version: {version}}}\nrun: {{image: flux:v3{run}}}\nartifact: oci:./cache\n"
    )
    return load_spec(path, {}, overrides)


def problems(tmp_path: Path, run: str, version: str = "v3") -> str:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, run, version)
    return str(caught.value)


@pytest.mark.parametrize(
    ("digest", "version"),
    [(f"ghcr.io/acme/flux@{DIGEST}", "sha256-abababababababab"), (None, "sha256-cdcdcdcdcdcdcdcd")],
)
def test_the_version_may_be_the_image_s_digest(tmp_path, digest, version):
    loaded = load(tmp_path, ", python: 'm:warm'", "{image: digest}")
    assert (loaded.version, loaded.spec.model.version_source) == ("", ImageVersion())
    assert settle_image(loaded, image(digest=digest)).version == version


def test_another_version_stays(tmp_path):
    loaded = load(tmp_path, ", python: 'm:warm'", "{image: digest}", Overrides(version="v9"))
    assert settle_image(loaded, image()).version == "v9"
    assert settle_image(load(tmp_path, ", python: 'm:warm'"), image()).version == "v3"


def test_the_image_is_remembered(tmp_path):
    loaded = load(tmp_path, ", python: 'm:warm'")
    assert loaded.image is None
    assert settle_image(loaded, image()).image == image()


def test_a_version_of_an_image_needs_one(tmp_path):
    path = tmp_path / "glowplug.yaml"
    path.write_text(
        "model: {name: flux, version: {image: digest}}\nrun: {python: 'm:w'}\nartifact: oci:./cache\n"
    )
    with pytest.raises(SpecError, match=r"is the digest of run\.image, but the model runs in none"):
        load_spec(path, {})
    assert "must be digest, but is" in problems(tmp_path, ", python: 'm:w'", "{image: tag}")
    assert "must name one source" in problems(tmp_path, ", python: 'm:w'", "{image: digest, git: commit}")


def test_a_cog_image_says_what_to_run(tmp_path):
    loaded = load(tmp_path, "")
    run = settle_image(loaded, image()).spec.run
    assert run.workload == CogWorkload(".", "predict.py:Predictor")
    assert run.inputs == ({"prompt": "a photo of a cat"},)


def test_the_spec_s_own_inputs_count(tmp_path):
    run = settle_image(load(tmp_path, ", inputs: [{prompt: a dog, steps: 2}, {steps: 1}]"), image()).spec.run
    assert run.inputs == ({"prompt": "a dog", "steps": 2}, {"prompt": "a photo of a cat", "steps": 1})


def test_an_input_that_the_image_does_not_take(tmp_path):
    with pytest.raises(SpecError, match=r"run.inputs\[0\].step: no such input; did you mean 'steps'"):
        settle_image(load(tmp_path, ", inputs: [{step: 2}]"), image())


def test_the_predictor_of_a_cog_yaml_counts_and_the_image_completes_its_inputs(tmp_path):
    (tmp_path / "cog.yaml").write_text("run: other.py:Other\n")
    run = settle_image(load(tmp_path, ", cog: ."), image()).spec.run
    assert run.workload == CogWorkload(".", "other.py:Other")
    assert run.inputs == ({"prompt": "a photo of a cat"},)


def test_an_image_that_cog_did_not_build(tmp_path):
    with pytest.raises(
        SpecError, match=r"names nothing to run, and ghcr\.io/acme/flux:v3 was not built by Cog"
    ):
        settle_image(load(tmp_path, ""), image(labels={}))
    (tmp_path / "cog.yaml").write_text("run: other.py:Other\n")
    run = load(tmp_path, ", cog: .").spec.run
    assert settle_image(load(tmp_path, ", cog: ."), image(labels={})).spec.run == run


@pytest.mark.parametrize("labels", [LABELS, {"run.cog.config": "["}])
def test_what_is_no_cog_workload_does_not_care_for_labels(tmp_path, labels):
    loaded = load(tmp_path, ", python: 'm:warm'")
    assert settle_image(loaded, image(labels)).spec == loaded.spec


def test_keys_of_a_cog_workload_may_stand_beside_the_image(tmp_path):
    loaded = load(tmp_path, ", weights: w.bin, seed: 3")
    assert settle_image(loaded, image()).spec.run.workload == CogWorkload(
        ".", "predict.py:Predictor", weights="w.bin"
    )
    assert "leave dir out" in problems(tmp_path, ", dir: .")
    assert "only a command has it" in problems(tmp_path, ", url: 'http://127.0.0.1:1'")
    assert "must map a predictor's inputs" in problems(tmp_path, ", inputs: [[1]]")
