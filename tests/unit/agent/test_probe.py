"""The probe in real processes, with a real compiler. Nothing here needs torch: where a module of torch's is needed, a fake has its name."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import glowplug

PROBE = Path(glowplug.__file__).parent / "agent" / "probe"
COMPILE = ["g++", "-c", "one.cpp", "-o", "one.o"]


class Model:
    """A model's folder, and where the probe writes about its processes."""

    def __init__(self, folder):
        self.folder = folder
        self.events = folder / "events"
        self.events.mkdir()
        (folder / "one.cpp").write_text("int one() { return 1; }\n")
        self.env = {
            **os.environ,
            "PYTHONPATH": str(PROBE),
            "GLOWPLUG_PROBE_DIR": str(self.events),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def write(self, name, code):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(code))
        return path

    def start(self, code, **env):
        script = self.write("model.py", code)
        return subprocess.Popen(
            [sys.executable, script],
            cwd=self.folder,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, code, status=0, **env):
        """Run a script to its end; return what it printed."""
        process = self.start(code, **env)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == status
        return out

    def seen(self, event):
        lines = [line for file in self.events.iterdir() for line in file.read_text().splitlines()]
        return [found for found in map(json.loads, lines) if found["event"] == event]

    def builds(self):
        return [(e["tool"], e["output"]) for e in self.seen("tool") if e["role"] == "build"]


@pytest.fixture
def model(tmp_path):
    return Model(tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(COMPILE, check=True)",
        "subprocess.run(args=tuple(COMPILE), check=True)",
        "subprocess.run(iter(COMPILE), check=True)",
        "subprocess.check_output(COMPILE, stderr=subprocess.STDOUT)",
        "subprocess.run(COMPILE, check=True, env={'PATH': os.environ['PATH']})",
        "subprocess.run(' '.join(COMPILE), shell=True, check=True)",
        "subprocess.run(['sh', '-c', ' '.join(COMPILE)], check=True)",
        "subprocess.run(['/usr/bin/renamed', *COMPILE[1:]], executable=shutil.which('g++'), check=True)",
        "assert subprocess.Popen(COMPILE, stdout=subprocess.PIPE).communicate() == (b'', None)",
        "assert os.system(' '.join(COMPILE)) == 0",
        "assert os.system(command=' '.join(COMPILE)) == 0",
        "assert os.popen(' '.join(COMPILE)).close() is None",
        "assert os.waitpid(os.posix_spawn(shutil.which('g++'), COMPILE, os.environ), 0)[1] == 0",
        "assert os.waitpid(os.posix_spawnp('g++', COMPILE, os.environ), 0)[1] == 0",
        "assert os.spawnvp(os.P_WAIT, 'g++', COMPILE) == 0",
        "os.fork() and os.wait()[1] == 0 or os.execvp('g++', COMPILE)",
        "os.fork() and os.wait()[1] == 0 or os.execvpe('g++', COMPILE, {'PATH': os.environ['PATH']})",
        "asyncio.run(by_asyncio())",
        "in_child('fork')",
        "in_child('spawn')",
        "in_child('forkserver')",
        "subprocess.run([sys.executable, '-c', CHILD], check=True)",
        "subprocess.run([sys.executable, '-c', CHILD], check=True, env=os.environ | {'PYTHONPATH': '/nowhere'})",
        "subprocess.run([sys.executable, '-c', CHILD], check=True, env={'PATH': os.environ['PATH']})",
        "os.spawnve(os.P_WAIT, sys.executable, ['x', '-c', CHILD], {'PATH': os.environ['PATH']})",
    ],
)
def test_a_compilation_is_seen_once_however_it_is_started(model, code):
    model.run(f"""
        import asyncio, multiprocessing, os, shutil, subprocess, sys

        COMPILE = {COMPILE}
        CHILD = "import subprocess; subprocess.run(%r, check=True)" % (COMPILE,)

        async def by_asyncio():
            process = await asyncio.create_subprocess_exec(*COMPILE)
            assert await process.wait() == 0

        def compile():
            subprocess.run(COMPILE, check=True)

        def in_child(method):
            child = multiprocessing.get_context(method).Process(target=compile)
            child.start()
            child.join()
            assert child.exitcode == 0

        if __name__ == "__main__":
            {code}
    """)
    assert (model.folder / "one.o").is_file()
    assert model.builds() == [("g++", "one.o")]
    assert model.seen("blind") == []


