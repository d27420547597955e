"""Places that torch could not load its kernels from."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import glowplug
from glowplug.boot.place import private_folder, require_usable
from glowplug.errors import UsageError

SOURCE_ROOT = str(Path(glowplug.__file__).parents[1])


@pytest.fixture
def noexec(tmp_path):
    folder = tmp_path / "noexec"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_noexec_mount_is_refused(noexec):
    with pytest.raises(UsageError, match="mounted noexec"):
        require_usable(noexec / "not" / "yet" / "there")


def test_a_private_folder_avoids_a_noexec_home(noexec, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = private_folder({"HOME": str(noexec)}).path
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_path_that_pythonpath_would_cut_is_refused(tmp_path):
    with pytest.raises(UsageError, match="PYTHONPATH takes for an end"):
        require_usable(tmp_path / "a:b")


# Prints its folder, and becomes another program, which does not know of it.
BECOMES = """
import os
from glowplug.boot.place import private_folder
print(private_folder(os.environ).path, flush=True)
os.execvp("sh", ["sh", "-c", SERVER])
"""


@pytest.fixture
def become(tmp_path):
    """Start a program in a private folder, which then becomes a shell."""
    started = []

    def start(server):
        code = BECOMES.replace("SERVER", repr(server))
        environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": "", "PYTHONPATH": SOURCE_ROOT}
        program = subprocess.Popen(
            [sys.executable, "-c", code],
            env=environ,
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        started.append(program)
        return program, Path(program.stdout.readline().strip())

    yield start
    for program in started:
        program.kill()
        program.communicate()


def test_who_replaced_us_keeps_the_folder_until_it_ends(become, tmp_path):
    server, folder = become("echo serving; read line")
    assert server.stdout.readline() == "serving\n"  # the program that made the folder is no more
    other = private_folder({"HOME": str(tmp_path)})
    assert folder.is_dir()
    server.communicate()
    next_one = private_folder({"HOME": str(tmp_path)})
    assert set(folder.parent.iterdir()) == {other.path, next_one.path}
    for kept in (other, next_one):
        kept.remove()
    assert list(folder.parent.iterdir()) == []


def test_a_worker_that_outlives_its_server_keeps_the_folder(become, tmp_path):
    server, folder = become("sleep 60 > /dev/null & echo $!")
    worker = int(server.stdout.readline())
    try:
        server.communicate()
        private_folder({"HOME": str(tmp_path)}).remove()
        assert folder.is_dir()
    finally:
        os.kill(worker, signal.SIGKILL)
    while folder.exists():  # until the worker is gone, whoever reaps it
        private_folder({"HOME": str(tmp_path)}).remove()


def test_only_our_own_kind_is_swept(tmp_path):
    folder = tmp_path / ".cache" / "glowplug"
    for name in ("run-1", "glowplug", "models"):
        (folder / name).mkdir(parents=True)
    (folder / "glowplug-run-notes").write_text("mine")
    private_folder({"HOME": str(tmp_path)}).remove()
    assert sorted(path.name for path in folder.iterdir()) == [
        "glowplug",
        "glowplug-run-notes",
        "models",
        "run-1",
    ]
