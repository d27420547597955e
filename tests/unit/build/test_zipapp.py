import importlib.util
import io
import json
import marshal
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import glowplug
from glowplug.build.zipapp import DISTRIBUTIONS, main, write_zipapp
from glowplug.build.zipapp_image import write_image
from glowplug.core.oci import parse_index, parse_manifest
from glowplug.core.reference import LayoutRepository
from glowplug.errors import GlowplugError, UsageError
from glowplug.registry.layout import Layout

SOURCE_ROOT = Path(glowplug.__file__).parents[1]


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory):
    path = tmp_path_factory.mktemp("zipapp") / "glowplug.pyz"
    write_zipapp(path)
    return path


@pytest.fixture(scope="module")
def members(zipapp):
    with zipfile.ZipFile(zipapp) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_writes_the_same_bytes(zipapp, tmp_path, seed):
    """What a process has imported and in which order its sets iterate must not show."""
    code = f"import {'yaml, ' if seed == '1' else ''}glowplug.build.zipapp as z; z.main(['.'])"
    env = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT), "PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "glowplug.pyz").read_bytes() == zipapp.read_bytes()


def test_it_can_be_executed(zipapp):
    assert zipapp.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert zipapp.stat().st_mode & 0o777 == 0o755


def test_members_tell_neither_when_nor_where_they_were_written(zipapp):
    with zipfile.ZipFile(zipapp) as archive:
        infos = archive.infolist()
    assert [info.filename for info in infos] == sorted(info.filename for info in infos)
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}
    assert str(SOURCE_ROOT).encode() not in zipapp.read_bytes()


def test_it_holds_the_run_side_and_its_dependencies(members):
    for name in (
        "glowplug/boot/run.py",
        "glowplug/agent/start/sitecustomize.py",
        "click/core.py",
        "urllib3/poolmanager.py",
    ):
        assert name in members
    parts = {name.split("/")[1] for name in members if name.startswith("glowplug/")}
    assert parts & {"build", "engine", "workload", "__main__.py"} == set()
    assert b"from glowplug.cli import main" in members["__main__.py"]


def test_it_holds_the_base_dependencies_except_the_native_one():
    needed = {re.match(r"\w+", need)[0] for need in metadata.requires("glowplug") if "extra ==" not in need}
    assert needed == {*DISTRIBUTIONS, "isal"} - {"glowplug"}


def test_licences_and_metadata_come_along(members):
    kept = {name for name in members if ".dist-info/" in name}
    shipped = {
        file.as_posix()
        for name in DISTRIBUTIONS
        for file in metadata.files(name)
        if ".dist-info/licenses/" in file.as_posix() or file.match("*.dist-info/METADATA")
    }
    assert kept == shipped
    for name in ("click", "urllib3"):
        assert f"{name}-{metadata.version(name)}.dist-info/licenses/LICENSE.txt" in kept


def test_bytecode_is_that_of_the_source_beside_it(members):
    sources = {name for name in members if name.endswith(".py")}
    assert {name[:-1] for name in members if name.endswith(".pyc")} == sources
    name = "glowplug/boot/run.py"
    bytecode = members[f"{name}c"]
    assert bytecode[:4] == importlib.util.MAGIC_NUMBER
    assert bytecode[8:16] == importlib.util.source_hash(members[name])
    assert marshal.loads(bytecode[16:]) == compile(members[name], name, "exec", dont_inherit=True)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GlowplugError, match=r"cannot write .*/file/glowplug\.pyz"):
        write_zipapp(tmp_path / "file" / "glowplug.pyz")
    (tmp_path / "glowplug.pyz").mkdir()
    with pytest.raises(GlowplugError, match=r"cannot write"):
        write_zipapp(tmp_path / "glowplug.pyz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "glowplug.pyz"]


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--help"]])
def test_it_takes_one_folder(arguments):
    with pytest.raises(UsageError, match="the folder to write into"):
        main(arguments)


def test_the_image_is_that_file_for_every_architecture(zipapp, tmp_path):
    repository = LayoutRepository(str(tmp_path / "image"))
    digest = write_image(zipapp, repository, "v1")
    assert digest == write_image(zipapp, LayoutRepository(str(tmp_path / "again")), "v1")
    layout = Layout(repository)
    index = parse_index(layout.resolve("v1"))
    assert layout.resolve("v1").digest == digest
    for entry, architecture in zip(index.manifests, ("amd64", "arm64"), strict=True):
        manifest = parse_manifest(layout.resolve(entry.digest))
        config = json.loads(blob(layout, manifest.config))
        assert (entry.platform.architecture, config["architecture"], config["os"]) == (
            *[architecture] * 2,
            "linux",
        )
        (layer,) = manifest.layers
        with tarfile.open(fileobj=io.BytesIO(blob(layout, layer)), mode="r:gz") as archive:
            (member,) = archive.getmembers()
            assert (member.name, member.mode) == ("glowplug.pyz", 0o755)
            assert archive.extractfile(member).read() == zipapp.read_bytes()


def blob(layout, descriptor):
    file = io.BytesIO()
    layout.copy_blob(descriptor, file)
    return file.getvalue()