def test_the_seconds_and_the_status_of_a_compiler_are_noted(model):
    model.run(f"import subprocess; subprocess.run({COMPILE}); subprocess.run(['g++', '-c', 'absent.cpp'])")
    first, second = model.seen("tool_end")
    started = [event["id"] for event in model.seen("tool")]
    assert [first["of"], second["of"]] == started
    assert (first["returncode"], second["returncode"]) == (0, 1)
    assert first["seconds"] > 0


def test_a_query_is_no_build(model):
    model.run("import subprocess; subprocess.run(['g++', '--version'], stdout=subprocess.DEVNULL)")
    assert [(e["tool"], e["role"]) for e in model.seen("tool")] == [("g++", "query")]


def test_a_compiler_that_is_not_there_built_nothing(model):
    model.run("""
        import subprocess
        try:
            subprocess.run(["absent-g++", "-c", "one.cpp"])
        except FileNotFoundError as error:
            assert error.filename == "absent-g++"
        else:
            raise SystemExit("no error")
    """)
    assert model.seen("tool") == []


def test_nothing_is_lost_when_the_model_leaves_at_once(model):
    model.run(f"import os, subprocess; subprocess.run({COMPILE}); os._exit(7)", status=7)
    assert model.builds() == [("g++", "one.o")]


def test_nothing_is_lost_when_the_model_is_killed_during_a_compilation(model):
    process = model.start("""
        import subprocess
        subprocess.Popen(["g++", "-c", "-x", "c++", "-", "-o", "never.o"], stdin=subprocess.PIPE).wait()
    """)
    deadline = time.monotonic() + 60
    while not model.seen("tool") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert model.builds() == [("g++", "never.o")]
    assert model.seen("tool_end") == []


def test_a_model_that_closes_descriptors_is_watched_and_keeps_its_files_to_itself(model):
    model.run(f"""
        import os, subprocess
        os.closerange(3, 256)
        mine = [open("mine-%d" % n, "w") for n in range(8)]
        subprocess.run({COMPILE}, check=True)
        for file in mine:
            file.close()
            assert os.path.getsize(file.name) == 0, open(file.name).read()
    """)
    assert model.builds() == [("g++", "one.o")]


def test_every_python_process_is_counted(model):
    model.run("import subprocess, sys; [subprocess.run([sys.executable, '-c', '']) for _ in range(2)]")
    assert len(model.seen("process")) == 3


@pytest.mark.parametrize("flag", ["-I", "-E", "-S", "-sE"])
def test_a_child_that_cannot_be_watched_is_reported(model, flag):
    model.run(f"import subprocess, sys; subprocess.run([sys.executable, {flag!r}, '-c', ''], check=True)")
    (blind,) = model.seen("blind")
    assert blind["argv"][1] == flag
    assert len(model.seen("process")) == 1


SHOW = """
    import json, sys
    known = [name for name in sys.modules if not name.startswith("_glowplug_")]
    print(json.dumps([sys.path, sorted(known), "there" if "sitecustomize" in sys.modules else ""]))
"""


def test_the_model_has_the_path_and_the_modules_of_an_unwatched_one(model):
    site = model.write("site/sitecustomize.py", "import sys; sys.by_sitecustomize = __file__").parent
    needed = "import functools, itertools, json, os, re, shlex, subprocess, threading, time, collections"
    needed += ", importlib.machinery, importlib.util"
    watched = model.run(needed + SHOW.replace("\n    ", "\n"), PYTHONPATH=f"{PROBE}:{site}:/absent")
    unwatched = model.run(needed + SHOW.replace("\n    ", "\n"), PYTHONPATH=f"{site}:/absent")
    assert json.loads(watched) == json.loads(unwatched)
    assert str(PROBE) not in watched


def test_an_existing_sitecustomize_runs(model):
    site = model.write("site/sitecustomize.py", "import sys; sys.told = __name__, __file__").parent
    out = model.run(
        "import sys, sitecustomize; print(*sys.told, sitecustomize.__file__)", PYTHONPATH=f"{PROBE}:{site}"
    )
    assert out.split() == ["sitecustomize", str(site / "sitecustomize.py"), str(site / "sitecustomize.py")]
    assert len(model.seen("process")) == 1


def test_a_broken_sitecustomize_breaks_no_more_than_without_the_probe(model):
    site = model.write("site/sitecustomize.py", "raise ValueError('on purpose')").parent
    outs = [model.run("print('ran')", PYTHONPATH=path) for path in (f"{PROBE}:{site}", str(site))]
    assert outs == ["ran\n", "ran\n"]
    assert len(model.seen("process")) == 1


