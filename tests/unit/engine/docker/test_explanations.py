"""What engines really write, and what becomes of it; what can be provoked here is tests/integration/docker's."""

import re

import pytest

from glowplug.engine.docker.explanations import Refusal, explain, explain_exit, explain_unreachable
from glowplug.errors import DeniedError, EngineError, ModelRunError, NotFoundError, UnavailableError

IMAGE = "ghcr.io/acme/flux:v3"
RUNC = "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "

STARTING = [
    ("write /var/lib/docker/tmp/x: no space left on device", "disk is full", "docker system df"),
    (
        'could not select device driver "" with capabilities: [[gpu]]',
        "Container Toolkit is missing",
        "nvidia-ctk",
    ),
    (
        'could not select device driver "nvidia" with capabilities: [[gpu]]',
        "Container Toolkit is missing",
        "nvidia-ctk",
    ),
    ('could not select device driver "cdi" with capabilities: []', "does not know the devices", "CDI"),
    (
        f"{RUNC}CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9: unknown",
        "does not know the devices of run.docker.gpus: .*nvidia.com/gpu=9",
        "nvidia-ctk cdi list",
    ),
    (
        (
            f"{RUNC}error running hook #0: exit status 1, stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: "
            "requirement error: unsatisfied condition: cuda>=12.8, please update your driver: unknown"
        ),
        f"too old for {IMAGE}, which requires cuda>=12.8$",
        "update the driver",
    ),
    (
        f"{RUNC}nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open: unknown",
        "no working NVIDIA driver",
        "nvidia-smi",
    ),
    (
        f"{RUNC}nvidia-container-cli: device error: GPU-12: unknown device: unknown",
        "has no GPU GPU-12,",
        "nvidia-smi -L",
    ),
    (
        f'{RUNC}exec: "python": executable file not found in $PATH: unknown',
        f"{IMAGE} has no program python$",
        "run.interpreter",
    ),
    (
        f'{RUNC}exec: "/opt/python": stat /opt/python: no such file or directory: unknown',
        "has no program /opt/python$",
        "run.interpreter",
    ),
    (
        f'{RUNC}exec: "/opt/python": permission denied: unknown',
        "does not let its user run /opt/python$",
        "run.interpreter",
    ),
    (
        f'{RUNC}exec: "/sbin/docker-init": stat /sbin/docker-init: no such file',
        "no init program",
        "run.docker.init",
    ),
    (
        f"{RUNC}exec /usr/bin/python: exec format error: unknown",
        "not made for the architecture",
        "architecture",
    ),
    ("unable to find user ghost: no matching entries in passwd file", "USER of", "Dockerfile"),
    ("network build not found", "no network build$", "docker network ls"),
    (
        'invalid mount config for type "bind": bind source path does not exist: /w',
        "no folder /w,",
        "where the engine runs",
    ),
    ("something new", "cannot start a container: something new$", "docker info"),
]


@pytest.mark.parametrize(("said", "sentence", "hint"), STARTING)
def test_a_refusal_to_start_is_explained(said, sentence, hint):
    error = explain(Refusal("start a container", IMAGE, said))
    assert type(error) is EngineError
    assert re.search(sentence, str(error))
    assert hint in error.hint
    assert "\n" not in str(error)


PULLING = [
    (
        "pull access denied for acme/flux, repository does not exist or may require 'docker login'",
        DeniedError,
    ),
    ("denied: requested access to the resource is denied", DeniedError),
    ("unauthorized: authentication required", DeniedError),
    ('Head "https://ghcr.io/v2/acme/flux/manifests/v3": denied: denied', DeniedError),
    ("no basic auth credentials", DeniedError),
    ("manifest unknown: manifest unknown", NotFoundError),
    ("manifest for ghcr.io/acme/flux:v3 not found: manifest unknown", NotFoundError),
    ("dial tcp: lookup ghcr.io on 127.0.0.53:53: no such host", UnavailableError),
    ("dial tcp 127.0.0.1:5000: connect: connection refused", UnavailableError),
    ("net/http: request canceled while waiting for connection (Client.Timeout exceeded)", UnavailableError),
    ("x509: certificate signed by unknown authority", UnavailableError),
    ("http: server gave HTTP response to HTTPS client", UnavailableError),
    ("toomanyrequests: You have reached your pull rate limit", UnavailableError),
    ("received unexpected HTTP status: 503 Service Unavailable", UnavailableError),
    ("no matching manifest for linux/arm64/v8 in the manifest list entries", EngineError),
    ("failed to register layer: no space left on device", EngineError),
]


@pytest.mark.parametrize(("said", "kind"), PULLING)
def test_a_refusal_to_pull_has_its_exit_code(said, kind):
    error = explain(Refusal("pull the image", IMAGE, said, pulling=True))
    assert type(error) is kind


def test_the_same_words_mean_something_else_when_no_registry_speaks():
    assert type(explain(Refusal("start a container", IMAGE, "permission denied: not found"))) is EngineError


@pytest.mark.parametrize(
    ("said", "sentence", "hint"),
    [
        (
            "('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))",
            "no such socket",
            "DOCKER_HOST",
        ),
        ("('Connection aborted.', PermissionError(13, 'Permission denied'))", "may not use", "group docker"),
        (
            "('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))",
            "is refused",
            "systemctl",
        ),
        ("HTTPConnectionPool: Read timed out. (read timeout=10)", "it is silent", "systemctl"),
        (
            "Failed to resolve 'build' ([Errno -2] Name or service not known)",
            "name is not known",
            "DOCKER_HOST",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
            "no trusted connection",
            "DOCKER_CERT_PATH",
        ),
    ],
)
def test_an_engine_that_cannot_be_reached_is_told(said, sentence, hint):
    error = explain_unreachable("unix:///var/run/docker.sock", said)
    assert sentence in str(error)
    assert "unix:///var/run/docker.sock" in str(error)
    assert hint in error.hint


@pytest.mark.parametrize(
    ("status", "log", "sentence"),
    [
        (127, "[FATAL tini (7)] exec python failed: No such file or directory", "has no program python"),
        (127, "/entrypoint.sh: line 2: exec: python: not found", "has no program python"),
        (127, "sh: 1: python: not found", "has no program python"),
        (127, "bash: python: command not found", "has no program python"),
        (255, "exec /usr/bin/python: exec format error", "not made for the architecture"),
    ],
)
def test_what_an_entrypoint_says_of_the_command_is_told(status, log, sentence):
    error = explain_exit(IMAGE, status, log, out_of_memory=False)
    assert sentence in str(error)


@pytest.mark.parametrize(("status", "log"), [(0, "x: not found"), (1, "x: not found"), (127, ""), (137, "")])
def test_other_ends_speak_for_themselves(status, log):
    assert explain_exit(IMAGE, status, log, out_of_memory=False) is None


def test_out_of_memory_is_the_models_failure():
    assert type(explain_exit(IMAGE, 137, "", out_of_memory=True)) is ModelRunError


def test_a_helper_that_was_killed_for_memory_does_not_fail_a_model_that_went_on():
    assert explain_exit(IMAGE, 0, "", out_of_memory=True) is None
