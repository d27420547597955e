import pytest

from glowplug.agent.probe._glowplug_commands import classify, is_blind


@pytest.mark.parametrize(
    ("command", "tool", "output"),
    [
        ("g++ -c a.cpp -o a.o", "g++", "a.o"),
        ("/usr/bin/g++-12 -shared a.cpp -o /cache/a.so", "g++-12", "/cache/a.so"),
        ("x86_64-linux-gnu-gcc-12.2 -c a.c", "x86_64-linux-gnu-gcc-12.2", ""),
        ("aarch64-conda-linux-gnu-c++ -c a.cc", "aarch64-conda-linux-gnu-c++", ""),
        ("cc -O2 main.c -o main", "cc", "main"),
        ("c++ a.o b.a", "c++", ""),
        ("clang -c a.ll", "clang", ""),
        ("clang++-18 @arguments.rsp", "clang++-18", ""),
        ("g++ -x c++ -o a.out -", "g++", "a.out"),
        ("icpx -fsycl a.cpp -o a.so", "icpx", "a.so"),
        ("nvcc -gencode arch=compute_90,code=sm_90 -c k.cu -o k.o", "nvcc", "k.o"),
        ("/triton/bin/ptxas -lineinfo -v --gpu-name=sm_90a k.ptx -o k.cubin", "ptxas", "k.cubin"),
        ("ptxas-blackwell --gpu-name=sm_100a k.ptx -o k.cubin", "ptxas-blackwell", "k.cubin"),
        ("cicc -arch compute_90 k.bc -o k.ptx", "cicc", "k.ptx"),
        ("nvlink --arch=sm_90 a.o -o a.cubin", "nvlink", "a.cubin"),
        ("fatbinary --create=a.fatbin -o a.fatbin", "fatbinary", "a.fatbin"),
        ("hipcc --offload-arch=gfx942 -c k.hip -o k.o", "hipcc", "k.o"),
        ("amdclang++ k.hip -o k.so", "amdclang++", "k.so"),
        ("ninja", "ninja", ""),
        ("/usr/bin/ninja -v -C build", "ninja", ""),
        ("ccache g++ -c a.cpp", "g++", ""),
        ("sccache /usr/bin/nvcc -c k.cu", "nvcc", ""),
        ("env LANG=C CPATH= g++ -c a.cpp", "g++", ""),
        ("env -i PATH=/bin gcc -c a.c", "gcc", ""),
        ("LANG=C g++ -c a.cpp", "g++", ""),
        ("nice -n 10 ccache clang++ -c a.cpp", "clang++", ""),
    ],
)
def test_a_build(command, tool, output):
    assert classify(command.split()) == (tool, "build", output)


@pytest.mark.parametrize(
    "command",
    [
        "g++ --version",
        "g++ -v",
        "gcc -dumpversion",
        "gcc -dumpmachine",
        "gcc -print-search-dirs",
        "clang -print-resource-dir a.c",
        "g++ -E -x c++ -",
        "g++ -fsyntax-only a.cpp",
        "g++ -### -c a.cpp",
        "nvcc --version",
        "/triton/bin/ptxas --version",
        "ninja --version",
        "g++ -march=native -Q --help=target",
        "env g++ --version",
    ],
)
def test_a_query_builds_nothing(command):
    assert classify(command.split())[1] == "query"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "env",
        "ccache --show-stats",
        "python -c pass",
        "ls a.cpp",
        "gcc-ar rcs a.a a.o",
        "gcc-nm a.o",
        "c++filt _Z1av",
        "clang-format a.cpp",
        "clang-tidy-18 a.cpp",
        "cuobjdump a.cubin",
        "ninjatrader",
        "cat g++ -c a.cpp",
        "LANG=C",
        "sh script.sh",
        "sh -c",
        "bash",
        "nvcc.profile -c k.cu",
    ],
)
def test_what_is_no_compiler(command):
    assert classify(command.split()) is None


@pytest.mark.parametrize(
    ("script", "role"),
    [
        ("cd /tmp && g++ -c a.cpp", "build"),
        ("g++ --version; g++ -c a.cpp", "build"),
        ("g++ -c a.cpp; g++ --version", "build"),
        ("g++ --version || clang --version", "query"),
        ("echo 1 | gcc -E -", "query"),
        ("CC=gcc make\nclang -c 'a b.c'", "build"),
        ("exec g++ -c a.cpp", "build"),
        ('sh -c "g++ -c a.cpp"', "build"),
        (
            "echo 'it; g++ -c a.cpp",
            "build",
        ),  # not a script that a shell would run, but surely no reason to fail
        ("echo g++ -c a.cpp", None),
    ],
)
@pytest.mark.parametrize("shell", [["sh", "-c"], ["/bin/bash", "-lc"], ["env", "LANG=C", "dash", "-e", "-c"]])
def test_a_shell_s_script_is_read(shell, script, role):
    found = classify([*shell, script])
    assert (found and found[1]) == role


def test_the_first_build_of_a_script_is_named():
    assert classify(["sh", "-c", "gcc --version; g++ -c a.cpp -o a.o; g++ b.cpp -o b.so"]) == (
        "g++",
        "build",
        "a.o",
    )


def test_words_may_be_bytes_and_paths(tmp_path):
    assert classify([tmp_path / "g++", b"-c", "a.cpp"]) == ("g++", "build", "")


@pytest.mark.parametrize(
    "command",
    [
        "python -I -c pass",
        "/usr/bin/python3.11 -E x.py",
        "python3 -sS x.py",
        "python -bBI x.py",
        "python -Ic pass",
        "python -W ignore -X dev -I x.py",
        "env -u LANG=C python -S x.py",
    ],
)
def test_a_python_that_ignores_the_environment_is_blind(command):
    assert is_blind(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python",
        "python x.py -I",
        "python -c pass -E",
        "python -m site -S",
        "python - -I",
        "python -u -B x.py",
        "python -WError x.py",
        "python -X importtime x.py",
        "grep -E x",
        "pythonic -I",
    ],
)
def test_any_other_command_is_not(command):
    assert not is_blind(command.split())
