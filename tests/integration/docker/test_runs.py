"""A command in a container: what it finds, what comes home, how it ends."""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from glowplug.core.image_spec import Volume
from glowplug.errors import EngineError, ModelRunError
from integration.docker.images import TORCH
from integration.docker.runs import Runs

STARTED = "print('started', flush=True)\n"


def test_what_it_prints_writes_and_returns_comes_home(runs):
    with runs.engine() as engine:
        done = runs.within(engine, "print('said'); (out / 'made').write_text('x'); sys.exit(3)")
    assert (done.status, done.log) == (3, "said\n")
    made = done.out / "made"
    assert made.read_text() == "x"
    assert made.stat().st_uid == os.geteuid()


def test_a_file_it_removed_is_gone_here(runs):
    with runs.engine() as engine:
        launch = runs.launch(engine, "os.unlink(out / 'old'); (out / 'new').touch()")
        (launch.workspace.here / "out" / "old").write_text("x")
        engine.run(launch, lambda _elapsed_s: None)
    assert [path.name for path in (launch.workspace.here / "out").iterdir()] == ["new"]


def test_each_workspace_is_seen_at_another_place(runs, tmp_path):
    with runs.engine() as engine:
        assert engine.workspace(tmp_path).seen_at != engine.workspace(tmp_path).seen_at


def test_the_image_keeps_its_entrypoint_user_folder_and_environment(runs, app_image):
    code = "print(os.environ['FROM_IMAGE'], os.environ['FROM_ENTRYPOINT'], os.getuid(), os.getcwd(), os.environ['EXTRA'])"
    with runs.engine(app_image) as engine:
        done = runs.within(engine, f"{code}\n(out / 'mine').touch()", env={"EXTRA": "added"})
    assert done.log == "yes yes 1000 /home/app added\n"
    assert (done.out / "mine").exists()


def test_an_entrypoint_can_be_taken_away(runs, app_image):
    done = runs.python("print('FROM_ENTRYPOINT' in os.environ)", app_image, entrypoint=())
    assert done.log == "False\n"


def test_an_entrypoint_can_be_replaced(runs, app_image):
    done = runs.python("print(os.environ['SAID'])", app_image, entrypoint=("/bin/env", "SAID=so"))
    assert done.log == "so\n"


def test_another_user_can_write_what_is_writable_and_nothing_else(runs):
    code = """
        print(os.getuid(), os.getgid())
        (out / "kept" / "entry").write_text("changed")
        for place in (workspace / "new", pathlib.Path("/src/new")):
            try:
                place.touch()
            except PermissionError:
                print("refused")
    """
    with runs.engine() as engine:
        launch = runs.launch(engine, textwrap.dedent(code), as_other_user=True)
        (launch.workspace.here / "out" / "kept").mkdir(mode=0o700)
        (launch.workspace.here / "out" / "kept" / "entry").write_text("x")
        assert engine.run(launch, lambda _elapsed_s: None) == 0
        assert engine.other_user == "other user (65534)"
    assert launch.log.read_text() == "65534 65534\nrefused\nrefused\n"
    assert (launch.workspace.here / "out" / "kept" / "entry").read_text() == "changed"


def test_a_model_that_another_user_cannot_read_runs_as_its_own(runs):
    runs.docker.build(
        "glowplug-test/private:1",
        f'FROM {TORCH}\nWORKDIR /root/model\nRUN ["python", "-c", "import os; os.chmod(\'/root\', 0o700)"]\n',
    )
    with runs.engine("glowplug-test/private:1") as engine:
        assert engine.other_user == "same user (0); another one cannot read the model"
        done = runs.within(engine, "print(os.getuid())", as_other_user=True)
    assert done.log == "0\n"


def test_watched_folders_are_seen_while_it_runs(runs):
    seen = []

    def look(_elapsed_s):
        seen.extend(launch.workspace.here.glob("out/early"))
        if seen:
            raise KeyboardInterrupt  # it would wait for ever

    with runs.engine() as engine:
        launch = runs.launch(engine, "(out / 'early').touch(); time.sleep(600)")
        with pytest.raises(KeyboardInterrupt):
            engine.run(launch, look)


def test_scratch_folders_stay_in_the_container(runs):
    with runs.engine() as engine:
        launch = runs.launch(engine, "(out / 'large').touch()", watched=())
        launch = replace(launch, scratch=launch.writable)
        engine.run(launch, lambda _elapsed_s: None)
    assert [path.name for path in (launch.workspace.here / "out").iterdir()] == []


def test_time_runs_out_with_what_it_had_brought_home(runs):
    code = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit((out / 'asked').touch()))"
    with runs.engine() as engine:
        launch = runs.launch(engine, f"{code}\ntime.sleep(600)", timeout_s=3.0)
        with pytest.raises(ModelRunError, match="did not finish within 3 s"):
            engine.run(launch, lambda _elapsed_s: None)
    assert [path.name for path in (launch.workspace.here / "out").iterdir()] == ["asked"]


