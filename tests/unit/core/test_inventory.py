from __future__ import annotations

import json

import pytest

from glowplug.core.inventory import FileEntry, Inventory, KindSummary, inventory_from_json
from glowplug.errors import IntegrityError

GRAPH = FileEntry(
    "inductor/fxgraph/ab/key1/content1",
    "inductor",
    30,
    "1" * 64,
    executable=False,
    key="inductor/fxgraph/ab/key1",
)
LIBRARY = FileEntry("inductor/xx/ckernel.main.so", "inductor", 500, "2" * 64, executable=True)
BINARY = FileEntry("triton/KEY/add.cubin", "triton", 7, "3" * 64, executable=False)


def test_summary_by_kind() -> None:
    inventory = Inventory((GRAPH, LIBRARY, BINARY))
    assert inventory.by_kind() == {"inductor": KindSummary(2, 530), "triton": KindSummary(1, 7)}
    assert inventory.size_bytes == 537


def test_json_round_trip() -> None:
    inventory = Inventory((GRAPH, LIBRARY, BINARY))
    assert inventory_from_json(json.loads(json.dumps(inventory.to_json()))) == inventory


def test_two_captures_of_one_thing_do_not_differ() -> None:
    again = FileEntry(
        "inductor/fxgraph/ab/key1/content2", "inductor", 31, "4" * 64, executable=False, key=GRAPH.key
    )
    difference = Inventory((GRAPH, LIBRARY)).difference(Inventory((again, LIBRARY)))
    assert not difference


def test_difference_names_what_came_and_went() -> None:
    difference = Inventory((GRAPH, LIBRARY)).difference(Inventory((LIBRARY, BINARY)))
    assert difference
    assert difference.added == ("triton/KEY/add.cubin",)
    assert difference.removed == ("inductor/fxgraph/ab/key1",)


@pytest.mark.parametrize(
    "change",
    [
        {"path": "/etc/passwd"},
        {"path": "triton/../../x"},
        {"path": ""},
        {"path": None},
        {"kind": 3},
        {"size_bytes": -1},
        {"size_bytes": True},
        {"size_bytes": "7"},
        {"sha256": "3" * 63},
        {"sha256": "G" * 64},
        {"executable": 1},
        {"key": 5},
    ],
)
def test_a_wrong_property_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(IntegrityError):
        inventory_from_json({"files": [BINARY.to_json() | change]})


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"files": {}},
        {"files": ["triton/KEY/add.cubin"]},
        {"files": [BINARY.to_json(), BINARY.to_json()]},
        {"files": [BINARY.to_json(), GRAPH.to_json()]},
    ],
)
def test_another_document_is_refused(document: object) -> None:
    with pytest.raises(IntegrityError):
        inventory_from_json(document)
