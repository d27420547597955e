from __future__ import annotations

import json

import pytest

from glowplug.errors import SpecError
from glowplug.workload.cog_image import read_cog_labels, read_packages
from glowplug.workload.cog_inputs import CogInput, complete_inputs, read_inputs

# As `cog build` writes them, shortened.
CONFIG = {
    "build": {"gpu": True, "cuda": "12.4", "python_version": "3.11", "python_packages": ["torch==2.5.1"]},
    "predict": "predict.py:Predictor",
    "concurrency": {"max": 1},
}
SCHEMA = {
    "openapi": "3.0.2",
    "components": {
        "schemas": {
            "Input": {
                "title": "Input",
                "type": "object",
                "required": ["prompt", "image", "megapixels"],
                "properties": {
                    "seed": {
                        "anyOf": [{"type": "integer"}, {"type": "null"}],
                        "title": "Seed",
                        "x-order": 3,
                    },
                    "prompt": {"type": "string", "title": "Prompt", "x-order": 0},
                    "image": {"type": "string", "format": "uri", "title": "Image", "x-order": 1},
                    "steps": {
                        "type": "integer",
                        "title": "Steps",
                        "default": 4,
                        "minimum": 1,
                        "maximum": 12,
                        "x-order": 4,
                    },
                    "megapixels": {
                        "allOf": [{"$ref": "#/components/schemas/megapixels"}],
                        "description": "Size",
                        "x-order": 2,
                    },
                    "aspect_ratio": {
                        "allOf": [{"$ref": "#/components/schemas/aspect_ratio"}],
                        "default": "1:1",
                        "x-order": 5,
                    },
                },
            },
            "megapixels": {"title": "megapixels", "type": "string", "enum": ["1", "0.25"]},
            "aspect_ratio": {"title": "aspect_ratio", "type": "string", "enum": ["1:1", "16:9"]},
            "Output": {"type": "array"},
        }
    },
}
FREEZE = """\
diffusers==0.31.0
-e git+https://example.org/thing.git@abc#egg=thing
# a comment
pytorch-triton==3.1.0 ; python_version >= "3.8"
torch==2.5.1+cu124
torchvision @ https://example.org/whl/cu124/torchvision-0.20.1%2Bcu124-cp311-cp311-linux_x86_64.whl#sha256=00
Typing_Extensions===4.12.2
local @ file:///src/local
"""
LABELS = {
    "run.cog.version": "0.14.1",
    "run.cog.config": json.dumps(CONFIG),
    "run.cog.openapi_schema": json.dumps(SCHEMA),
    "run.cog.pip_freeze": FREEZE,
    "org.opencontainers.image.revision": "0f3c1a2",
}


def cog(**labels):
    found = read_cog_labels({**LABELS, **labels})
    assert found is not None
    return found


def test_a_cog_image_names_its_predictor_and_its_torch():
    found = cog()
    assert found.ref == "predict.py:Predictor"
    assert (found.torch, found.python, found.cuda) == ("2.5.1+cu124", "3.11", "12.4")


def test_inputs_are_in_the_predictor_s_order_with_types_limits_and_choices():
    assert cog().inputs == (
        CogInput("prompt", "string", required=True, example="a photo of a cat"),
        CogInput("image", "file", required=True),
        CogInput("megapixels", "string", required=True, choices=("1", "0.25"), example="1"),
        CogInput("seed", "integer", example=1),
        CogInput("steps", "integer", default=4, minimum=1, maximum=12, example=4),
        CogInput("aspect_ratio", "string", default="1:1", choices=("1:1", "16:9"), example="1:1"),
    )


def test_labels_of_old_images():
    labels = {name.replace("run.cog.", "org.cogmodel."): value for name, value in LABELS.items()}
    assert read_cog_labels(labels) == cog()


def test_a_current_label_comes_before_an_old_one():
    old = json.dumps({"predict": "old.py:Predictor"})
    assert cog(**{"org.cogmodel.config": old}).ref == "predict.py:Predictor"


@pytest.mark.parametrize("key", ["predict", "run"])
def test_the_predictor_under_both_of_its_names(key):
    assert cog(**{"run.cog.config": json.dumps({key: "run.py:Runner"})}).ref == "run.py:Runner"


@pytest.mark.parametrize("labels", [{}, {"org.opencontainers.image.title": "x"}, {"run.cog.config": ""}])
def test_an_image_that_cog_did_not_build(labels):
    assert read_cog_labels(labels) is None


def test_labels_that_say_less():
    found = read_cog_labels({"run.cog.config": '{"predict": "predict.py:Predictor"}'})
    assert found is not None
    assert (found.inputs, found.packages, found.torch, found.python, found.cuda) == (None, {}, "", "", "")


