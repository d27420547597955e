import io
import os
import signal
import stat
import tempfile
from pathlib import Path

import pytest

from glowplug import errors
from glowplug.boot import run
from glowplug.boot.access import Access
from glowplug.boot.activate import activation, strangers
from glowplug.boot.place import place, private_folder
from glowplug.boot.run import Prepared, RunRequest, become, model_facts, model_interpreter, prepare
from glowplug.core.facts import Facts
from glowplug.core.reference import LayoutRepository
from glowplug.errors import EngineError, GlowplugError, UsageError
from glowplug.registry.layout import Layout
from glowplug.report.console import Console
from unit.artifacts import make_sealed, make_session, publish
from unit.samples import H100, make_record

ENVIRON = {"PATH": "/usr/bin", "HOME": "/home/someone", "LANG": "C"}


@pytest.fixture
def heard():
    return io.StringIO()


@pytest.fixture
def asked(tmp_path):
    def ask(reference="", *, strict=False, dest="place"):
        destination = tmp_path / dest if dest else None
        return RunRequest(reference, ("serve",), destination, None, strict, Access())

    return ask


@pytest.fixture
def artifact(tmp_path, monkeypatch):
    """The reference of an artifact that fits this host, which is taken for one with an H100."""
    sealed = make_sealed(make_session(tmp_path, H100))
    publish(Layout(LayoutRepository(str(tmp_path / "layout"))), sealed, "v3")
    monkeypatch.setattr(run, "model_facts", lambda _interpreter, _overrides: Facts(H100, notes=("a note",)))
    return f"oci:{tmp_path}/layout:v3"


def test_the_command_gets_the_cache(artifact, asked, heard, tmp_path):
    made = prepare(asked(artifact), ENVIRON, Console(heard)).environment
    root = tmp_path / "place"
    assert made == ENVIRON | {
        "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"),
        "TRITON_CACHE_DIR": str(root / "triton"),
        "PYTHONPATH": str(root / "start"),
        "GLOWPLUG_CACHE": str(root),
    }
    assert (root / "inductor/fxgraph/ab/key/content").read_bytes() == b"graph" * 1000
    assert str(root / "triton/A/add.cubin") in (root / "triton/A/__grp__add.json").read_text()
    assert "warning: a note" in heard.getvalue()
    assert "cold" not in heard.getvalue()


def test_settings_that_the_capture_did_not_have_are_mentioned(artifact, asked, heard):
    environ = ENVIRON | {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    assert prepare(asked(artifact), environ, Console(heard)).environment["TORCHINDUCTOR_MAX_AUTOTUNE"] == "1"
    assert "set here, but not at the capture: TORCHINDUCTOR_MAX_AUTOTUNE" in heard.getvalue()


def test_without_a_destination_a_private_folder_is_made(artifact, asked, heard, tmp_path):
    made = prepare(asked(artifact, dest=None), ENVIRON | {"HOME": str(tmp_path)}, Console(heard)).environment
    root = Path(made["GLOWPLUG_CACHE"])
    assert root.is_relative_to(tmp_path / ".cache/glowplug")
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o700


ERRORS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GlowplugError)
]


def failing(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(run, "fetch", fail)


@pytest.mark.parametrize("kind", ERRORS)
def test_every_failure_is_a_cold_start(monkeypatch, artifact, asked, heard, kind):
    failing(monkeypatch, kind("the reason", hint="the way out"))
    assert prepare(asked(artifact), ENVIRON, Console(heard)) == Prepared(ENVIRON)
    what = "cache refused" if kind in (errors.IntegrityError, errors.TrustError) else "no cache"
    assert heard.getvalue().splitlines()[-3:] == [
        f"warning: {what}: the reason",
        "  the way out",
        "starting cold",
    ]


@pytest.mark.parametrize("kind", ERRORS)
def test_a_strict_start_ends_with_the_failure(monkeypatch, artifact, asked, heard, kind):
    failing(monkeypatch, kind("the reason"))
    with pytest.raises(kind, match="the reason"):
        prepare(asked(artifact, strict=True), ENVIRON, Console(heard))


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), RuntimeError("bug"), RecursionError(), MemoryError()]
)
def test_what_was_overlooked_is_a_cold_start_too(monkeypatch, artifact, asked, heard, error):
    failing(monkeypatch, error)
    assert prepare(asked(artifact), ENVIRON, Console(heard)) == Prepared(ENVIRON)
    assert f"no cache: {type(error).__name__}" in heard.getvalue()
    assert "please report this" in heard.getvalue()
    with pytest.raises(type(error)):
        prepare(asked(artifact, strict=True), ENVIRON, Console(heard))


