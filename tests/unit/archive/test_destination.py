"""A destination that is complete or absent, and what killed processes leave beside it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.archive import owned
from glowplug.archive.destination import staged


def partial(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".glowplug.*"))


def put(path: Path) -> None:
    with staged(path) as staging:
        (staging / "tree").mkdir()


def left_behind(folder: Path) -> str:
    """Kill a process in the middle of its work, and return what it leaves."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with staged(folder / "killed") as staging:
            (staging / "tree" / "below").mkdir(parents=True)
            os.write(told, b"x")
            signal.pause()
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)
    (name,) = partial(folder)
    return name


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left_behind(tmp_path)
    put(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_live_process_works_on_stays(tmp_path: Path) -> None:
    with staged(tmp_path / "first") as staging:
        (staging / "tree").mkdir()
        put(tmp_path / "second")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_a_lock_of_another_kernel_is_believed_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = left_behind(tmp_path)
    monkeypatch.setattr(owned, "_kernel", lambda: "another")
    put(tmp_path / "out")
    assert partial(tmp_path) == [name]
    os.utime(tmp_path / name, (1_000_000, 1_000_000))
    put(tmp_path / "later")
    assert partial(tmp_path) == []


def fails(*_: object) -> None:
    raise OSError(9, "Bad file descriptor")


def test_without_locks_only_age_tells_and_all_else_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = left_behind(tmp_path)
    monkeypatch.setattr("fcntl.flock", fails)
    put(tmp_path / "out")
    assert (tmp_path / "out").is_dir()
    assert partial(tmp_path) == [name]
    os.utime(tmp_path / name, (1_000_000, 1_000_000))
    put(tmp_path / "later")
    assert partial(tmp_path) == []


def test_what_a_live_process_works_on_stays_however_old_it_looks(tmp_path: Path) -> None:
    with staged(tmp_path / "first") as staging:
        (staging / "tree").mkdir()
        os.utime(staging, (1_000_000, 1_000_000))
        put(tmp_path / "second")
    assert (tmp_path / "first").is_dir()


def test_what_belongs_to_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may remove anything, and must not: in /tmp, others have folders too."""
    name = left_behind(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    put(tmp_path / "out")
    assert partial(tmp_path) == [name]


def plant_link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def plant_file(path: Path, _: Path) -> None:
    path.write_text("mine")


@pytest.mark.parametrize("plant", [plant_link, plant_file])
def test_only_folders_are_swept(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept").mkdir(parents=True)
    name = f".glowplug.{owned._kernel()}.x.partial"
    plant(tmp_path / name, elsewhere)
    put(tmp_path / "out")
    assert partial(tmp_path) == [name]
    assert (elsewhere / "kept").is_dir()


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def swept_at_first(folder: Path) -> int | None:
        attempts.append(folder)
        if len(attempts) == 1:
            folder.rmdir()
        return lock(folder)

    lock = owned._lock
    monkeypatch.setattr(owned, "_lock", swept_at_first)
    put(tmp_path / "out")
    assert len(attempts) == 2
    assert partial(tmp_path) == []


def test_many_at_once_sweep_nothing_of_each_other(tmp_path: Path) -> None:
    left_behind(tmp_path)
    threads = [threading.Thread(target=put, args=(tmp_path / f"out-{number}",)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"out-{n}" for n in range(40))
