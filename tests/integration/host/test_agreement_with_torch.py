"""What is read without torch must be what torch says of itself; each test asks it in a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from glowplug.core.compiler_env import DIAGNOSTICS, PATHS, RECORDED
from glowplug.core.contract import environment_contract, recorded, why_dropped
from glowplug.host.cpu import read_cpu
from glowplug.host.facts import gather_facts
from glowplug.host.python_env import read_python_env

ASK_TORCH = """
import json, platform, sys
import torch, triton
from torch._inductor import cpu_vec_isa
x = torch.arange(64, dtype=torch.float32)
error = (torch.compile(lambda x: (x * 2).sin())(x) - (x * 2).sin()).abs().max().item()
isa = cpu_vec_isa.pick_vec_isa()
print(json.dumps({
    "isa": str(isa),
    "flags": isa.build_arch_flags(),
    "avx2": torch.cpu._is_avx2_supported(),
    "avx512": torch.cpu._is_avx512_supported(),
    "bf16": torch.cpu._is_avx512_bf16_supported(),
    "vnni": torch.cpu._is_vnni_supported(),
    "amx": torch.cpu._is_amx_tile_supported(),
    "amxfp16": torch.cpu._is_amx_fp16_supported(),
    "aten": torch.backends.cpu.get_cpu_capability(),
    "error": error,
    "torch": torch.__version__,
    "cuda": torch.version.cuda or "",
    "hip": torch.version.hip or "",
    "triton": triton.__version__,
    "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    "python": "%d.%d" % sys.version_info[:2],
    "libc": "-".join(platform.libc_ver()),
}))
"""


def ask(source, *, stdin="", **environ):
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, **environ},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_torch_agrees_with_the_facts_and_works_under_the_contract(tmp_path):
    target = gather_facts().target
    said = ask(ASK_TORCH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), **environment_contract(target))

    assert said["error"] < 1e-5
    assert target.device_name == said["device"]
    assert (target.torch, target.python, target.libc) == (said["torch"], said["python"], said["libc"])
    assert target.accelerator == (said["cuda"] or said["hip"])
    # The distribution's version may have a local part that the package does not know of.
    assert target.triton.split("+")[0] == said["triton"]

    extras = [name for name in ("vnni", "bf16", "amx", "amxfp16") if said["avx512"] and said[name]]
    base = "avx512" if said["avx512"] else "avx2" if said["avx2"] else "default"
    isa = read_cpu("x86_64").isa
    assert isa == "_".join([base, *extras])
    if target.device_kind == "cpu":
        assert said["aten"].lower() == base
        inductors = {"avx512 avx512_vnni amx_tile": ["vnni", "amx"], "avx512 avx512_vnni": ["vnni"]}
        assert said["isa"].split()[0] == base
        assert inductors.get(said["isa"], []) == [name for name in extras if name in ("vnni", "amx")]


KEYS_BY_VARIABLE = """
import ast, json, os, sys, types
import torch._dynamo.config, torch._functorch.config, torch._inductor.config

def names(path):
    tree = ast.parse(open(path).read())
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {t for t in texts if isinstance(t, str) and t.isupper() and t.replace("_", "").isalnum() and len(t) > 1}

def configuration(path, count=[0]):
    # The module as it would be in a new process, without paying for one.
    count[0] += 1
    module = types.ModuleType(f"config{count[0]}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    exec(compile(open(path).read(), path, "exec"), module.__dict__)
    return module.save_config_portable(ignore_private_configs=False)

def shows(path, name, usual):
    for value in ("1", "0", "7"):
        os.environ[name] = value
        try:
            if configuration(path) != usual:
                return True
        except (ValueError, AssertionError, KeyError):
            pass
        finally:
            del os.environ[name]
    return False

for name in [name for name in os.environ if "TORCH" in name or name in ("CI", "CXX")]:
    del os.environ[name]
found = {}
for module in (torch._inductor.config, torch._functorch.config):
    usual = configuration(module.__file__)
    for name in names(module.__file__):
        found[name] = found.get(name, False) or shows(module.__file__, name, usual)
print(json.dumps(found))
"""


def test_every_variable_in_a_key_of_inductor_or_aotautograd_has_a_role(tmp_path):
    in_key = ask(KEYS_BY_VARIABLE, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert in_key["TORCHINDUCTOR_MAX_AUTOTUNE"]
    contract = environment_contract(gather_facts().target)
    without_role = [
        name
        for name in in_key
        if in_key[name]
        and not (recorded({name: "1"}) or why_dropped(name, "1") or name in {*contract, *PATHS})
    ]
    # The contract sets what CI would decide.
    assert without_role == ["CI"]
    assert [name for name in in_key if not in_key[name] and recorded({name: "1"})] == []


TRITON_INVALIDATING = """
import json, os, sys
for name in json.loads(sys.stdin.read()):
    os.environ[name] = "0"
from triton._C.libtriton import get_cache_invalidating_env_vars
print(json.dumps(sorted(get_cache_invalidating_env_vars())))
"""


def test_every_variable_that_invalidates_triton_s_cache_has_a_role():
    env = read_python_env()
    library = (
        next(path for path in map(Path, env.paths) if (path / "triton").is_dir()) / "triton/_C/libtriton.so"
    )
    # The list is compiled in; whatever looks like one of its names is tried.
    pattern = rb"(?:TRITON|AMDGCN|MLIR|LLVM|NVPTX|PTXAS|DISABLE|ENABLE|ALLOW|USE)_[A-Z0-9_]{3,60}"
    candidates = {name.decode() for name in re.findall(pattern, library.read_bytes())}
    names = sorted(RECORDED | DIAGNOSTICS | PATHS | candidates)
    invalidating = ask(TRITON_INVALIDATING, stdin=json.dumps(names))
    assert "TRITON_F32_DEFAULT" in invalidating
    assert [
        name
        for name in invalidating
        if not (name in PATHS or recorded({name: "1"}) or why_dropped(name, "1"))
    ] == []
