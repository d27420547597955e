"""The environment contract: what must be equal where a cache is captured and where it is used.

Torch puts nearly all of Inductor's configuration into its keys, and most of that can be set from the
environment (docs/reference/environment.md). So a variable of the capture is one of four things: set by us
(``CONTRACT``), repeated at the start (``recorded``), taken away (``why_dropped``), or in no key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from glowplug.core.compiler_env import (
    DIAGNOSTICS,
    NOT_IN_A_KEY,
    PATHS,
    RECORDED,
    RECORDED_PREFIXES,
    REDIRECTIONS,
    REMOTE_CACHE,
)
from glowplug.core.target import Target


class Setting(NamedTuple):
    """One variable of the contract.

    Attributes:
        name: the variable.
        value_for: its value for a target, ``None`` where it stays unset.
        values: the possible values, as the documentation shows them.
        why: what goes wrong without it.
        source: where torch or Triton reads it.
    """

    name: str
    value_for: Callable[[Target], str | None]
    values: str
    why: str
    source: str


def _always(value: str) -> Callable[[Target], str | None]:
    return lambda _target: value


def _cpu_level(target: Target) -> str:
    """Return the instruction set that the CPU code of ``target`` may use on x86-64.

    A GPU's target says nothing of the processor beside it: its CPU code keeps to what every GPU server has.
    """
    if target.device_kind != "cpu":
        return "avx2"
    return target.device_arch.partition("_")[0]


def _aten_capability(target: Target) -> str | None:
    # On aarch64 Inductor asks the hardware and knows no value but the one that turns vector code off.
    return _cpu_level(target) if target.machine == "x86_64" else None


def _march(target: Target) -> str | None:
    if target.machine == "aarch64":
        # Only the floor: a vector ISA brings a -march of its own, later on the command line.
        return "armv8-a"
    if target.machine == "x86_64":
        return {"avx512": "x86-64-v4", "avx2": "x86-64-v3"}.get(_cpu_level(target), "x86-64")
    return None


_INDUCTOR = "torch/_inductor/config.py"

CONTRACT: tuple[Setting, ...] = (
    Setting(
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS",
        _always("0"),
        "`0`",
        "Precompiled headers (about 150 MB) live outside the cache folder and are rebuilt in every new "
        "container, even when all kernels are there.",
        _INDUCTOR,
    ),
    Setting(
        "TORCHINDUCTOR_VEC_ISA_OK",
        _always("1"),
        "`1`",
        "Without it every process probes the common instruction sets with a compiler and a child process.",
        "torch/_inductor/cpu_vec_isa.py",
    ),
    Setting(
        "ATEN_CPU_CAPABILITY",
        _aten_capability,
        "x86_64: a CPU target's `avx512`, `avx2` or `default`, a GPU target's `avx2`; aarch64: unset",
        "The instruction set is not in torch's key: code for a higher one is found on a lower one, and the "
        "process dies.",
        "torch/_inductor/cpu_vec_isa.py",
    ),
    Setting(
        "TORCHINDUCTOR_CPP_MARCH",
        _march,
        "x86_64: `x86-64-v4`, `x86-64-v3` or `x86-64`, after the capability above; aarch64: `armv8-a`",
        "The default, `native`, is the same word in every key and other code on every processor.",
        "torch/_inductor/cpp_builder.py",
    ),
    Setting(
        "TORCHINDUCTOR_CPP_DYNAMIC_THREADS",
        _always("1"),
        "`1`",
        "The number of threads is in the key as soon as a tensor may be on the CPU: another core count would "
        "miss.",
        _INDUCTOR,
    ),
    Setting(
        "TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING",
        _always("0"),
        "`0`",
        "Its default is whether `CI` is set, and it is in the AOTAutograd key: a cache from CI would miss "
        "elsewhere.",
        "torch/_functorch/config.py",
    ),
    Setting(
        "TORCHINDUCTOR_KEEP_STATIC_CUBIN_RAW",
        _always("1"),
        "`1`",
        "Entries keep their GPU code; without it they point to files that a new container does not have.",
        _INDUCTOR,
    ),
    Setting(
        "TRITON_CACHE_AUTOTUNING",
        _always("1"),
        "`1`",
        "Triton forgets what `@triton.autotune` measured unless told to store it.",
        "triton/knobs.py",
    ),
)

_CONTRACT_NAMES = frozenset(setting.name for setting in CONTRACT)


def environment_contract(target: Target) -> dict[str, str]:
    """Return the variables to set, before torch is imported, both at the capture and at the start."""
    values = ((setting.name, setting.value_for(target)) for setting in CONTRACT)
    return {name: value for name, value in values if value is not None}


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

CONFIDENTIAL = "looks like a secret"
# Words of a name, between underscores. A plural is a count more often than a credential: MAX_NEW_TOKENS.
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:[A-Z0-9]*(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY)|AUTH|DSN|JWT|WEBHOOK"
    r"|CONNECTION_STRING|(?:API|PRIVATE|ACCESS|SECRET|SIGNING|ENCRYPTION|ACCOUNT)_KEY)(?:_|$)"
    r"|_(?:PASS|PWD|KEY)$"
)
_SECRET_VALUE = re.compile(
    r"://[^/@\s]*:[^/@\s]+@"  # a URL with a password
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|^(?:gh[pousr]_|github_pat_|glpat-|hf_[A-Za-z]{20}|sk-[A-Za-z0-9_-]{20}|xox[abprs]-|AKIA[0-9A-Z]{16}$)"
)


def recorded(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a capture that enter torch's or Triton's keys, to be repeated at the start.

    Secrets, paths and settings of logs are not among them, nor what the contract sets anyway.
    """
    return {name: value for name, value in sorted(environ.items()) if _is_recorded(name, value)}


