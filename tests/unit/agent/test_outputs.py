import dataclasses
import io
import json
import pathlib
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from glowplug.agent.outputs import compare, flatten, load, save

TOLERANCE = 1e-3
INF, NAN = float("inf"), float("nan")


@dataclasses.dataclass
class Detection:
    box: tuple
    score: float


class Labelled(torch.Tensor):
    """A tensor of a model's own class, as torchvision has them."""


class Point(NamedTuple):
    x: int
    y: int


class Opaque:
    pass


def stored(value, folder):
    """What a result looks like to the process that compares it."""
    save(flatten(value), folder / "value.pt")
    return load(folder / "value.pt")


DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
]

RESULTS = [
    *(torch.ones(2, 3).to(dtype) for dtype in DTYPES),
    torch.ones(0, 3),
    torch.tensor(1.5),
    torch.tensor([NAN, INF, -INF]),
    torch.tensor([complex(NAN, 1), complex(INF, 0)]),
    torch.arange(6).reshape(2, 3).t(),
    torch.ones(3, requires_grad=True),
    torch.nn.Parameter(torch.ones(2)),
    torch.ones(2).as_subclass(Labelled),
    torch.tensor([1 + 2j]).conj(),
    np.arange(6.0).reshape(2, 3)[:, ::-1],
    np.arange(3, dtype=">i4"),
    np.array(["a", "b"]),
    np.array(["2026-01-01"], dtype="datetime64[D]"),
    np.float32(1.5),
    np.int64(7),
    np.bool_(1),
    np.str_("text"),
    np.datetime64("2026-01-01"),
    np.ones((0, 2)),
    7,
    -(2**63),
    2**64 - 1,
    1.5,
    NAN,
    1 + 2j,
    True,
    None,
    "text",
    b"bytes",
    bytearray(b"bytes"),
    [],
    {},
    (),
    {3, 1, 2},
    frozenset(["b", "a"]),
    [{"a": (1, [torch.ones(2), "x"])}, None],
    Point(1, 2),
    Detection((1, 2), 0.5),
    [Detection((1, 2), 0.5)],
    Image.new("RGB", (2, 3), (1, 2, 3)),
    Image.new("P", (2, 3)),
    io.BytesIO(b"bytes"),
    io.StringIO("text"),
]


@pytest.mark.parametrize("value", RESULTS, ids=lambda value: type(value).__name__)
def test_a_result_equals_itself_after_it_was_stored(value, tmp_path):
    report = compare(stored(value, tmp_path), flatten(value), TOLERANCE)
    assert report["equal"], report
    assert report["compared"] > 0
    assert report["max_difference"] == 0
    json.dumps(report, allow_nan=False)


def difference(first, second, tolerance=TOLERANCE):
    report = compare(flatten(first), flatten(second), tolerance)
    json.dumps(report, allow_nan=False)
    return report


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.tensor([1000.0]), torch.tensor([1001.0])),
        (torch.tensor([0.0]), torch.tensor([0.0009])),
        (torch.tensor([1 + 1j]), torch.tensor([1.001 + 1j])),
        (torch.tensor([1.0]).half(), torch.tensor([1.001]).half()),
        (1.0, 1.0009),
        (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0005])),
    ],
)
def test_within_the_tolerance_is_equal(first, second):
    assert difference(first, second)["equal"]
    assert not difference(first, second, 0)["equal"]


