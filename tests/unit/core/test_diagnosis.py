import pytest

from glowplug.core.compile_work import CompileWork
from glowplug.core.diagnosis import switched_off, why_nothing


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}, "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 turns torch's compile caches off"),
        ({"TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}, "TORCHINDUCTOR_FX_GRAPH_CACHE=0 turns torch's compile caches off"),
        ({"TORCH_COMPILE_DISABLE": "1"}, "TORCH_COMPILE_DISABLE=1 turns torch.compile off"),
        ({"TORCHDYNAMO_DISABLE": "1"}, "TORCHDYNAMO_DISABLE=1 turns torch.compile off"),
    ],
)  # fmt: skip
def test_a_setting_that_turns_everything_off_is_named(environ, reason):
    diagnosis = switched_off(environ | {"PATH": "/bin"})
    assert diagnosis.reason == reason
    assert diagnosis.hint == f"unset {reason.partition('=')[0]}"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"},
        {"TORCHINDUCTOR_FX_GRAPH_CACHE": "1"},
        {"TORCH_COMPILE_DISABLE": ""},
    ],
)
def test_nothing_is_turned_off(environ):
    assert switched_off(environ) is None


@pytest.mark.parametrize(
    ("work", "compiler_loaded", "reason", "hint"),
    [
        (CompileWork(), False, "never called torch.compile", "setup()"),
        (CompileWork(builds=5, frames=5), False, "never called torch.compile", "setup()"),
        (CompileWork(), True, "no compiled function was called", "inputs"),
        (CompileWork(frames=1, fx_bypasses=1), True, "could not cache any of the graphs", "+inductor"),
        (CompileWork(frames=1, aot_bypasses=1, graph_breaks=1), True, "could not cache any", "+inductor"),
        (
            CompileWork(frames=1, graph_breaks=4, reasons=("print", "pdb", "open", "eval")),
            True,
            "fell back to eager: print; pdb; open",
            "fullgraph=True",
        ),
        (CompileWork(frames=1), True, "no graph reached Inductor", "backend='inductor'"),
        (
            CompileWork(frames=1, fx_misses=2, builds=1),
            True,
            "it compiled (1 native build, 2 Inductor misses), but torch stored no entry",
            "force_disable_caches",
        ),
    ],
)
def test_why_nothing_was_captured(work, compiler_loaded, reason, hint):
    diagnosis = why_nothing(work, compiler_loaded=compiler_loaded)
    assert reason in diagnosis.reason
    assert hint in diagnosis.hint
    assert "eval" not in diagnosis.reason
