"""From what the engine says to what a person needs to know: one sentence and the next step.

The patterns are what dockerd 20.10 to 29, containerd, runc and the NVIDIA Container Toolkit really write; the tests
provoke what can be provoked without their hardware.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glowplug.errors import (
    DeniedError,
    EngineError,
    GlowplugError,
    ModelRunError,
    NotFoundError,
    UnavailableError,
)

_COMMAND_NOT_FOUND = 127
_COMMAND_NOT_STARTED = 126


@dataclass(frozen=True)
class Refusal:
    """Something the engine did not do.

    Attributes:
        doing: what it was asked, after "cannot": ``start the container``.
        image: the image it was about.
        message: the engine's answer.
        pulling: whether it spoke for a registry.
    """

    doing: str
    image: str
    message: str
    pulling: bool = False


@dataclass(frozen=True)
class _Rule:
    pattern: str
    error: type[GlowplugError]
    sentence: str
    hint: str
    pulling_only: bool = False


_ARCHITECTURE_HINT = "build the image for the engine's architecture, or build on a machine of the image's"
_DRIVER_HINT = (
    "run nvidia-smi on the engine's machine; install its NVIDIA driver, or leave out run.docker.gpus"
)
_COMMAND_HINT = "name what the image has: its Python in run.interpreter, or the program in run.command"

# The first that matches speaks. {image} is the image, {0} the first group of the pattern.
_RULES = (
    _Rule(
        r"no space left on device|disk quota exceeded",
        EngineError,
        "the Docker engine's disk is full",
        "'docker system df' shows what takes the room, 'docker image prune' removes unused images",
    ),
    _Rule(
        r'could not select device driver "cdi"|CDI device injection failed|unresolvable CDI devices',
        EngineError,
        "the Docker engine does not know the devices of run.docker.gpus: {message}",
        "'nvidia-ctk cdi list' on the engine's machine lists them; the engine has to have CDI switched on",
    ),
    _Rule(
        r'could not select device driver ".*?" with capabilities|unknown or invalid runtime name: nvidia',
        EngineError,
        "the Docker engine cannot hand a GPU to a container: the NVIDIA Container Toolkit is missing there",
        "install nvidia-container-toolkit on the engine's machine, run 'nvidia-ctk runtime configure "
        "--runtime=docker' and restart the engine; or leave out run.docker.gpus",
    ),
    _Rule(
        r"unsatisfied condition: (.+?)(?:, please| *\(|\\n|\n|: unknown|$)",
        EngineError,
        "the NVIDIA driver of the engine's machine is too old for {image}, which requires {0}",
        "update the driver, or use an image of an older CUDA",
    ),
    _Rule(
        r"libnvidia-ml\.so|driver not loaded|driver/library version mismatch|nvml error|nvidia-smi: not found",
        EngineError,
        "the engine's machine has no working NVIDIA driver",
        _DRIVER_HINT,
    ),
    _Rule(
        r"device error: (.+?): (?:unknown device|not found)|(?:unknown|no such) device: (\S+)",
        EngineError,
        "the engine's machine has no GPU {0}, which run.docker.gpus asks for",
        "'nvidia-smi -L' on the engine's machine lists its GPUs and MIG devices",
    ),
    _Rule(
        r"no matching manifest for (.+?) in the manifest list|does not match the specified platform|"
        r"no match for platform|image operating system",
        EngineError,
        "{image} is not made for the architecture of the Docker engine's machine",
        _ARCHITECTURE_HINT,
    ),
    _Rule(
        r"exec format error",
        EngineError,
        "the programs in {image} are not made for the architecture of the Docker engine's machine",
        _ARCHITECTURE_HINT,
    ),
    _Rule(
        r"docker-init",
        EngineError,
        "the Docker engine has no init program to put into a container",
        "install docker-init or tini on the engine's machine, or write run.docker.init: false",
    ),
    _Rule(
        r'exec: \\?"(.+?)\\?": (?:.*?)(?:permission denied|is a directory)',
        EngineError,
        "{image} does not let its user run {0}",
        _COMMAND_HINT,
    ),
    _Rule(
        r'exec: \\?"(.+?)\\?": (?:executable file not found|stat)',
        EngineError,
        "{image} has no program {0}",
        _COMMAND_HINT,
    ),
    _Rule(
        r"unable to find user (.+?): |no matching entries in (?:passwd|group) file",
        EngineError,
        "the USER of {image} is not in its /etc/passwd",
        "mend the USER line of its Dockerfile",
    ),
    _Rule(
        r"network (\S+) not found|could not find network (\S+)",
        EngineError,
        "the Docker engine has no network {0}",
        "'docker network ls' lists them; correct run.docker.network",
    ),
    _Rule(
        r"network-scoped|bridge.*not (?:found|available)|could not find an available.*address pool|"
        r"failed to create endpoint|network bridge not found",
        EngineError,
        "the Docker engine cannot make a network for the container: {message}",
        "write run.docker.network: host, or the name of a network that it has",
    ),
    _Rule(
        r"bind source path does not exist: (\S+)",
        EngineError,
        "the engine's machine has no folder {0}, which run.docker.volumes names",
        "a path is looked for where the engine runs, which may be another machine than this one",
    ),
    _Rule(
        r"invalid mount|mount config|invalid volume|includes invalid characters for a local volume name",
        EngineError,
        "the Docker engine refuses run.docker.volumes: {message}",
        "write NAME:/PATH or /PATH:/PATH, and :ro after it for a folder that is only read",
    ),
    _Rule(
        r"invalid reference format|repository name .*must be lowercase|could not parse reference",
        EngineError,
        "{image} is no name of an image",
        "correct run.image; an image is called like ghcr.io/acme/flux:v3",
    ),
    _Rule(
        r"pull access denied|access to the resource is denied|unauthorized|authentication required|"
        r"no basic auth credentials|\bdenied\b|403 Forbidden|401 Unauthorized",
        DeniedError,
        "the registry does not hand out {image}; either these credentials may not read it, or it does not exist",
        "log in with 'docker login', and look for a misspelt name in run.image",
        pulling_only=True,
    ),
    _Rule(
        r"manifest unknown|manifest for .* not found|not found|does not exist|name unknown|NAME_UNKNOWN",
        NotFoundError,
        "there is no image {image}",
        "look for a misspelt name or tag in run.image, or push the image first",
        pulling_only=True,
    ),
    _Rule(
        r"no such host|dial tcp|connection re|i/o timeout|timeout|deadline exceeded|x509|tls:|EOF|"
        r"server gave HTTP response|toomanyrequests|too many requests|rate limit|50\d|failed to resolve",
        UnavailableError,
        "the registry of {image} cannot be reached from the Docker engine: {message}",
        "the engine pulls the image itself: try 'docker pull' there, and see its proxy and its registries",
        pulling_only=True,
    ),
)


def explain(refusal: Refusal) -> GlowplugError:
    """Return the error that says what a refusal means."""
    message = " ".join(refusal.message.split())
    for rule in _RULES:
        if rule.pulling_only and not refusal.pulling:
            continue
        match = re.search(rule.pattern, refusal.message, re.IGNORECASE)
        if match:
            named = next((group for group in match.groups() if group), "")
            sentence = rule.sentence.format(named, image=refusal.image, message=message)
            return rule.error(sentence, hint=rule.hint)
    return EngineError(
        f"the Docker engine cannot {refusal.doing}: {message}", hint="'docker info' shows whether it is well"
    )


def explain_unreachable(host: str, said: str) -> EngineError:
    """Return the error for an engine that does not answer at ``host``; ``said`` is what connecting gave."""
    if "Permission denied" in said or "PermissionError" in said:
        return EngineError(
            f"this user may not use the Docker engine at {host}",
            hint="add the user to the group docker and log in again, or set DOCKER_HOST to an engine of its own",
        )
    if re.search(r"certificate|SSL|TLS", said):
        return EngineError(
            f"no trusted connection to the Docker engine at {host}: {said}",
            hint="DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say which certificates are used",
        )
    reason = next(
        (why for pattern, why in _UNREACHABLE if re.search(pattern, said, re.IGNORECASE)), said or "no answer"
    )
    return EngineError(
        f"no Docker engine answers at {host}: {reason}",
        hint="start it ('systemctl start docker'), or set DOCKER_HOST; without run.image the model runs here",
    )


_UNREACHABLE = (
    (r"No such file|FileNotFoundError", "there is no such socket"),
    (r"refused", "the connection is refused"),
    (r"timed out|timeout", "it is silent"),
    (r"Name or service not known|name resolution|getaddrinfo", "the name is not known"),
)


def explain_exit(image: str, status: int, log_tail: str, *, out_of_memory: bool) -> GlowplugError | None:
    """Return the error behind a container's exit status, ``None`` where the status speaks for itself.

    Args:
        image: the image.
        status: the exit status, 0 to 255.
        log_tail: the end of what the container printed.
        out_of_memory: whether the kernel killed a process for want of memory (State.OOMKilled).
    """
    if status == 0:
        return None
    if out_of_memory:
        return ModelRunError(
            "the model needed more memory than its container may use, and was killed",
            hint="give the engine's machine or its cgroup more memory, or warm smaller inputs",
        )
    if "exec format error" in log_tail:
        return explain(Refusal("run the command", image, "exec format error"))
    if status in (_COMMAND_NOT_FOUND, _COMMAND_NOT_STARTED):
        # A shell or an init process that is the entrypoint could not find the command, and said so.
        match = re.search(r"exec:? (\S+?):? (?:failed|not found)|(\S+): (?:command )?not found", log_tail)
        if match:
            return EngineError(f"{image} has no program {match[1] or match[2]}", hint=_COMMAND_HINT)
    return None
