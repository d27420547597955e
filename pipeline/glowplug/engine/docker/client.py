"""The connection to a Docker engine, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from glowplug.engine.docker.explanations import Refusal, explain, explain_unreachable
from glowplug.errors import EngineError, ToolMissingError

_DEFAULT_HOST = "unix:///var/run/docker.sock"
_PING_TIMEOUT_S = 10
# Making a container copies an image's files where the engine cannot layer them, and large archives take their time.
_ANSWER_TIMEOUT_S = 600


class Client:
    """A Docker engine, as docker-py's low-level client speaks to it.

    Attributes:
        api: ``docker.APIClient``.
        host: how the engine is reached, for people.
        architecture: of its machine, as Go calls it.
    """

    def __init__(self, api: Any, host: str, architecture: str) -> None:
        self.api = api
        self.host = host
        self.architecture = architecture

    def remove_container(self, name: str) -> None:
        """Kill and remove a container and its anonymous volumes; one that is gone, or an engine that is, is no error."""
        import docker.errors  # noqa: PLC0415
        import requests  # noqa: PLC0415

        with suppress(docker.errors.APIError, requests.RequestException):
            self.api.remove_container(name, v=True, force=True)

    @contextmanager
    def asking(self, doing: str, image: str, *, pulling: bool = False) -> Iterator[None]:
        """Turn what docker-py raises in the body into an error that says what could not be done.

        Raises:
            EngineError: the engine refuses, or does not answer any more.
            DeniedError, NotFoundError, UnavailableError: a registry has the last word.
        """
        import docker.errors  # noqa: PLC0415
        import requests  # noqa: PLC0415
        import urllib3  # noqa: PLC0415

        try:
            yield
        except docker.errors.APIError as error:
            raise explain(Refusal(doing, image, error.explanation or str(error), pulling)) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise EngineError(
                f"the Docker engine at {self.host} went away: cannot {doing}",
                hint="see whether it was restarted ('journalctl -u docker'), then build again",
            ) from error
        except docker.errors.DockerException as error:
            raise explain(Refusal(doing, image, str(error), pulling)) from error


@contextmanager
def connect(environ: Mapping[str, str]) -> Iterator[Client]:
    """Connect to the engine that the ``docker`` command would use: DOCKER_HOST, else its current context.

    Raises:
        EngineError: none answers there, or this user may not use it.
        ToolMissingError: docker-py is not installed.
    """
    try:
        import docker  # noqa: PLC0415 (an optional dependency)
        import requests  # noqa: PLC0415
    except ImportError as error:
        raise ToolMissingError(
            "run.image needs the Docker client for Python, which is not installed",
            hint="pip install 'glowplug[build]'",
        ) from error
    host = environ.get("DOCKER_HOST") or _DEFAULT_HOST
    api = None
    try:
        if not environ.get("DOCKER_HOST"):
            context = docker.ContextAPI.get_context(environ.get("DOCKER_CONTEXT"))
            host = (context and context.Host) or _DEFAULT_HOST
        client = docker.DockerClient.from_env(
            environment=dict(environ), timeout=_PING_TIMEOUT_S, use_ssh_client=host.startswith("ssh://")
        )
        api = client.api
        version = api.version()
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        if api is not None:
            api.close()
        raise explain_unreachable(host, str(error)) from error
    api.timeout = _ANSWER_TIMEOUT_S
    try:
        yield Client(api, host, version.get("Arch", ""))
    finally:
        api.close()
