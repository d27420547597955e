import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from glowplug.build.model_run import Conditions, model_environment
from glowplug.core.spec import CogWorkload
from glowplug.workload.job import JobFolder
from unit.artifacts import RUN, make_session
from unit.samples import CPU


@pytest.fixture
def environment(tmp_path):
    def make(environ, run=RUN, **extra_env):
        session = make_session(tmp_path, CPU, {"PATH": "/usr/bin:/bin", **environ}, run)
        folder = JobFolder(session.engine.workspace(tmp_path / "cold"))
        return model_environment(session, folder, Conditions(extra_env))

    return make


def test_what_is_in_order_is_passed_on(environment):
    environ = {"LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "0", "TORCHINDUCTOR_MAX_AUTOTUNE": "1", "EMPTY": ""}
    assert environment(environ).items() >= environ.items()


def test_later_sources_win(environment):
    run = replace(RUN, env={"A": "spec", "B": "spec", "ATEN_CPU_CAPABILITY": "avx2"})
    made = environment(
        {"A": "command", "B": "command", "C": "command", "ATEN_CPU_CAPABILITY": "x"}, run, B="run"
    )
    assert (made["A"], made["B"], made["C"]) == ("spec", "run", "command")
    assert made["ATEN_CPU_CAPABILITY"] == "avx2"


def test_the_contract_goes_before_the_command_s_environment(environment):
    made = environment({"TORCHINDUCTOR_CPP_MARCH": "native", "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "0"})
    assert made["TORCHINDUCTOR_CPP_MARCH"] == "x86-64-v4"
    assert made["TORCHINDUCTOR_CPP_DYNAMIC_THREADS"] == "1"


NAMES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR", "GLOWPLUG_PROBE_DIR")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_overrules_where_caches_and_events_go(environment, tmp_path, name):
    run = replace(RUN, env={name: "/elsewhere"})
    made = environment({name: "/elsewhere"}, run, **{name: "/elsewhere"})
    assert made[name].startswith(str(tmp_path))


def test_caches_and_events_have_folders_of_their_own(environment, tmp_path):
    made = environment({})
    assert {name: str(Path(made[name]).relative_to(tmp_path)) for name in NAMES} == {
        "TORCHINDUCTOR_CACHE_DIR": "cold/caches/inductor",
        "TRITON_CACHE_DIR": "cold/caches/triton",
        "TMPDIR": "cold/tmp",
        "GLOWPLUG_PROBE_DIR": "cold/events",
    }


def test_secrets_are_dropped_unless_the_spec_names_them(environment):
    environ = {"HF_TOKEN": "hf", "AWS_SECRET_ACCESS_KEY": "aws", "URL": "https://user:pass@host"}
    assert not environment(environ).keys() & environ.keys()
    made = environment(environ, replace(RUN, secrets=("HF_TOKEN", "NOT_SET")))
    assert made["HF_TOKEN"] == "hf"
    assert not made.keys() & {"AWS_SECRET_ACCESS_KEY", "URL", "NOT_SET"}


def test_other_places_of_caches_are_dropped(environment):
    assert not environment({"TRITON_HOME": "/x", "CUDA_CACHE_PATH": "/x"}).keys() & {
        "TRITON_HOME",
        "CUDA_CACHE_PATH",
    }


def test_python_means_the_model_s_interpreter(environment):
    first = Path(sys.executable).parent
    assert environment({})["PATH"] == f"{first}:/usr/bin:/bin"
    assert environment({}, replace(RUN, env={"PATH": "/opt/bin"}))["PATH"] == f"{first}:/opt/bin"
    assert environment({}, RUN, PATH="/opt/bin")["PATH"] == f"{first}:/opt/bin"


@pytest.mark.parametrize(
    ("environ", "env", "inherited"),
    [({}, {}, []), ({"PYTHONPATH": "/lib"}, {}, ["/lib"]), ({"PYTHONPATH": "/lib"}, {"PYTHONPATH": "/a:/b"}, ["/a", "/b"]), ({"PYTHONPATH": ""}, {}, [])],
)  # fmt: skip
def test_the_probe_goes_before_the_model_s_own_modules(environment, tmp_path, environ, env, inherited):
    first, *rest = environment(environ, replace(RUN, env=env))["PYTHONPATH"].split(os.pathsep)
    assert first == str(tmp_path / "cold/agent/probe")
    assert rest[-len(inherited) :] == inherited if inherited else all("/cold/agent/" in path for path in rest)


def test_a_cog_model_has_its_variables_and_weights(environment):
    cog = CogWorkload(
        ".", "predict.py:Predictor", {"A": "cog", "B": "cog"}, "https://example.org/w.safetensors"
    )
    made = environment({"A": "command"}, replace(RUN, workload=cog, env={"B": "spec"}))
    assert (made["A"], made["B"]) == ("cog", "spec")
    assert made["COG_WEIGHTS"] == "https://example.org/w.safetensors"


def test_weights_are_found_under_another_home_too(environment, tmp_path):
    home = {"HOME": str(tmp_path)}
    assert not environment(home).keys() & {"HF_HOME", "TORCH_HOME"}
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    made = environment(home, RUN, HOME="/replay")
    assert (made["HOME"], made["HF_HOME"]) == ("/replay", str(tmp_path / ".cache/huggingface"))
    assert "TORCH_HOME" not in made
    assert environment(home | {"HF_HOME": "/data"})["HF_HOME"] == "/data"
    assert environment(home, replace(RUN, env={"HF_HOME": "/spec"}))["HF_HOME"] == "/spec"


def test_output_is_not_held_back(environment):
    assert environment({})["PYTHONUNBUFFERED"] == "1"
