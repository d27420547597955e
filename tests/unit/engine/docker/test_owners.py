import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from glowplug.engine.docker.owners import LABEL_OWNER, engine_time, is_left_over, labels, this_process

NOW = 1_000_000.0
US = this_process()


def container(owner, timeout_s=60.0, age_s=0.0):
    return {"Labels": labels(owner, timeout_s), "Created": NOW - age_s}


def test_a_living_builds_container_is_not_left_over_however_old():
    assert not is_left_over(container(US, age_s=1e6), US, NOW)


def test_a_container_whose_build_has_ended_is():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert is_left_over(container(replace(US, pid=ended.pid)), US, NOW)


def test_a_container_of_an_earlier_process_with_our_id_is():
    assert is_left_over(container(replace(US, started=US.started - 1)), US, NOW)


def test_a_process_that_waits_to_be_looked_at_is_dead():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    started = int(Path(f"/proc/{ended.pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    assert is_left_over(container(replace(US, pid=ended.pid, started=started)), US, NOW)
    ended.wait()


@pytest.mark.parametrize(("age_s", "left_over"), [(0, False), (3650, False), (3670, True)])
def test_another_machines_container_is_left_over_once_its_time_is_over(age_s, left_over):
    elsewhere = replace(US, machine="another")
    assert is_left_over(container(elsewhere, timeout_s=60.0, age_s=age_s), US, NOW) is left_over


def test_where_nothing_tells_machines_apart_time_decides():
    nameless = replace(US, machine="")
    assert not is_left_over(container(replace(nameless, pid=1)), nameless, NOW)
    assert is_left_over(container(replace(nameless, pid=1), age_s=1e6), nameless, NOW)


@pytest.mark.parametrize(
    "found", [None, {}, {LABEL_OWNER: "x"}, {LABEL_OWNER: "x/1/2"}, {LABEL_OWNER: "x/y/z"}]
)
def test_what_is_not_ours_or_cannot_be_read_is_left_alone(found):
    assert not is_left_over({"Labels": found, "Created": 0}, US, NOW)


@pytest.mark.parametrize(
    "text", ["1970-01-02T00:00:00.123456789Z", "1970-01-02T01:00:00.5+01:00", "1970-01-02T00:00:00Z"]
)
def test_the_engines_time_is_read(text):
    assert engine_time(text) == 86400.0
