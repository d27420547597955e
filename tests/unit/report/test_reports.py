from dataclasses import replace

import pytest

from glowplug.boot.describe import Described
from glowplug.build.pipeline import BuildResult
from glowplug.core.oci import CONFIG_TYPE, LAYER_TYPE, Descriptor, Manifest
from glowplug.core.record import Update
from glowplug.core.reference import parse_reference
from glowplug.report.build import build_table, proof_table
from glowplug.report.inspect import inspect_text
from glowplug.report.table import table
from unit.artifacts import make_sealed, make_session
from unit.samples import COLD, CPU, PROOF, make_record

REFERENCE = parse_reference("ghcr.io/acme/flux-cache:v3")


def test_columns_are_aligned():
    assert table([["name", "count", "x"], ["a", "1", "yy"], ["longer name", "12345678", ""]]) == (
        "name            count   x\n"
        "-----------  --------  --\n"
        "a                   1  yy\n"
        "longer name  12345678"
    )


def test_a_table_may_have_no_header():
    assert table([["a", "1"], ["bb", "22"]], header=False) == "a    1\nbb  22"


def test_rows_of_different_lengths_are_a_mistake():
    with pytest.raises((ValueError, IndexError)):
        table([["a", "b"], ["a"]])


def test_the_runs_of_a_proof_stand_side_by_side():
    assert proof_table(PROOF) == (
        "      ready s  first answer s  all inputs s  steady s  native builds  Triton  misses\n"
        "----  -------  --------------  ------------  --------  -------------  ------  ------\n"
        "cold      5.0            60.0          61.0     0.250             26       0       2\n"
        "warm      5.0             6.0           7.0     0.250              0       0       0"
    )


def test_eager_figures_come_first_and_may_lack_a_steady_one():
    lines = proof_table(PROOF._replace(eager=COLD._replace(inputs=()))).splitlines()
    assert lines[2].split() == ["eager", "5.0", "60.0", "61.0", "-", "26", "0", "2"]


@pytest.fixture
def sealed(tmp_path):
    return make_sealed(make_session(tmp_path))


def result(sealed, proof=PROOF):
    sealed = sealed and replace(sealed, record=sealed.record._replace(proof=proof))
    manifest = Manifest(Descriptor(CONFIG_TYPE, "sha256:" + "0" * 64, 58_916), (), {})
    return BuildResult("published", REFERENCE, "sha256:" + "1" * 64, manifest, REFERENCE, ("a", "b"), sealed)


def test_a_build_ends_with_its_proof(sealed):
    text = build_table(result(sealed))
    assert proof_table(PROOF) in text
    assert text.endswith("\nproved; cold / warm to the first answer: 10.0; 58.9 kB\n")


def test_a_partial_proof_is_no_proof(sealed):
    assert "\nPARTIAL; cold" in build_table(result(sealed, PROOF._replace(shortfalls=("x",))))


def test_a_build_that_ran_nothing_has_no_table():
    assert build_table(result(None)) == ""


def test_a_result_for_scripts(sealed):
    made = result(sealed).to_json()
    assert made["outcome"] == "published"
    assert made["reference"] == "ghcr.io/acme/flux-cache:v3"
    assert made["targets"] == ["a", "b"]
    assert made["proof"] == PROOF.to_json()
    assert result(None).to_json()["proof"] is None


def described(record):
    config = Descriptor(CONFIG_TYPE, "sha256:" + "0" * 64, 900)
    layers = tuple(Descriptor(LAYER_TYPE, "sha256:" + "1" * 64, 1_000_000) for _ in range(3))
    return Described("sha256:" + "2" * 64, Manifest(config, layers, {}), record)


def test_an_artifact_is_described():
    text = inspect_text(REFERENCE, [described(make_record()), described(make_record(CPU))])
    for expected in (
        "ghcr.io/acme/flux-cache:v3\n\nh100-80gb-hbm3-sm90\n",
        "\n\ncpu-x86_64-avx512_vnni\n",
        "  model    flux-schnell v3\n",
        "  target   NVIDIA H100 80GB HBM3 (sm_90), linux/x86_64, glibc-2.36\n",
        "  torch    2.13.0+cu130, CUDA/ROCm 13.0, triton 3.9.0\n",
        "  torch    2.13.0+cpu\n",
        "  digest   sha256:2222",
        "  size     3.0 MB in 3 layers\n",
        "  created  2026-01-02T03:04:05Z by glowplug 0.1.0\n",
        "  inputs   3\n",
        "  inductor      7  200.0 kB\n",
        "  proved: no compile work after a restore, same output\n",
        "  cold / warm to the first answer: 10.0\n",
        "    home: empty",
    ):
        assert expected in text, expected
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_a_shortfall_is_shown():
    proof = PROOF._replace(shortfalls=("the replay compiled again: 2 native builds",))
    text = inspect_text(REFERENCE, [described(make_record(proof=proof))])
    assert "  PARTIAL:\n    the replay compiled again: 2 native builds\n" in text
    assert "proved:" not in text


def test_what_servers_added_is_shown_as_not_proved():
    record = make_record()._replace(
        updates=(Update("2026-02-03T04:05:06Z", "sha256:" + "0" * 64, 3, 12_345),)
    )
    text = inspect_text(REFERENCE, [described(record)])
    assert "  not proved: 3 files, 12.3 kB, added by a server at 2026-02-03T04:05:06Z\n" in text
