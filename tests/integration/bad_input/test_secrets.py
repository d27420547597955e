"""What is secret reaches the model only by name, and nobody else at all."""

from __future__ import annotations

import gzip
from pathlib import Path

from integration.bad_input.project import Project
from integration.bad_input.test_nothing_captured import HEAD

VALUE = "hunter2-correct-horse"


def published(folder: Path) -> bytes:
    """Every byte of a layout folder, layers inflated."""
    blobs = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return b"".join(gzip.decompress(blob) if blob[:2] == b"\x1f\x8b" else blob for blob in blobs)


def test_secrets_are_in_nothing_that_is_published(project: Project) -> None:
    project.spec_with(secrets="[WEIGHTS_LOGIN]")
    project.model(
        f"{HEAD}assert 'SECRET_TOKEN' not in os.environ and 'TORCH_API_KEY' not in os.environ\n"
        f"assert os.environ['WEIGHTS_LOGIN'] == '{VALUE}-allowed'\n"
        "print('logged in as', os.environ['WEIGHTS_LOGIN'])\n"
        "f = torch.compile(lambda x: x @ x)\n"
        "def warm(): return f(torch.ones(4, 4))\n"
    )
    secrets: dict[str, str | bytes | None] = {
        "SECRET_TOKEN": VALUE,
        "TORCH_API_KEY": VALUE,
        "LATIN_PASSWORD": b"caf\xe9-caf\xe9-caf\xe9",
        "WEIGHTS_LOGIN": f"{VALUE}-allowed",
        "TORCHINDUCTOR_ODD": b"\xff\xfe",  # no secret, but nothing that a record could hold either
    }
    outcome = project.build(env=secrets)
    assert outcome.code == 0, outcome.stderr
    assert VALUE not in outcome.stdout + outcome.stderr
    content = published(project.cache)
    assert b"dev.glowplug.record" in content
    assert b"fxgraph" in content
    assert VALUE.encode() not in content
    assert b"caf\xe9" not in content


def test_a_secret_that_got_into_a_cache_entry_stops_the_build(project: Project) -> None:
    project.spec_with(secrets="[WEIGHTS_LOGIN]")
    project.model(
        f"{HEAD}os.environ['TORCH_HUB_ADDRESS'] = os.environ['WEIGHTS_LOGIN']\n"
        "f = torch.compile(lambda x: x @ x)\n"
        "def warm():\n"
        "    return f(torch.ones(4, 4))\n"
    )
    outcome = project.build(env={"WEIGHTS_LOGIN": VALUE})
    outcome.refused(
        1, "the value of WEIGHTS_LOGIN is in the captured file inductor/", "nothing was published"
    )
    assert VALUE not in outcome.stderr
    assert project.untouched()


def test_a_secret_in_the_spec_is_found_before_the_run(project: Project) -> None:
    project.spec_with(inputs=f"[{{prompt: '{VALUE}'}}]")
    outcome = project.build(env={"SECRET_TOKEN": VALUE})
    outcome.refused(1, "the value of SECRET_TOKEN is in", "run.inputs")
    assert not project.model_ran
    project.spec_with(env=f"{{LOGIN: '{VALUE}'}}")
    project.build(env={"SECRET_TOKEN": VALUE}).refused(1, "the value of SECRET_TOKEN is in")
    assert not project.model_ran
