"""Whatever a container leaves in its folders, only plain content of that folder comes home."""

import os
import stat

import pytest

from glowplug.errors import ModelRunError


@pytest.fixture
def outside(tmp_path):
    place = tmp_path / "outside"
    place.mkdir()
    (place / "untouched").write_text("ours")
    return place


def test_links_and_odd_files_come_home_only_where_they_are_harmless(runs, outside):
    code = f"""
        (out / "real").mkdir()
        (out / "real" / "file").write_text("x")
        (out / "inside").symlink_to("real/file")
        (out / "real" / "up").symlink_to("../real/file")
        (out / "away").symlink_to("/etc/passwd")
        (out / "further").symlink_to("../../../../../../etc/passwd")
        (out / "hidden").symlink_to("real/../../../etc/passwd")
        (out / "trap").symlink_to("{outside}")
        os.link(out / "real" / "file", out / "same")
        os.mkfifo(out / "pipe")
        os.mknod(out / "device", 0o20666, os.makedev(1, 3))
        (out / "set-uid").write_text("x")
        os.chmod(out / "set-uid", 0o6777)
        (out / "closed").mkdir()
        (out / "closed" / "file").touch()
        os.chmod(out / "closed", 0)
        (out / ("long" * 60)).touch()
        (out / "line\\nbreak").touch()
        open(os.fsencode(out) + b"/\\xff", "w")
    """
    done = runs.python("\n".join(line.strip() for line in code.splitlines()))
    assert done.log == ""
    found = {os.fsencode(path.relative_to(done.out)) for path in done.out.rglob("*")}
    plain = {
        "real",
        "real/file",
        "real/up",
        "inside",
        "same",
        "set-uid",
        "closed",
        "closed/file",
        "line\nbreak",
    }
    assert found == {name.encode() for name in plain} | {b"long" * 60, b"\xff"}
    assert (done.out / "inside").read_text() == (done.out / "real" / "up").read_text() == "x"
    assert stat.S_IMODE((done.out / "set-uid").stat().st_mode) & 0o7022 == 0
    assert [path.name for path in outside.iterdir()] == ["untouched"]


def test_a_folder_that_became_a_link_is_refused(runs, outside):
    with runs.engine() as engine:
        launch = runs.launch(
            engine, f"os.rename(out, workspace / 'x'); out.symlink_to('{outside}')", watched=()
        )
        with pytest.raises(ModelRunError, match="something else than a folder"):
            engine.run(launch, lambda _elapsed_s: None)
    assert [path.name for path in outside.iterdir()] == ["untouched"]
    assert [path.name for path in (launch.workspace.here / "out").iterdir()] == []


def test_a_folder_that_is_gone_is_empty_here(runs):
    done = runs.python("os.rename(out, workspace / 'x')")
    assert [path.name for path in done.out.iterdir()] == []


def test_links_and_permissions_go_in_as_they_are(runs):
    code = "print((out / 'link').readlink(), oct((out / 'tool').stat().st_mode & 0o111), (out / 'link').read_text())"
    with runs.engine() as engine:
        launch = runs.launch(engine, code)
        out = launch.workspace.here / "out"
        (out / "tool").write_text("content")
        (out / "tool").chmod(0o700)
        (out / "link").symlink_to("tool")
        engine.run(launch, lambda _elapsed_s: None)
    assert launch.log.read_text() == "tool 0o100 content\n"
