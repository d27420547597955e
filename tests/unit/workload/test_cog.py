import pytest

from glowplug.core.spec import CogConfig
from glowplug.errors import SpecError
from glowplug.workload.cog import read_cog


def read(folder, content):
    (folder / "cog.yaml").write_text(content)
    return read_cog(folder)


@pytest.mark.parametrize("key", ["run", "predict"])
def test_both_names_of_the_predictor_are_read(tmp_path, key):
    assert read(tmp_path, f"{key}: src/predict.py:Predictor\n") == CogConfig("src/predict.py:Predictor")


def test_the_environment_is_read_and_the_rest_is_left_to_cog(tmp_path):
    config = read(
        tmp_path,
        'build:\n  gpu: true\n  python_version: "3.11"\nrun: run.py:run\n'
        "environment:\n  - A=1\n  - B=x=y\n  - EMPTY=\nconcurrency:\n  max: 4\n",
    )
    assert config == CogConfig("run.py:run", {"A": "1", "B": "x=y", "EMPTY": ""})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[]", ["cog.yaml: must be a mapping of keys to values, but is a list"]),
        ("build: {gpu: true}", ["cog.yaml: names no predictor; write run: predict.py:Predictor"]),
        ("run: a.py:A\npredict: a.py:A\n", ["cog.yaml:2: predict: is the old name of run; keep one"]),
        (
            "build: {}\nrun: predict.Predictor\nenvironment:\n  - A\n  - A: 1\n",
            [
                "cog.yaml:2: run: must look like predict.py:Predictor, but is the text 'predict.Predictor'",
                "cog.yaml:4: environment[0]: must look like NAME=value, but is the text 'A'",
                "cog.yaml:5: environment[1]: must look like NAME=value, but is a mapping",
            ],
        ),
        ("run:\n", ["cog.yaml:1: run: is empty; write a value, or leave the key out"]),
    ],
)
def test_mistakes(tmp_path, content, expected):
    with pytest.raises(SpecError) as caught:
        read(tmp_path, content)
    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == expected


def test_a_folder_without_cog_yaml_is_named(tmp_path):
    with pytest.raises(SpecError, match=f"^{tmp_path} holds no cog.yaml$") as caught:
        read_cog(tmp_path)
    assert caught.value.hint == "run.cog is the folder of cog.yaml"
