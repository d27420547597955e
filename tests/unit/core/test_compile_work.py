import json

import pytest

from glowplug.core.compile_work import (
    MAX_NAMES,
    CompileWork,
    compile_work_from_json,
    parse_events,
    summarize,
)
from glowplug.errors import IntegrityError


def tool(number, role="build", name="g++", output="a.so"):
    return {"event": "tool", "id": f"1-{number}", "tool": name, "role": role, "output": output}


def end(number, seconds):
    return {"event": "tool_end", "id": "x", "of": f"1-{number}", "seconds": seconds, "returncode": 0}


def counter(group, name, by=1):
    return {"event": "counter", "group": group, "name": name, "by": by}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (tool(1), {"builds": 1, "built": ("a.so",)}),
        (tool(1, output=""), {"builds": 1, "built": ("g++",)}),
        (tool(1, role="query"), {"queries": 1}),
        ({"event": "triton", "kernel": "add", "hit": False}, {"triton_compiles": 1, "built": ("add",)}),
        ({"event": "triton", "kernel": "add", "hit": True}, {"triton_hits": 1}),
        (counter("inductor", "fxgraph_cache_hit", 3), {"fx_hits": 3}),
        (counter("inductor", "fxgraph_cache_miss"), {"fx_misses": 1}),
        (counter("inductor", "fxgraph_cache_bypass"), {"fx_bypasses": 1}),
        (counter("aot_autograd", "autograd_cache_hit"), {"aot_hits": 1}),
        (counter("aot_autograd", "autograd_cache_miss"), {"aot_misses": 1}),
        (counter("aot_autograd", "autograd_cache_guard_miss"), {"aot_misses": 1}),
        (counter("aot_autograd", "autograd_cache_bypass"), {"aot_bypasses": 1}),
        (counter("frames", "total"), {"frames": 1}),
        (counter("frames", "ok"), {}),
        (counter("stats", "unique_graphs"), {}),
        (counter("graph_break", "print\n  at model.py", 2), {"graph_breaks": 2, "reasons": ("print",)}),
        (counter("unimplemented", "a generator"), {"graph_breaks": 1, "reasons": ("a generator",)}),
        (counter("new_group", "x"), {}),
        ({"event": "process", "argv": []}, {"processes": 1}),
        ({"event": "blind", "argv": []}, {"blind_processes": 1}),
        ({"event": "probe_error", "where": "triton.knobs", "error": "x"}, {"blind_processes": 1}),
        ({"event": "of another version"}, {}),
        ({}, {}),
    ],
)
def test_each_event(event, expected):
    assert summarize([event]) == CompileWork(**expected)


def test_the_seconds_of_builds_are_added_whatever_the_order():
    events = [end(2, 2.25), tool(1), end(3, 100), tool(2), tool(3, role="query"), end(1, 1.5)]
    work = summarize(events)
    assert (work.builds, work.queries, work.build_s) == (2, 1, 3.75)
    assert summarize(reversed(events)).build_s == work.build_s


def test_a_build_without_an_end_counts_but_takes_no_time():
    assert summarize([tool(1), tool(2), end(2, 1.5)]) == CompileWork(builds=2, build_s=1.5, built=("a.so",))


def test_an_end_without_a_start_is_nothing():
    assert summarize([end(7, 1.5)]) == CompileWork()


def test_names_are_kept_once_in_order_and_not_all():
    work = summarize([tool(n, output=f"{n % 30}.so") for n in range(60)])
    assert work.builds == 60
    assert work.built == tuple(f"{n}.so" for n in range(MAX_NAMES))


def test_lines_that_a_kill_cut_short_are_left_out():
    whole = json.dumps(tool(1))
    assert parse_events([whole[:20], whole, "", "null", "[]", "7", whole[:-1]]) == [tool(1)]


def test_only_compile_work_is_in_the_total():
    everything = CompileWork(
        builds=1,
        build_s=1.5,
        queries=2,
        triton_compiles=4,
        triton_hits=8,
        fx_hits=16,
        fx_misses=32,
        fx_bypasses=64,
        aot_hits=128,
        aot_misses=256,
        aot_bypasses=512,
        frames=1024,
        graph_breaks=2048,
        processes=4096,
        blind_processes=8192,
    )
    assert everything.misses == 32 + 64 + 256
    assert everything.total == 1 + 4 + everything.misses
    assert everything.describe() == (
        "1 native build, 4 Triton compilations, 32 Inductor misses, 64 graphs that Inductor cannot cache, "
        "256 AOTAutograd misses"
    )


def test_no_compile_work_is_said_so():
    assert CompileWork(queries=3, fx_hits=5, frames=7).describe() == "no compile work"


def test_what_was_written_is_read_again():
    work = CompileWork(builds=2, build_s=1.25, fx_hits=3, built=("a.so", "b"), reasons=("print",))
    stored = json.loads(json.dumps(work.to_json()))
    assert stored["total"] == 2
    assert compile_work_from_json(stored) == work


def test_counts_of_another_version_are_left_out():
    assert compile_work_from_json({"builds": 1, "new_in_2030": 5}) == CompileWork(builds=1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {"builds": "1"},
        {"builds": None},
        {"build_s": []},
        {"built": 5},
        {"built": None},
        {"reasons": 7},
        {"reasons": "text"},
    ],
)
def test_what_is_no_compile_work(value):
    with pytest.raises(IntegrityError):
        compile_work_from_json(value)
