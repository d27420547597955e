"""Places that torch could not load its kernels from."""

import subprocess

import pytest

from glowplug.boot.place import private_folder, require_usable
from glowplug.errors import UsageError


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
    path = private_folder({"HOME": str(noexec)})
    assert path.parent.parent == tmp_path
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.exists()


def test_a_path_that_pythonpath_would_cut_is_refused(tmp_path):
    with pytest.raises(UsageError, match="PYTHONPATH takes for an end"):
        require_usable(tmp_path / "a:b")