def _is_recorded(name: str, value: str) -> bool:
    if not _is_one_setting(name, value):
        return False
    if name == "CXX":
        # The command is in the key as it was typed. A path may be missing at the start, and torch gives up.
        return "/" not in value
    if name in _CONTRACT_NAMES or name in NOT_IN_A_KEY or name in PATHS:
        return False
    in_key = name in RECORDED or name.startswith(RECORDED_PREFIXES)
    return in_key and "/" not in value and not why_dropped(name, value)


def scrub(
    environ: Mapping[str, str],
    secrets_allowed: Collection[str] = (),
    redirections: Collection[str] = (),
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Split an environment into what a capture may see and the names of what it may not.

    Torch copies the values of variables with TORCH, DYNAMO, INDUCTOR or TRITON in their names into its cache
    entries (torch/_dynamo/debug_utils.py), and what the model prints may end in a public log.

    Args:
        environ: the environment of whoever asked for the capture.
        secrets_allowed: names to pass on although they look secret, such as the token for the weights.
        redirections: more names that say where a cache is.
    """
    kept: dict[str, str] = {}
    dropped: list[str] = []
    for name, value in environ.items():
        reason = why_dropped(name, value)
        # A name on the list says that the secret is meant, not that a cache may go elsewhere.
        if name in redirections or (reason and not (reason == CONFIDENTIAL and name in secrets_allowed)):
            dropped.append(name)
        else:
            kept[name] = value
    return kept, tuple(sorted(dropped))


def why_dropped(name: str, value: str) -> str:
    """Return why a capture must not see this variable, in a few words; empty when it may."""
    if name in REDIRECTIONS or REMOTE_CACHE.fullmatch(name):
        return "says where a cache is"
    if name in DIAGNOSTICS:
        return "changes a cache key, only to watch the compiler"
    if looks_secret(name, value):
        return CONFIDENTIAL
    return ""


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable's name, or the form of its value, is that of a credential."""
    return bool(_SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value))


def may_be_set(name: str, value: str) -> bool:
    """Return whether an artifact may set this variable at a start: only what a capture could have put there.

    So no artifact can bring ``LD_PRELOAD`` or ``TRITON_PTXAS_PATH`` into a server's environment.
    """
    return _is_recorded(name, value) or (name in _CONTRACT_NAMES and _is_one_setting(name, value))


def _is_one_setting(name: str, value: str) -> bool:
    # Neither a second line for whoever reads NAME=VALUE lines, nor what execve refuses to pass on.
    return _VARIABLE.fullmatch(name) is not None and value.isprintable()