def test_a_signal_that_killed_it_is_told(runs):
    assert runs.python("import signal; os.kill(os.getpid(), signal.SIGKILL)").status == -9


def test_too_little_memory_is_told(runs):
    code = """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        print("small", flush=True)
        signal.sigwait({signal.SIGUSR1})
        large = b"x" * (1 << 30)
        time.sleep(600)
    """

    told = []

    def shrink(_elapsed_s):
        if not told and launch.log.read_text() == "small\n":
            [container] = runs.docker.api.containers()
            runs.docker.api.update_container(container["Id"], mem_limit=64 << 20, memswap_limit=64 << 20)
            runs.docker.api.kill(container["Id"], "SIGUSR1")
            told.append(container)

    with runs.engine() as engine:
        launch = runs.launch(engine, textwrap.dedent(code))
        with pytest.raises(ModelRunError, match="more memory than its container"):
            engine.run(launch, shrink)


@pytest.mark.parametrize("entrypoint", [None, ("/usr/bin/tini", "--"), ("/bin/sh", "-c", 'exec "$0" "$@"')])
def test_a_command_that_is_not_there_is_told(runs, entrypoint):
    with runs.engine(entrypoint=entrypoint) as engine:
        launch = runs.launch(engine, "", argv=("no-such-program", "x"))
        with pytest.raises(EngineError, match="has no program no-such-program") as caught:
            engine.run(launch, lambda _elapsed_s: None)
    assert "run.interpreter" in caught.value.hint


def test_folders_and_volumes_are_mounted_where_the_spec_says(runs):
    weights = runs.folder / "weights"
    weights.mkdir()
    (weights / "model.bin").write_text("large")
    volumes = (Volume("./weights", "/weights", read_only=True), Volume("glowplug-test-kept", "/kept"))
    code = "print(open('/weights/model.bin').read(), os.access('/weights', os.W_OK))\nopen('/kept/n', 'a').write('x')\nprint(open('/kept/n').read())"
    assert runs.python(code, volumes=volumes).log == "large False\nx\n"
    assert runs.python(code, volumes=volumes).log == "large False\nxx\n"
    runs.docker.api.remove_volume("glowplug-test-kept")


def test_the_size_of_shared_memory_is_the_specs(runs):
    code = "s = os.statvfs('/dev/shm'); print(s.f_blocks * s.f_frsize)"
    assert runs.python(code, shm_size_bytes=123 << 20).log == f"{123 << 20}\n"


@pytest.mark.parametrize(("init", "name"), [(True, "docker-init"), (False, "python"), (None, "docker-init")])
def test_process_1_is_the_specs(runs, init, name):
    assert name in runs.python("print(open('/proc/1/cmdline').read())", init=init).log


def test_an_image_with_its_own_init_gets_no_second_one(runs, cog_image):
    done = runs.python("print(open('/proc/1/cmdline').read())", cog_image)
    assert done.log.startswith("/usr/bin/tini\0--\0")


def test_it_finds_programs_without_running_anything(runs):
    with runs.engine() as engine:
        assert engine.python == "/opt/model/bin/python"
        assert engine.environ["PATH"] == "/opt/model/bin:/usr/bin:/bin"
        assert engine.search_path("/usr/bin") == "/opt/model/bin:/usr/bin"
        assert engine.find_program(["no-such", "cat", "sh"], "/nowhere:/usr/bin") == "cat"
        assert engine.find_program(["bin", "passwd"], "/usr:/etc") is None


BUILDER = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from integration.docker.daemon import DockerService
from integration.docker.runs import Runs
import docker
folder = Path({folder!r})
runs = Runs(DockerService(folder, docker.APIClient({host!r})), Path({work!r}))
with runs.engine() as engine:
    runs.within(engine, "time.sleep(600)", lambda elapsed_s: print("running", flush=True))
"""


@pytest.fixture
def other_build(docker, tmp_path):
    """Another build, that is in the middle of a run."""
    code = BUILDER.format(
        path=[path for path in sys.path if path],
        folder=str(docker.folder),
        host=docker.environ["DOCKER_HOST"],
        work=str(tmp_path),
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"running\n"
    yield process
    process.kill()
    process.wait()


def test_the_containers_of_a_killed_build_are_removed_by_the_next(docker, other_build, tmp_path):
    with_two = set(docker.containers())
    assert len(with_two) == 2

    def open_engine():
        with Runs(docker, tmp_path).engine():
            return set(docker.containers())

    assert with_two < open_engine()  # a live build's are left alone
    other_build.kill()
    other_build.wait()
    assert set(docker.containers()) == with_two
    assert not with_two & open_engine()
    assert docker.containers() == []
