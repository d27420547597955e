"""The proxy that stands for a network keeps to its rate, by a clock that the test moves."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "benchmarks" / "network.py"
RATE_BYTES_PER_S = 50e6


def load():
    spec = importlib.util.spec_from_file_location("network", SOURCE)
    module = sys.modules.setdefault("network", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


network = load()


@pytest.mark.parametrize("late_s", [0.0, 0.001, 0.02])
def test_a_connection_gets_its_rate_even_if_timers_fire_late(late_s):
    pacer, now_s, sent_bytes = network.Pacer(RATE_BYTES_PER_S), 0.0, 0
    while sent_bytes < 100e6:
        delay_s = pacer.delay_s(network.CHUNK_BYTES, now_s)
        now_s += delay_s + late_s if delay_s else 0.0
        sent_bytes += network.CHUNK_BYTES
    assert sent_bytes / now_s == pytest.approx(RATE_BYTES_PER_S, rel=0.05)


def test_a_pause_is_worth_one_burst_and_no_more():
    pacer = network.Pacer(RATE_BYTES_PER_S)
    burst_bytes = int(RATE_BYTES_PER_S * network.BURST_S)
    assert pacer.delay_s(burst_bytes, now_s=60.0) == pytest.approx(0)
    assert pacer.delay_s(burst_bytes, now_s=60.0) == pytest.approx(network.BURST_S)
