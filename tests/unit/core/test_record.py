import json

import pytest

from glowplug.core.facts import Facts
from glowplug.core.inventory import KindSummary
from glowplug.core.oci import encode
from glowplug.core.record import build_key, parse_record
from glowplug.errors import IntegrityError
from unit.samples import COLD, CPU, H100, PROOF, make_record

RECORD = make_record()


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        make_record(CPU, PROOF._replace(eager=COLD, shortfalls=("compiled again",))),
        RECORD._replace(facts={}, contract={}, kinds={}, coverage=()),
    ],
)
def test_what_was_written_is_read_again(record):
    assert parse_record(encode(record.to_json())) == record


def test_the_totals_are_over_all_kinds():
    assert (RECORD.files, RECORD.size_bytes) == (15, 500_000)
    assert RECORD._replace(kinds={}).files == 0


def test_the_annotations_let_anyone_choose():
    assert RECORD.annotations() == {
        "dev.glowplug.format": "1",
        "dev.glowplug.key": "sha256:" + "5" * 64,
        "dev.glowplug.model.name": "flux-schnell",
        "dev.glowplug.model.version": "v3",
        "dev.glowplug.target.device.kind": "cuda",
        "dev.glowplug.target.device.name": "NVIDIA H100 80GB HBM3",
        "dev.glowplug.target.device.arch": "sm_90",
        "dev.glowplug.target.os": "linux",
        "dev.glowplug.target.machine": "x86_64",
        "dev.glowplug.target.libc": "glibc-2.36",
        "dev.glowplug.target.python": "3.11",
        "dev.glowplug.target.torch": "2.13.0+cu130",
        "dev.glowplug.target.accelerator": "13.0",
        "dev.glowplug.target.triton": "3.9.0",
        "dev.glowplug.files": "15",
        "dev.glowplug.bytes": "500000",
        "dev.glowplug.proof": "complete",
        "dev.glowplug.proof.cold-s": "60.00",
        "dev.glowplug.proof.warm-s": "6.00",
        "org.opencontainers.image.title": "flux-schnell compile cache for h100-80gb-hbm3-sm90",
        "org.opencontainers.image.version": "v3",
        "org.opencontainers.image.created": "2026-01-02T03:04:05Z",
    }


def test_a_shortfall_and_eager_figures_are_annotated():
    proof = PROOF._replace(eager=COLD._replace(first_answer_s=12.3456), shortfalls=("compiled again",))
    annotations = make_record(proof=proof).annotations()
    assert annotations["dev.glowplug.proof"] == "partial"
    assert annotations["dev.glowplug.proof.eager-s"] == "12.35"


@pytest.mark.parametrize("found", [0, 2, "1", None, True + 1])
def test_a_format_of_another_time_is_named(found):
    raw = encode({**RECORD.to_json(), "format": found})
    with pytest.raises(IntegrityError, match=f"format {found!r}; this version reads format 1") as caught:
        parse_record(raw)
    assert caught.value.hint == "update glowplug, or build the artifact again"


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"null", b"[]", b"7", b"{}", b"[" * 200_000])
def test_what_is_no_record(raw):
    with pytest.raises(IntegrityError, match="the artifact's record"):
        parse_record(raw)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, ...) for key in RECORD.to_json() if key != "format"),
        ("model", "flux"),
        ("model", {"name": "flux"}),
        ("target", {**H100.to_json(), "torch": 2}),
        ("facts", 7),
        ("contract", []),
        ("contract", None),
        ("kinds", []),
        ("kinds", {"inductor": 7}),
        ("kinds", {"inductor": {"files": "many", "size_bytes": 1}}),
        ("kinds", {"inductor": {"files": float("inf"), "size_bytes": 1}}),
        ("kinds", {"inductor": {"files": float("nan"), "size_bytes": 1}}),
        ("coverage", 7),
        ("proof", None),
    ],
)
def test_a_damaged_record(key, value):
    body = {**RECORD.to_json(), key: value}
    if value is ...:
        del body[key]
    with pytest.raises(IntegrityError):
        parse_record(json.dumps(body).encode())


@pytest.mark.parametrize(
    "contract",
    [
        {"TORCHINDUCTOR_CPP_MARCH": "x86-64-v4", "ATEN_CPU_CAPABILITY": "avx512"},
        {"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "TRITON_F32_DEFAULT": "ieee", "CXX": "g++-12"},
    ],
)
def test_a_record_may_set_what_a_compiler_reads(contract):
    assert parse_record(encode(make_record(contract=contract).to_json())).contract == contract


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "evil.so"),
        ("PATH", "/evil"),
        ("PYTHONPATH", "evil"),
        ("PYTHONSTARTUP", "evil.py"),
        ("CXX", "/tmp/evil"),
        ("TRITON_PTXAS_PATH", "/tmp/evil"),
        ("TORCHINDUCTOR_CACHE_DIR", "evil"),
        ("TORCHINDUCTOR_CUTLASS_DIR", "evil"),
        ("TORCHINDUCTOR_X", "/etc/passwd"),
        ("TORCHINDUCTOR_X\nLD_PRELOAD", "evil.so"),
        ("TORCHINDUCTOR_X=1\0LD_PRELOAD", "evil.so"),
        ("TORCHINDUCTOR_=", "evil"),
        ("TORCHINDUCTOR_X", "1\nLD_PRELOAD=evil.so"),
        ("TORCHINDUCTOR_X", "1\0"),
        ("TORCHINDUCTOR_X", "\x1b[2J"),
        ("TORCHINDUCTOR_X", "\ud800"),
        ("ATEN_CPU_CAPABILITY", "avx2\nLD_PRELOAD=evil.so"),
        ("CXX", "g++\nLD_PRELOAD=evil.so"),
        ("", "evil"),
    ],
)
def test_a_record_may_set_nothing_else(name, value):
    raw = json.dumps(make_record(contract={name: value}).to_json()).encode()
    with pytest.raises(IntegrityError, match="the artifact's record would set"):
        parse_record(raw)


def test_the_key_names_what_a_build_would_make():
    keys = {
        build_key("sha256:a", "v1", Facts(CPU)),
        build_key("sha256:b", "v1", Facts(CPU)),
        build_key("sha256:a", "v2", Facts(CPU)),
        build_key("sha256:a", "v1", Facts(H100)),
        build_key("sha256:a", "v1", Facts(CPU), "sha256:image"),
    }
    assert len(keys) == 5
    same_cache = Facts(CPU, device_count=8, driver="580.1", cpu_model="Example CPU")
    assert build_key("sha256:a", "v1", same_cache) == build_key("sha256:a", "v1", Facts(CPU))


def test_a_kind_that_is_not_known_yet_is_no_reason_to_refuse():
    record = RECORD._replace(kinds={"flashinfer": KindSummary(1, 2)})
    assert parse_record(encode(record.to_json())) == record