def test_an_interrupt_is_no_cold_start(monkeypatch, artifact, asked, heard):
    failing(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        prepare(asked(artifact), ENVIRON, Console(heard))


@pytest.mark.parametrize("reference", ["", "oci:nowhere", "not a reference", "oci:/nowhere:v3"])
def test_a_bad_reference_is_a_cold_start(artifact, asked, heard, reference):
    assert prepare(asked(reference), ENVIRON, Console(heard)) == Prepared(ENVIRON)
    assert "starting cold" in heard.getvalue()
    with pytest.raises(GlowplugError):
        prepare(asked(reference, strict=True), ENVIRON, Console(heard))


def test_an_image_names_its_own_cache(monkeypatch, artifact, asked, heard, tmp_path):
    monkeypatch.setattr(run, "REFERENCE_FILE", tmp_path / "ref")
    assert prepare(asked(), ENVIRON, Console(heard)).fetched is None
    (tmp_path / "ref").write_text(f"{artifact}\n")
    assert prepare(asked(), ENVIRON, Console(heard)).fetched.path == tmp_path / "place"


def test_a_cold_start_leaves_no_folder(monkeypatch, artifact, asked, heard, tmp_path):
    failing(monkeypatch, errors.UnavailableError("down"))
    environ = ENVIRON | {"HOME": str(tmp_path / "home")}
    assert prepare(asked(artifact, dest=None), environ, Console(heard)) == Prepared(environ)
    assert list((tmp_path / "home" / ".cache" / "glowplug").iterdir()) == []


@pytest.mark.parametrize(
    ("inherited", "expected"), [({}, "/c/start"), ({"PYTHONPATH": ""}, "/c/start"), ({"PYTHONPATH": "/a:/b"}, "/c/start:/a:/b")]
)  # fmt: skip
def test_the_artifact_s_start_file_goes_first(inherited, expected):
    made = activation(make_record(), Path("/c"), inherited)
    assert made["PYTHONPATH"] == expected


def test_the_contract_does_not_overrule_where_the_cache_is():
    record = make_record()._replace(contract={"TORCHINDUCTOR_CACHE_DIR": "/evil", "GLOWPLUG_CACHE": "/evil"})
    made = activation(record, Path("/c"), {})
    assert (made["TORCHINDUCTOR_CACHE_DIR"], made["GLOWPLUG_CACHE"]) == ("/c/inductor", "/c")


def test_strangers_are_what_torch_keys_hold_and_the_capture_did_not_have():
    record = make_record(contract={"TORCHINDUCTOR_MAX_AUTOTUNE": "1"})
    environ = {
        "TORCHINDUCTOR_MAX_AUTOTUNE": "0",
        "TRITON_F32_DEFAULT": "ieee",
        "LANG": "C",
        "TORCH_LOGS": "all",
    }
    assert strangers(record, environ) == ("TRITON_F32_DEFAULT",)


@pytest.fixture
def programs(tmp_path):
    for name in ("python", "python3", "python3.11", "uvicorn"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python3.11", "serve.py"], "python3.11"),
        (["{bin}/python3", "serve.py"], "python3"),
        (["uvicorn", "app:app"], "python"),
        (["{bin}/uvicorn"], "python"),
        (["python3.99", "serve.py"], "python"),
        (["/absent/python"], "python"),
    ],
)
def test_the_model_s_python(programs, command, expected):
    words = [word.format(bin=programs) for word in command]
    assert model_interpreter(words, {"PATH": str(programs)}) == programs / expected


def test_the_model_s_python_without_any(programs):
    assert model_interpreter(["uvicorn"], {"PATH": "/nowhere"}) is None
    (programs / "python").unlink()
    assert model_interpreter(["uvicorn"], {"PATH": str(programs)}) == programs / "python3"


def test_an_interpreter_without_torch_fits_nothing(monkeypatch):
    monkeypatch.setattr(run, "gather_facts", lambda _interpreter, _overrides: Facts(H100._replace(torch="")))
    with pytest.raises(EngineError, match="/opt/python has no torch") as caught:
        model_facts(Path("/opt/python"), {})
    assert "--python" in caught.value.hint


def test_a_command_that_cannot_be_started(monkeypatch):
    changed = []  # for this process, SIGPIPE has to stay as it is
    monkeypatch.setattr(run.signal, "signal", lambda number, handler: changed.append((number, handler)))
    with pytest.raises(UsageError, match="cannot start /absent/serve: No such file"):
        become(["/absent/serve"], {})
    assert changed == [(signal.SIGPIPE, signal.SIG_DFL), (signal.SIGXFSZ, signal.SIG_DFL)]


@pytest.mark.parametrize(
    ("environ", "below"),
    [
        ({"HOME": "{tmp}/home"}, "home/.cache/glowplug"),
        ({"HOME": "{tmp}/home", "XDG_CACHE_HOME": "{tmp}/xdg"}, "xdg/glowplug"),
        ({"HOME": "{tmp}/home", "XDG_CACHE_HOME": "relative"}, "home/.cache/glowplug"),
        ({"HOME": "{tmp}/home", "XDG_CACHE_HOME": ""}, "home/.cache/glowplug"),
        ({}, "temporary"),
        ({"HOME": ""}, "temporary"),
        ({"HOME": "relative"}, "temporary"),
        ({"HOME": "{tmp}/file"}, "temporary"),
        ({"HOME": "/proc/nowhere"}, "temporary"),
    ],
)
def test_a_private_folder_is_made_where_it_can_be(tmp_path, monkeypatch, environ, below):
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    made = private_folder({name: value.format(tmp=tmp_path) for name, value in environ.items()}).path
    assert made.parent == tmp_path / below
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert made.stat().st_uid == os.geteuid()


def test_two_private_folders_are_two(tmp_path):
    environ = {"HOME": str(tmp_path)}
    first, second = private_folder(environ).path, private_folder(environ).path
    assert first != second
    assert first.is_dir()  # the second start has removed nothing of the first one's


def test_no_place_for_a_private_folder(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(UsageError, match="no folder to put the cache in") as caught:
        private_folder({})
    assert "--dest" in caught.value.hint


def test_a_wanted_place_is_taken_as_it_is(tmp_path):
    with place(tmp_path / "wanted", {}) as destination:
        assert destination == tmp_path / "wanted"
    assert not destination.exists()