@pytest.mark.parametrize("folder", ["", "/proc/absent", "/dev/null", "/proc/self"])
def test_without_a_folder_to_write_to_the_model_runs(model, folder):
    out = model.run(
        f"import subprocess; subprocess.run({COMPILE}, check=True); print('ran')", GLOWPLUG_PROBE_DIR=folder
    )
    assert out == "ran\n"


def test_a_folder_that_disappears_does_not_stop_the_model(model):
    out = model.run(
        f"import os, shutil, subprocess; shutil.rmtree(os.environ['GLOWPLUG_PROBE_DIR']);"
        f" subprocess.run({COMPILE}, check=True); os.makedirs(os.environ['GLOWPLUG_PROBE_DIR']); print('ran')"
    )
    assert out == "ran\n"
    assert model.builds() == []


def test_errors_are_those_that_python_raises(model):
    code = """
        import os, subprocess
        for call in (
            lambda: subprocess.Popen(),
            lambda: subprocess.Popen(5),
            lambda: subprocess.Popen([]),
            lambda: subprocess.Popen([5]),
            lambda: subprocess.Popen(["true"], env=5),
            lambda: subprocess.Popen(["true"], env={1: 2}),
            lambda: subprocess.Popen(["true"], absent=1),
            lambda: subprocess.Popen(["true"], -1, None, None, None, None, None, True, False, None, {}).wait(),
            lambda: subprocess.run(["sleep", "9"], timeout=0.01),
            lambda: os.system(),
            lambda: os.system(5),
            lambda: os.execv("/absent", ["x"]),
            lambda: os.execv("/absent", []),
            lambda: os.posix_spawn("/absent", ["x"], {}),
            lambda: os.posix_spawn("/absent", ["x"]),
            lambda: os.execve("/absent", ["x"], None),
        ):
            try:
                print(call())
            except Exception as error:
                print(type(error).__name__)
    """
    watched = model.run(code).split()
    assert watched == model.run(code, PYTHONPATH="").split()
    assert len(watched) == 16
    assert watched.count("0") == 1


def test_torch_s_counters_are_recorded_by_whoever_imports_them(model):
    # A fake of torch, with the one module that the probe waits for.
    model.write("torch/__init__.py", "")
    model.write("torch/_dynamo/__init__.py", "")
    model.write(
        "torch/_dynamo/utils.py",
        """
        import collections
        counters = collections.defaultdict(collections.Counter)
        def count():
            counters["aot_autograd"]["autograd_cache_miss"] += 1
        """,
    )
    model.run("""
        from torch._dynamo import utils
        from torch._dynamo.utils import counters
        counters["inductor"]["fxgraph_cache_miss"] += 1
        counters["inductor"] = counters["inductor"].copy()
        counters["inductor"]["fxgraph_cache_hit"] += 2
        utils.count()
    """)
    assert [(e["group"], e["name"], e["by"]) for e in model.seen("counter")] == [
        ("inductor", "fxgraph_cache_miss", 1),
        ("inductor", "fxgraph_cache_hit", 2),
        ("aot_autograd", "autograd_cache_miss", 1),
    ]


def test_a_triton_that_cannot_be_listened_to_is_reported(model):
    model.write("triton/__init__.py", "")  # a fake of Triton, of a version to come
    model.write("triton/knobs.py", "")
    assert model.run("import triton.knobs; print('ran')") == "ran\n"
    (found,) = model.seen("probe_error")
    assert found["where"] == "triton.knobs"


KERNEL = """
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def double(x, BLOCK: tl.constexpr):
        place = x + tl.arange(0, BLOCK)
        tl.store(place, tl.load(place) * 2)

    source = ASTSource(fn=double, signature={"x": "*fp32", "BLOCK": "constexpr"}, constexprs={(1,): 64})
    for _ in range(2):
        triton.compile(source, target=GPUTarget("cuda", 90, 32))  # no such GPU need be here
"""


def test_a_triton_compilation_is_told_from_a_hit(model):
    model.run(KERNEL, TRITON_CACHE_DIR=str(model.folder / "cache"))
    assert [(e["kernel"], e["hit"]) for e in model.seen("triton")] == [("double", False), ("double", True)]
    built = [e for e in model.seen("tool") if e["role"] == "build"]
    assert [e["tool"].removesuffix("-blackwell") for e in built] == ["ptxas"]
