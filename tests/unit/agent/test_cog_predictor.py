# Models are written like this: Input() as a default, Optional and Union beside X | Y.
# ruff: noqa: B008, UP007, UP045
import ast
import asyncio
import base64
import functools
import pathlib
import subprocess
import sys
from typing import Any, Literal, Optional, Union

import pytest
from cog import BasePredictor, BaseRunner, File, Input, Path, Secret

from glowplug.agent import cog_predictor
from glowplug.agent.cog_predictor import InputError, bind, call, load, setup

DATA_URI = "data:text/plain;base64," + base64.b64encode(b"hello").decode()


def predictor(function):
    """A predictor whose inputs are the function's parameters after ``self``."""
    return type("Predictor", (BaseRunner,), {"run": function})()


def bound(annotation, value, default=Input(description="a value")):
    """What an input of this type gets to see."""

    def run(self, value=default):
        return value

    run.__annotations__["value"] = annotation
    return bind(predictor(run), {"value": value})["value"]


def refusal(annotation, value, default=Input(description="a value")):
    with pytest.raises(InputError) as caught:
        bound(annotation, value, default)
    return str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 3),
        (float, 0.5),
        (bool, True),
        (str, "text"),
        (Any, {"any": ["thing"]}),
        (dict, {"a": 1}),
        (dict[str, int], {"a": 1}),
        (list, [1, "a"]),
        (list[str], ["a", "b"]),
        (Optional[int], None),
        (Optional[int], 3),
        (int | None, None),
        (Optional[list[str]], ["a"]),
        (Union[float, int], 3),
        (Union[int, str], "3"),
        (Union[str, list[str]], ["a"]),
        (Literal["small", "large"], "large"),
    ],
)
def test_json_value_reaches_the_predictor_unchanged(annotation, value):
    seen = bound(annotation, value)

    assert seen == value
    assert type(seen) is type(value)


def test_integer_for_a_float_stays_an_integer_as_coglet_passes_it():
    assert type(bound(float, 3)) is int
    assert type(bound(Optional[float], 3)) is int


def test_whole_float_for_an_integer_becomes_one():
    assert type(bound(int, 3.0)) is int


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "3", "Input 'value' must be int, but is str."),
        (int, 2.5, "Input 'value' must be int, but is float."),
        (int, True, "Input 'value' must be int, but is bool."),
        (float, True, "Input 'value' must be float, but is bool."),
        (bool, 1, "Input 'value' must be bool, but is int."),
        (str, 3, "Input 'value' must be str, but is int."),
        (str, None, "Input 'value' must be str, but is NoneType."),
        (list[str], "a", "Input 'value' must be list[str], but is str."),
        (list[int], [1, "a"], "Input 'value' must be int, but is str."),
        (Optional[int], "a", "Input 'value' must be int, but is str."),
        (Union[int, str], [], "Input 'value' must be int or str, but is list."),
        (Literal["a", "b"], "c", "Input 'value' is 'c', but must be one of: 'a', 'b'."),
        (Path, 3, "Input 'value' must be Path, but is int."),
        (Secret, 3, "Input 'value' must be Secret, but is int."),
    ],
)
def test_value_of_another_type_is_refused(annotation, value, message):
    assert refusal(annotation, value) == message


@pytest.mark.parametrize(
    ("annotation", "value", "limits", "message"),
    [
        (int, 0, {"ge": 1}, "Input 'value' is 0, but must be at least 1."),
        (float, 2.5, {"le": 2}, "Input 'value' is 2.5, but must be at most 2."),
        (str, "", {"min_length": 1}, "The length of input 'value' is 0, but must be at least 1."),
        (str, "abc", {"max_length": 2}, "The length of input 'value' is 3, but must be at most 2."),
        (str, "b", {"regex": "^a+$"}, "Input 'value' does not match the pattern '^a+$'."),
        (str, "c", {"choices": ["a", "b"]}, "Input 'value' is 'c', but must be one of: 'a', 'b'."),
        (list[int], [1, 9], {"le": 5}, "Input 'value' is 9, but must be at most 5."),
    ],
)
def test_value_beyond_a_limit_is_refused(annotation, value, limits, message):
    assert refusal(annotation, value, Input(**limits)) == message


