import collections
import copy
import pickle

import pytest

from glowplug.agent.probe._glowplug_counters import RecordingCounters


class Log:
    """Takes events down as the probe's log would."""

    def __init__(self):
        self.rises = []

    def write(self, event, group, name, by):
        assert event == "counter"
        self.rises.append((group, name, by))


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def counters(log):
    return RecordingCounters(log)


def test_they_count_as_torch_s_do(counters):
    plain = collections.defaultdict(collections.Counter)
    for each in (counters, plain):
        each["inductor"]["fxgraph_cache_miss"] += 2
        each["inductor"].update(["fxgraph_cache_hit"])
        each["x"]["y"] = 5
        del each["x"]["y"]
    assert counters == plain
    assert isinstance(counters, collections.defaultdict)


def test_only_rises_of_watched_names_are_written(counters, log):
    counters["inductor"]["fxgraph_cache_miss"] += 1
    counters["inductor"]["fxgraph_cache_miss"] += 3
    counters["inductor"]["fxgraph_cache_miss"] -= 1
    counters["inductor"]["pattern_matcher_nodes"] += 7
    counters["graph_break"]["any reason at all"] += 1
    counters["unheard_of"]["fxgraph_cache_miss"] += 1
    assert log.rises == [
        ("inductor", "fxgraph_cache_miss", 1),
        ("inductor", "fxgraph_cache_miss", 3),
        ("graph_break", "any reason at all", 1),
    ]


def test_a_copy_that_is_put_back_goes_on_recording(counters, log):
    counters["inductor"]["fxgraph_cache_hit"] += 1
    before = counters["inductor"].copy()  # torch/_inductor/pattern_matcher.py, lazy_init
    counters["inductor"]["fxgraph_cache_hit"] += 1
    counters["inductor"] = before
    assert counters["inductor"]["fxgraph_cache_hit"] == 1
    counters["inductor"]["fxgraph_cache_hit"] += 1
    assert log.rises == [("inductor", "fxgraph_cache_hit", 1)] * 3


def test_adding_a_counter_records_each_of_its_names(counters, log):
    counters["aot_autograd"]["autograd_cache_hit"] += 1
    deltas = collections.Counter({"autograd_cache_hit": 2, "autograd_cache_miss": 1, "total": 1})
    counters["aot_autograd"] += deltas  # torch/_inductor/output_code.py adds what a cached graph counted
    assert log.rises == [
        ("aot_autograd", "autograd_cache_hit", 1),
        ("aot_autograd", "autograd_cache_hit", 2),
        ("aot_autograd", "autograd_cache_miss", 1),
    ]


def test_cleared_counters_go_on_recording(counters, log):
    counters["frames"]["total"] += 1
    counters.clear()
    counters["frames"]["total"] += 1
    counters["frames"].clear()
    counters["frames"]["total"] += 1
    assert log.rises == [("frames", "total", 1)] * 3


def test_taking_a_difference_gives_a_plain_counter(counters):
    before = counters["inductor"].copy()
    counters["inductor"]["fxgraph_cache_miss"] += 1
    assert type(counters["inductor"] - before) is collections.Counter


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda c: c.copy(), lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_are_equal_and_plain(counters, log, duplicate):
    counters["inductor"]["fxgraph_cache_miss"] += 1
    before = list(log.rises)
    other = duplicate(counters)
    assert other == counters
    assert type(other) is collections.defaultdict
    other["new"]["name"] += 1
    assert log.rises == before
    group = duplicate(counters["inductor"])
    assert type(group) is collections.Counter
    assert group == counters["inductor"]


def test_whatever_the_model_puts_in_is_its_own_business(counters, log):
    counters["graph_break"]["list"] = []
    counters["graph_break"]["text"] = "a"
    counters["graph_break"] = "no counter"
    assert counters["graph_break"] == "no counter"
    assert log.rises == []