@pytest.mark.parametrize(
    "config",
    [
        "[",
        "[]",
        "7",
        "null",
        "{}",
        '{"predict": ""}',
        '{"predict": 7}',
        '{"predict": ["a.py:B"]}',
        '{"predict": "predict.py"}',
        '{"predict": "predict.py:Predictor; rm -rf /"}',
        '{"predict": "\\ud800.py:P"}',
        '{"predict": "a.py:P", "x": "\\ud800"}',
        '{"a":' * 100_000,
        "\ud800",
    ],
)
def test_a_config_that_names_no_predictor(config):
    with pytest.raises(SpecError, match=r"label run\.cog\.config") as caught:
        cog(**{"run.cog.config": config})
    assert "run.python" in caught.value.hint


@pytest.mark.parametrize("schema", ["[", "[]", "7", "[" * 100_000])
def test_a_schema_that_is_none(schema):
    with pytest.raises(SpecError, match="openapi_schema"):
        cog(**{"run.cog.openapi_schema": schema})


def properties(**values):
    return {"components": {"schemas": {"Input": {"properties": values}}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"components": []},
        {"components": {"schemas": None}},
        {"components": {"schemas": {"Input": 7}}},
        {"components": {"schemas": {"Input": {"properties": [1], "required": "prompt"}}}},
    ],
)
def test_a_schema_without_inputs(schema):
    assert read_inputs(schema) == ()


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        [],
        {"type": ["string", "null"]},
        {"type": {}, "minimum": "1", "maximum": True, "x-order": "first", "enum": "abc"},
        {"allOf": [{"$ref": "#/components/schemas/loop"}]},
        {"allOf": "text", "anyOf": [None, 7]},
        {"$ref": "https://example.org/x"},
        {"$ref": 7},
    ],
)
def test_what_cog_would_not_write_reads_as_absent(value):
    schema = properties(x=value)
    schema["components"]["schemas"]["loop"] = {"allOf": [{"$ref": "#/components/schemas/loop"}]}
    assert read_inputs(schema) == (CogInput("x"),)


@pytest.mark.parametrize(
    ("said", "example"),
    [
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 64, "maximum": 1024}, 64),
        ({"type": "integer", "minimum": -5, "maximum": 0}, 0),
        ({"type": "number", "minimum": 1.5}, 1.5),
        ({"type": "number", "maximum": 0.5}, 0.5),
        ({"type": "boolean"}, False),
        ({"type": "string", "example": "a dog"}, "a dog"),
        ({"type": "string", "examples": ["a fox"]}, "a fox"),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "array", "items": {"type": "string"}}, ["a photo of a cat"]),
        ({"type": "array", "items": {"type": "integer", "minimum": 3}}, [3]),
        ({"type": "array", "items": {"type": "string", "format": "uri"}}, None),
        ({"type": "array"}, None),
        ({"type": "string", "format": "uri"}, None),
        ({}, None),
    ],
)
def test_examples_are_what_the_predictor_takes(said, example):
    (one,) = read_inputs(properties(x=said))
    assert one.example == example
    assert type(one.example) is type(example)


def test_inputs_get_what_is_required_and_nothing_else():
    given = [{"image": "cat.png"}, {"image": "cat.png", "prompt": "a dog", "steps": 2}]
    assert complete_inputs(given, cog().inputs) == (
        {"image": "cat.png", "prompt": "a photo of a cat", "megapixels": "1"},
        {"image": "cat.png", "prompt": "a dog", "steps": 2, "megapixels": "1"},
    )


def test_mistakes_are_found_before_the_model_runs():
    with pytest.raises(SpecError) as caught:
        complete_inputs([{"promt": "a cat", "image": "x"}, {"aspect_ratio": "2:1"}, [1]], cog().inputs)
    assert str(caught.value).splitlines() == [
        "run.inputs[0].promt: no such input; did you mean 'prompt'?",
        "run.inputs[1].image: is missing, and no file can be made up; give one",
        "run.inputs[1].aspect_ratio: must be one of '1:1', '16:9'",
        "run.inputs[2]: must map the predictor's inputs to values",
    ]


def test_versions_are_read_from_pip_freeze():
    assert read_packages(FREEZE) == {
        "diffusers": "0.31.0",
        "pytorch-triton": "3.1.0",
        "torch": "2.5.1+cu124",
        "torchvision": "0.20.1+cu124",
        "typing-extensions": "4.12.2",
    }


@pytest.mark.parametrize(
    "freeze",
    ["", "torch", "torch>=2", "torch @ file:///src/torch", "torch @ file:///x-1.whl", "==", "\0" * 100],
)
def test_what_has_no_version(freeze):
    assert read_packages(freeze) == {}


@pytest.mark.parametrize("end", ["/" + "-1" * 200_000, "/" * 200_000 + ".whl", "=" * 200_000])
def test_a_long_line_is_no_package(end):
    assert read_packages("a" * 200_000 + " @ " + end) == {}