@pytest.mark.parametrize(
    ("annotation", "value", "limits"),
    [
        (int, 1, {"ge": 1, "le": 1}),
        (str, "ab", {"min_length": 2, "max_length": 2}),
        (str, "aa", {"regex": "^a+$"}),
        (int, 2, {"choices": [1, 2]}),
        (Optional[str], None, {"choices": ["a", "b"]}),
    ],
)
def test_value_at_a_limit_is_accepted(annotation, value, limits):
    assert bound(annotation, value, Input(**limits)) == value


def test_defaults_are_filled_as_they_are_written():
    def run(self, scale: float = Input(default=1), image: Path = Input(default="a.png"), steps: int = 4):
        pass

    kwargs = bind(predictor(run), {})

    assert kwargs == {"scale": 1, "image": "a.png", "steps": 4}
    assert type(kwargs["scale"]) is int
    assert type(kwargs["image"]) is str


def test_optional_input_needs_neither_value_nor_default():
    def run(self, a: Optional[str] = Input(description="a"), b: int | None = Input(description="b")):
        pass

    assert bind(predictor(run), {}) == {"a": None, "b": None}


@pytest.mark.parametrize("default", [Input(description="what to paint"), None])
def test_required_input_that_is_missing_is_named(default):
    def run(self, prompt: str = default):
        pass

    if default is None:
        run.__defaults__ = ()

    with pytest.raises(InputError, match=r"^Input 'prompt' \(str\) is required\.$"):
        bind(predictor(run), {})


def test_unknown_input_is_answered_with_the_closest_and_with_all():
    def run(self, prompt: str, width: int = 64):
        pass

    with pytest.raises(InputError) as caught:
        bind(predictor(run), {"prompt": "a", "witdh": 64})

    expected = "No input is called 'witdh'; did you mean 'width'? the inputs are: prompt, width."
    assert str(caught.value) == expected


def test_predictor_with_keyword_arguments_takes_any_name():
    def run(self, prompt: str, **rest):
        pass

    assert bind(predictor(run), {"prompt": "a", "other": 1}) == {"prompt": "a", "other": 1}


def test_annotations_written_as_text_are_resolved(tmp_path):
    source = "from __future__ import annotations\nfrom cog import *\nfrom cog import Input, Path\n"
    source += (
        "class Runner:\n    def run(self, image: Path | None, n: int = Input(default=1, ge=1)) -> str: ...\n"
    )
    (tmp_path / "modern.py").write_text(source)
    (tmp_path / "a.txt").write_text("a")
    model = load("modern.py:Runner", str(tmp_path))

    assert isinstance(bind(model, {"image": str(tmp_path / "a.txt")})["image"], Path)
    with pytest.raises(InputError, match="must be int"):
        bind(model, {"image": None, "n": "1"})


def test_annotations_only_a_type_checker_knows_let_values_through():
    def run(self, value: "Nowhere") -> str:  # noqa: F821
        return value

    assert bind(predictor(run), {"value": 3}) == {"value": 3}


def test_local_path_is_relative_to_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "picture.png").write_bytes(b"png")
    monkeypatch.chdir(tmp_path)

    seen = bound(Path, "picture.png")

    assert isinstance(seen, Path)
    assert seen == tmp_path / "picture.png"
    assert [type(each) for each in bound(list[Path], ["picture.png"])] == [Path]


def test_data_uri_becomes_a_file_with_its_content():
    assert bound(Path, DATA_URI).read_bytes() == b"hello"
    assert bound(File, DATA_URI).read() == b"hello"


