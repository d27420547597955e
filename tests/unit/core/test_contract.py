from pathlib import Path

import pytest

from glowplug.core.compiler_env import DIAGNOSTICS, RECORDED, REDIRECTIONS
from glowplug.core.contract import CONFIDENTIAL, CONTRACT, environment_contract, recorded, scrub, why_dropped
from glowplug.core.target import Target

DOCS = Path(__file__).parents[3] / "docs"

CPU = Target(
    device_kind="cpu",
    device_name="cpu",
    device_arch="avx512_vnni",
    os="linux",
    machine="x86_64",
    libc="glibc-2.36",
    python="3.11",
    torch="2.13.0+cpu",
    accelerator="",
    triton="",
)
H100 = CPU._replace(
    device_kind="cuda", device_name="NVIDIA H100 80GB HBM3", device_arch="sm_90", accelerator="13.0"
)


@pytest.mark.parametrize(
    ("target", "capability", "march"),
    [
        (CPU, "avx512", "x86-64-v4"),
        (CPU._replace(device_arch="avx512_vnni_bf16_amx"), "avx512", "x86-64-v4"),
        (CPU._replace(device_arch="avx2"), "avx2", "x86-64-v3"),
        (CPU._replace(device_arch="default"), "default", "x86-64"),
        (H100, "avx2", "x86-64-v3"),
        (H100._replace(device_kind="rocm", device_arch="gfx942"), "avx2", "x86-64-v3"),
        (CPU._replace(machine="aarch64", device_arch="sve128_sve2"), None, "armv8-a"),
        (H100._replace(machine="aarch64"), None, "armv8-a"),
        (CPU._replace(machine="ppc64le", device_arch="default"), None, None),
    ],
)
def test_instruction_set_follows_the_target(target, capability, march):
    settings = environment_contract(target)
    assert settings.get("ATEN_CPU_CAPABILITY") == capability
    assert settings.get("TORCHINDUCTOR_CPP_MARCH") == march


def test_the_other_settings_hold_for_every_target():
    for target in (CPU, H100, H100._replace(machine="aarch64")):
        settings = environment_contract(target)
        settings.pop("ATEN_CPU_CAPABILITY", None)
        settings.pop("TORCHINDUCTOR_CPP_MARCH", None)
        assert settings == {
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            "TORCHINDUCTOR_VEC_ISA_OK": "1",
            "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1",
            "TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING": "0",
            "TORCHINDUCTOR_KEEP_STATIC_CUBIN_RAW": "1",
            "TRITON_CACHE_AUTOTUNING": "1",
        }


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "GITHUBTOKEN",
        "TRITON_REMOTE_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL",
        "MY_SECRET",
        "DJANGO_SECRET_KEY",
        "CI_REGISTRY_PASSWORD",
        "PGPASSWORD",
        "DB_PASS",
        "DB_PWD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "OPENAI_API_KEY",
        "OPENAI_APIKEY",
        "SSH_PRIVATE_KEY",
        "AWS_ACCESS_KEY_ID",
        "DOCKER_AUTH_CONFIG",
        "SSH_AUTH_SOCK",
        "SENTRY_DSN",
        "CI_JOB_JWT",
        "SLACK_WEBHOOK_URL",
        "AZURE_STORAGE_CONNECTION_STRING",
        "npm_config_auth_token",
    ],
)
def test_a_name_like_a_secret_s_does_not_reach_a_capture(name):
    assert scrub({name: "x", "LANG": "C"}) == ({"LANG": "C"}, (name,))
    assert scrub({name: "x"}, secrets_allowed=[name]) == ({name: "x"}, ())


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "MAX_NEW_TOKENS",
        "VLLM_MAX_NUM_BATCHED_TOKENS",
        "GIT_AUTHOR_NAME",
        "PWD",
        "OLDPWD",
        "PATH",
        "LLVM_PASS_PLUGIN_PATH",
        "TORCH_COMPILE_CACHE_KEY_TAG",
        "PYTHONHASHSEED",
        "CUDA_VISIBLE_DEVICES",
        "CI",
    ],
)
def test_an_ordinary_name_reaches_a_capture(name):
    assert scrub({name: "1"}) == ({name: "1"}, ())


@pytest.mark.parametrize(
    "value",
    [
        "http://user:pass@proxy:3128",
        "postgres://:pass@db/app",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "ghp_" + "a" * 36,
        "glpat-abcdefgh",
        "hf_" + "a" * 34,
        "AKIA" + "A" * 16,
    ],
)
def test_a_value_like_a_secret_s_does_not_reach_a_capture(value):
    assert scrub({"PLAIN": value}) == ({}, ("PLAIN",))


def test_ordinary_values_reach_a_capture():
    environ = {"HTTPS_PROXY": "http://proxy:3128", "LANG": "sk_SK.UTF-8", "HOME": "/home/user@corp"}
    assert scrub(environ) == (environ, ())


def test_a_capture_decides_where_caches_are():
    environ = {
        "TRITON_HOME": "/data",
        "TORCHINDUCTOR_CACHE_DIR": "/data/i",
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "1",
        "ACME_CACHE": "/data/a",
    }
    assert scrub(environ, secrets_allowed=list(environ), redirections=["ACME_CACHE"]) == (
        {},
        tuple(sorted(environ)),
    )


def test_what_enters_a_key_is_recorded():
    environ = {
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
        "TORCH_COMPILE_CACHE_KEY_TAG": "blue",
        "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1",
        "TRITON_F32_DEFAULT": "ieee",
        "ENABLE_PERSISTENT_TMA_MATMUL": "1",
        "CXX": "g++-12",
    }
    assert (
        recorded({**environ, "HOME": "/home/user", "OMP_NUM_THREADS": "4", "TORCH_LOGS": "dynamo"}) == environ
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCHINDUCTOR_CPP_MARCH", "native"),  # the contract's
        ("TORCHINDUCTOR_COMPILE_THREADS", "8"),  # in no key
        ("TORCHINDUCTOR_CACHE_DIR", "cache"),
        ("TORCHINDUCTOR_CK_DIR", "ck"),
        ("TORCHINDUCTOR_SOME_FILE", "/srv/file"),
        ("TORCHINDUCTOR_DEBUG_FUSION", "1"),
        ("TORCHINDUCTOR_REDIS_PASSWORD", "canary"),
        ("TORCHINDUCTOR_FUTURE_TOKEN", "canary"),
        ("TORCH_COMPILE_DEBUG", "1"),
        ("CXX", "/usr/bin/g++"),
        ("CI", "true"),
    ],
)
def test_neither_paths_nor_secrets_nor_log_settings_are_recorded(name, value):
    assert recorded({name: value}) == {}


def test_every_variable_has_one_role():
    contract = {setting.name for setting in CONTRACT}
    sets = (contract, RECORDED, DIAGNOSTICS, REDIRECTIONS)
    assert len(frozenset().union(*sets)) == sum(map(len, sets))
    assert [name for name in RECORDED | contract if why_dropped(name, "1")] == []
    assert [name for name in DIAGNOSTICS | REDIRECTIONS if why_dropped(name, "1") == CONFIDENTIAL] == []


def test_the_reference_lists_the_contract_and_every_name():
    page = (DOCS / "reference/environment.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{s.name}` | {s.values} | {s.why} | `{s.source}` |" for s in CONTRACT]
    missing = [name for name in RECORDED | DIAGNOSTICS | REDIRECTIONS if f"`{name}`" not in page]
    assert missing == []