@pytest.mark.parametrize(("first", "second"), [(b"x", bytearray(b"x")), ({3, 1, 2}, {1, 2, 3})])
def test_the_same_content_is_equal(first, second):
    assert difference(first, second, 0)["equal"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), "output: 1 of 2 values differ by more than 0.001 (largest difference 0.5)"),
        (torch.tensor([0.0]), torch.tensor([0.002]), "1 of 1 values differ"),
        (torch.tensor([1.0]), torch.tensor([NAN]), "1 of 1 values differ"),
        (torch.tensor([NAN]), torch.tensor([1.0]), "1 of 1 values differ"),
        (torch.tensor([1.0]), torch.tensor([INF]), "largest difference inf"),
        (torch.tensor([INF]), torch.tensor([-INF]), "largest difference inf"),
        (torch.tensor([1 + 1j]), torch.tensor([1 - 1j]), "largest difference 2"),
        (torch.tensor([True, False]), torch.tensor([True, True]), "1 of 2 values differ"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "largest difference 1"),
        (torch.tensor([50_000]), torch.tensor([50_001]), "1 of 1 values differ by more than 0 (largest difference 1)"),
        (50_000, 50_001, "1 of 1 values differ by more than 0"),
        (torch.ones(2), torch.ones(3), "torch.float32 (2,) became torch.float32 (3,)"),
        (torch.ones(2), torch.ones(2, 1), "(2,) became torch.float32 (2, 1)"),
        (torch.ones(2), torch.ones(2).half(), "torch.float32 (2,) became torch.float16 (2,)"),
        (torch.ones(0), torch.ones(0, 1), "(0,) became torch.float32 (0, 1)"),
        (1, 1.0, "torch.int64 () became torch.float32 ()"),
        (2**64, 2**64 + 1, "output: text differs"),
        (True, False, "output: text differs"),
        ("a", "b", "output: text differs"),
        (b"a", b"b", "output: bytes differs"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "output['a'][1]: 1 of 1 values differ"),
        (Detection((1, 2), 0.5), Detection((1, 2), 0.7), "output.score: 1 of 1 values differ"),
        (np.array(["a"]), np.array(["b"]), "output: text differs"),
    ],
)  # fmt: skip
def test_beyond_the_tolerance_is_not(first, second, reason):
    report = difference(first, second)
    assert not report["equal"]
    assert reason in report["reason"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, "1"),
        (None, 1),
        ([1], (1,)),
        ([1], [1, 2]),
        ([], {}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Opaque(), 1),
        ([Opaque()], [1]),
    ],
)
def test_another_structure_is_not_equal(first, second):
    report = difference(first, second)
    assert not report["equal"]
    assert report["max_difference"] == 0
    assert "differ" in report["reason"]


def test_the_first_mismatch_is_named_and_the_largest_difference_kept():
    report = difference([1.0, 2.0, 3.0], [1.0, 2.5, 4.0])
    assert report["reason"].startswith("output[1]:")
    assert report["max_difference"] == 1
    assert report["compared"] == 3


@pytest.mark.parametrize(
    "value", [Opaque(), iter([]), [Opaque(), {"more": Opaque()}], np.array([Opaque()], dtype=object), object]
)
def test_what_cannot_be_compared_is_counted_as_such(value):
    report = difference(value, value)
    assert report["equal"]
    assert report["compared"] == 0


def test_a_stored_tensor_does_not_follow_the_model_s_buffer():
    buffer = torch.zeros(2)
    leaves = flatten(buffer)
    buffer += 1
    assert leaves[0][2].tolist() == [0, 0]


def image(level, mode="RGB"):
    return Image.new(mode, (4, 4), level if mode == "L" else (level, 100, 100))


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("suffix", ["", ".png", ".PNG", ".bmp", ".webp"])
def test_pictures_may_round_to_the_next_level(tmp_path, mode, suffix):
    def result(level):
        if not suffix:
            return image(level, mode)
        path = tmp_path / f"{level}{suffix}"
        image(level, mode).save(path, lossless=True)
        return path

    assert difference(result(100), result(101))["equal"]
    further = difference(result(100), result(103))
    assert not further["equal"]
    assert further["max_difference"] == pytest.approx(3 / 255)


def test_pictures_of_another_size_differ():
    assert not difference(Image.new("L", (2, 3)), Image.new("L", (3, 2)))["equal"]


def test_the_content_of_a_file_counts_and_not_its_path(tmp_path):
    for name, content in (("a.mp3", b"x"), ("b.mp3", b"x"), ("c.mp3", b"y"), ("broken.png", b"x")):
        (tmp_path / name).write_bytes(content)
    assert difference(tmp_path / "a.mp3", tmp_path / "b.mp3")["equal"]
    assert difference(tmp_path / "a.mp3", tmp_path / "c.mp3")["reason"] == "output: bytes differs"
    assert difference(tmp_path / "a.mp3", tmp_path / "broken.png")["equal"]
    assert flatten(str(tmp_path / "a.mp3"))[0][1] == "text"
    assert flatten(pathlib.PurePath(tmp_path / "a.mp3"))[0][2] == b"x"


def test_a_stream_counts_from_its_beginning():
    stream = io.BytesIO(b"content")
    stream.read(3)
    assert flatten(stream)[0][1:] == ["bytes", b"content"]


def test_only_plain_values_are_unpickled(tmp_path):
    torch.save([["output", "tensor", Opaque()]], tmp_path / "value.pt")
    with pytest.raises(Exception, match=r"[Ww]eights"):
        load(tmp_path / "value.pt")
