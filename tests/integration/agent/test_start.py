"""Keys must not depend on which module imported torch first: a server's is another one than the capture's."""

import os
import subprocess
import sys
from pathlib import Path

import glowplug

START = Path(glowplug.__file__).parent / "agent" / "start"
MODEL = """
import torch
from torch._dynamo.utils import counters
with torch.no_grad():
    torch.compile(lambda x: x @ x)(torch.ones(4, 4))
print(counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"])
"""


def hits(folder, cache, entry, python_path):
    """Import the model from a module of the given name, as a server does, and return its cache hits."""
    (folder / "model.py").write_text(MODEL)
    (folder / f"{entry}.py").write_text("import torch\nimport model\n")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*python_path, str(folder)]),
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import {entry}"], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_another_entry_module_hits_with_the_start_file(tmp_path):
    assert hits(tmp_path, tmp_path / "cache", "script", [str(START)]) == ["0", "0"]
    assert hits(tmp_path, tmp_path / "cache", "app", [str(START)]) == ["1", "1"]


def test_another_entry_module_misses_without_it(tmp_path):
    """Holds the reason for the start file to torch: should this fail one day, the file can go."""
    assert hits(tmp_path, tmp_path / "cache", "script", []) == ["0", "0"]
    assert hits(tmp_path, tmp_path / "cache", "app", []) == ["0", "0"]


def test_it_hands_over_to_the_sitecustomize_behind_it(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.mine = True\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(START), str(tmp_path)])}
    code = f"import sys; print(sys.mine, {str(START)!r} in sys.path, sys.modules['sitecustomize'].__file__)"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", str(tmp_path / "sitecustomize.py")]
    assert done.stderr == ""
