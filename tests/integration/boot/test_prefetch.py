"""The Python interface: fetch while weights load."""

import json
import os
import subprocess
import sys

import pytest

from glowplug.host.facts import gather_facts
from glowplug.registry.sink import open_sink
from unit.artifacts import make_sealed, make_session, publish

SCRIPT = """
import json, os, sys, threading
import glowplug
reference, place = sys.argv[1:3]
handle = glowplug.prefetch(reference, destination=place)
loaded_early = "torch" in sys.modules
import torch._inductor.config
print(json.dumps({
    "warm": handle.wait(60),
    "loaded_early": loaded_early,
    "dynamic_threads": torch._inductor.config.cpp.dynamic_threads,
    "cache": os.environ.get("TORCHINDUCTOR_CACHE_DIR"),
    "stable": "stable_init" in repr(__import__("torch._inductor.codecache").
        _inductor.codecache.FxGraphCachePickler.__init__),
}))
"""


@pytest.fixture
def reference(tmp_path):
    folder = tmp_path / "build"
    folder.mkdir()
    session = make_session(folder, gather_facts().target)
    sealed = make_sealed(session)
    with open_sink(session.spec.artifact) as sink:
        publish(sink, sealed, "v3")
    return f"{session.spec.artifact}:v3"


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    return json.loads(done.stdout), done.stderr


def test_the_environment_is_set_before_torch_and_the_cache_comes(reference, tmp_path):
    place = tmp_path / "place"
    found, said = run(SCRIPT, reference, str(place))
    assert found == {
        "warm": True,
        "loaded_early": False,
        "dynamic_threads": True,
        "cache": str(place / "inductor"),
        "stable": True,
    }
    assert (place / "inductor" / "xx" / "ckernel.main.so").is_file()
    assert said == ""


def test_no_artifact_is_no_harm(tmp_path):
    found, said = run(SCRIPT, f"oci:{tmp_path / 'nothing'}:v1", str(tmp_path / "place"))
    assert (found["warm"], found["dynamic_threads"]) == (False, False)
    assert not (tmp_path / "place").exists()
    assert said.startswith("warning: no cache: ")


def test_too_late_is_said(reference, tmp_path):
    script = "import torch._inductor\n" + SCRIPT.replace('"torch" in', '"x" in')
    found, said = run(script, reference, str(tmp_path / "place"))
    assert found["warm"] is False
    assert "prefetch was called after torch's compiler was imported" in said