def test_local_file_is_opened_for_a_file_input(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\x00\x01")

    with bound(File, str(tmp_path / "a.bin")) as stream:
        assert stream.read() == b"\x00\x01"


def test_path_that_is_no_file_is_refused(tmp_path):
    assert (
        refusal(Path, str(tmp_path))
        == f"Input 'value' names {str(tmp_path)!r}, which is not a readable file."
    )


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/cat.png", "data:no comma"])
def test_file_that_cannot_be_fetched_is_refused(address, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    assert refusal(Path, address).startswith("Input 'value' cannot be fetched: ")


def test_secret_is_wrapped():
    seen = bound(Secret, "hunter2")

    assert seen.get_secret_value() == "hunter2"
    assert "hunter2" not in str(seen)


def run_returns(self):
    return "out"


async def run_awaits(self):
    await asyncio.sleep(0)
    return "out"


def run_yields(self):
    yield "o"
    yield "ut"


async def run_yields_async(self):
    yield "o"
    await asyncio.sleep(0)
    yield "ut"


def run_returns_iterator(self):
    return iter(["o", "ut"])


@pytest.mark.parametrize(
    ("function", "output"),
    [
        (run_returns, "out"),
        (run_awaits, "out"),
        (run_yields, ["o", "ut"]),
        (run_yields_async, ["o", "ut"]),
        (run_returns_iterator, ["o", "ut"]),
    ],
)
def test_output_is_collected(function, output):
    assert call(predictor(function), {}) == output


def test_open_file_is_an_output_and_not_an_iterator_of_lines(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    def run(self):
        return (tmp_path / "a.txt").open()

    with call(predictor(run), {}) as stream:
        assert stream.read() == "one\ntwo\n"


def test_setup_and_predictions_share_one_event_loop():
    class Runner(BaseRunner):
        async def setup(self):
            self.loop = asyncio.get_running_loop()

        async def run(self) -> bool:
            return self.loop is asyncio.get_running_loop()

    model = Runner()
    setup(model)

    assert call(model, {})
    assert call(model, {})


def test_setup_gets_weights_only_if_it_asks_for_them(monkeypatch):
    class WithWeights(BaseRunner):
        def setup(self, weights: Optional[str] = None):
            self.weights = weights

    class Without(BaseRunner):
        def setup(self):
            self.weights = "own"

    monkeypatch.setenv("COG_WEIGHTS", "weights/base")
    asking, other = WithWeights(), Without()
    setup(asking)
    setup(other, "weights/tuned")

    assert asking.weights == "weights/base"
    assert other.weights == "own"

    setup(asking, "weights/tuned")
    assert asking.weights == "weights/tuned"


def test_predict_of_the_old_base_class_is_found_behind_the_bridges():
    class Base(BasePredictor):
        def predict(self, prompt: str) -> str:
            return "predicted " + prompt

    class Predictor(Base):
        pass

    model = Predictor()

    assert call(model, bind(model, {"prompt": "a"})) == "predicted a"


def test_class_with_neither_method_is_refused():
    with pytest.raises(InputError, match=r"^BaseRunner has neither run\(\) nor predict\(\)\.$"):
        bind(BaseRunner(), {})


def test_function_is_a_predictor_too():
    def paint(prompt: str, n: int = Input(default=2)) -> str:
        return prompt * n

    assert call(paint, bind(paint, {"prompt": "a"})) == "aa"


def test_decorated_method_keeps_its_inputs():
    def decorated(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @decorated
    def run(self, n: int = Input(default=2)) -> int:
        return n

    model = predictor(run)

    assert call(model, bind(model, {})) == 2


def test_missing_predictor_file_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"The predictor 'nope\.py:Predictor' is not there: .* does not exist\."
    ):
        load("nope.py:Predictor", str(tmp_path))


def test_what_the_module_raises_comes_through(tmp_path):
    (tmp_path / "broken_model.py").write_text("raise RuntimeError('no weights')\n")

    with pytest.raises(RuntimeError, match="no weights"):
        load("broken_model.py:Predictor", str(tmp_path))


def test_file_runs_on_python_3_9_with_the_standard_library_alone():
    path = cog_predictor.__file__
    ast.parse(pathlib.Path(path).read_text(), feature_version=(3, 9))

    subprocess.run([sys.executable, "-I", "-S", "-B", path], check=True)
