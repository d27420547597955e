import json

import pytest

from glowplug.core.compile_work import CompileWork
from glowplug.core.proof import (
    Comparison,
    Demands,
    InputRun,
    comparison_from_json,
    find_shortfalls,
    proof_from_json,
    run_report_from_json,
)
from glowplug.errors import IntegrityError
from unit.samples import COLD, PROOF, SAME, WARM

STRICT = Demands(max_compile_work=0, output_tolerance=1e-3)
HITS = CompileWork(fx_hits=1, aot_hits=1)
DIFFERENT = Comparison(equal=False, max_difference=0.5, compared=1, reason="output: 3 of 4 values differ")
NOTHING = Comparison(equal=True, max_difference=0.0, compared=0, reason="")


def shortfalls(work=HITS, comparisons=(SAME,), new_entries=(), max_compile_work=0, repeats=SAME):
    warm = WARM._replace(work=work, inputs=(InputRun(1.0, 0.5, repeats),) * len(comparisons))
    return find_shortfalls(warm, comparisons, new_entries, Demands(max_compile_work, 1e-3))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ()),
        ({"work": HITS._replace(queries=9, frames=9, graph_breaks=9, aot_bypasses=9)}, ()),
        ({"work": CompileWork(triton_hits=1)}, ()),
        (
            {"work": HITS._replace(builds=2, built=("a.so", "b.so"))},
            ("the replay compiled again: 2 native builds (a.so, b.so)",),
        ),
        (
            {"work": HITS._replace(triton_compiles=5, built=("a", "b", "c", "d", "e"))},
            ("the replay compiled again: 5 Triton compilations (a, b, c, and 2 more)",),
        ),
        ({"work": HITS._replace(fx_misses=1)}, ("the replay compiled again: 1 Inductor miss",)),
        ({"work": HITS._replace(aot_misses=1)}, ("the replay compiled again: 1 AOTAutograd miss",)),
        (
            {"work": HITS._replace(fx_bypasses=1)},
            ("the replay compiled again: 1 graph that Inductor cannot cache",),
        ),
        ({"work": HITS._replace(builds=2), "max_compile_work": 2}, ()),
        (
            {"work": HITS._replace(builds=3), "max_compile_work": 2},
            ("the replay compiled again: 3 native builds",),
        ),
        (
            {"new_entries": ("inductor/a",)},
            ("the replay wrote 1 cache entries that it did not find (inductor/a)",),
        ),
        ({"new_entries": ("inductor/a",), "max_compile_work": 1}, ()),
        ({"work": CompileWork()}, ("the replay used no cache entry at all",)),
        (
            {"work": HITS._replace(blind_processes=2)},
            (
                "2 Python processes could not be watched (started with -I, -E or -S, or the probe failed there)",
            ),
        ),
        (
            {"comparisons": (SAME, DIFFERENT)},
            ("inputs[1]: output differs from the cold run: output: 3 of 4 values differ",),
        ),
        (
            {"comparisons": (DIFFERENT,), "repeats": None},
            ("inputs[0]: output differs from the cold run: output: 3 of 4 values differ",),
        ),
        (
            {"comparisons": (DIFFERENT,), "repeats": DIFFERENT},
            (
                (
                    "inputs[0]: output differs from the cold run: output: 3 of 4 values differ; "
                    "the model does not repeat itself within one process either: give it a seed as an input"
                ),
            ),
        ),
        # What does not repeat itself but agrees with the cold run does no harm.
        ({"repeats": DIFFERENT}, ()),
        ({"comparisons": (NOTHING,)}, ("inputs[0]: the output holds nothing that can be compared",)),
    ],
)
def test_each_shortfall_alone(arguments, expected):
    assert shortfalls(**arguments) == expected


def test_shortfalls_come_together_the_most_telling_first():
    found = shortfalls(
        work=CompileWork(builds=1, blind_processes=1),
        comparisons=(DIFFERENT, NOTHING),
        new_entries=("inductor/a",),
    )
    assert [text.partition(":")[0] for text in found] == [
        "the replay compiled again",
        "the replay used no cache entry at all",
        "1 Python processes could not be watched (started with -I, -E or -S, or the probe failed there)",
        "inputs[0]",
        "inputs[1]",
    ]


def test_an_input_without_a_comparison_is_not_proved():
    warm = WARM._replace(inputs=WARM.inputs * 2)
    assert find_shortfalls(warm, (SAME,), (), STRICT) == ("inputs[1]: the output was not compared",)


def test_a_proof_holds_without_shortfalls():
    assert PROOF.holds
    assert not PROOF._replace(shortfalls=("x",)).holds


def test_the_speedup_is_cold_over_warm():
    assert PROOF.speedup == 10
    assert PROOF._replace(warm=WARM._replace(first_answer_s=0.0)).speedup == 0


def test_the_steady_latency_is_the_first_input_s():
    assert COLD.steady_s == 0.25
    assert COLD._replace(inputs=()).steady_s is None


@pytest.mark.parametrize(
    "proof",
    [
        PROOF,
        PROOF._replace(eager=COLD, new_entries=("a",), shortfalls=("b", "c"), comparisons=(SAME, DIFFERENT)),
        PROOF._replace(cold=COLD._replace(inputs=(InputRun(1.0, None, None),)), conditions={}),
    ],
)
def test_what_was_written_is_read_again(proof):
    assert proof_from_json(json.loads(json.dumps(proof.to_json()))) == proof


def changed(value, path, new):
    """Return a deep copy with one value replaced, or left out."""
    value = json.loads(json.dumps(value))
    *parents, last = path
    place = value
    for key in parents:
        place = place[key]
    if new is ...:
        del place[last]
    else:
        place[last] = new
    return value


HUGE = float("inf")


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("cold",), ...),
        (("cold",), None),
        (("warm",), "text"),
        (("comparisons",), ...),
        (("comparisons",), 7),
        (("comparisons",), [None]),
        (("comparisons", 0, "equal"), ...),
        (("comparisons", 0, "compared"), "many"),
        (("comparisons", 0, "compared"), HUGE),
        (("comparisons", 0, "max_difference"), []),
        (("new_entries",), None),
        (("conditions",), []),
        (("shortfalls",), ...),
        (("shortfalls",), 1),
        (("warm", "inputs"), ...),
        (("warm", "inputs"), [7]),
        (("warm", "inputs", 0, "first_call_s"), ...),
        (("warm", "inputs", 0, "first_call_s"), "soon"),
        (("warm", "inputs", 0, "repeats"), [1]),
        (("warm", "ready_at_s"), None),
        (("warm", "ready_at_s"), 10**400),
        (("warm", "work"), ...),
        (("warm", "work"), []),
        (("warm", "work", "builds"), "1"),
        (("warm", "work", "built"), 7),
        (("eager",), 7),
    ],
)
def test_a_proof_that_cannot_be_read(path, new):
    with pytest.raises(IntegrityError):
        proof_from_json(changed(PROOF.to_json(), path, new))


@pytest.mark.parametrize("value", [None, [], "text", 7, {}])
@pytest.mark.parametrize("read", [proof_from_json, run_report_from_json, comparison_from_json])
def test_what_is_no_proof(read, value):
    with pytest.raises(IntegrityError):
        read(value)
