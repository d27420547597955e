"""A registry that is not there or says no is found out before the model runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from integration.bad_input.project import Project
from integration.services import RegistryService, free_port


@pytest.fixture
def login_page() -> Iterator[str]:
    """A web server that answers everything with a page for people."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>please log in</html>")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def refuses(project: Project, repository: str, code: int, *words: str, **how: object) -> None:
    project.build("--artifact", repository, **how).refused(code, *words)
    assert not project.model_ran
    assert project.untouched()
    project.glowplug("fetch", f"{repository}:v1", "--dest", "out", **how).refused(code, *words)
    project.glowplug("inspect", f"{repository}:v1", **how).refused(code, *words)
    project.glowplug("index", repository, "v1", **how).refused(code, *words)
    assert not (project.folder / "out").exists()


def test_nobody_listens(project: Project) -> None:
    project.build("--artifact", f"127.0.0.1:{free_port()}/acme/cache").refused(10, "Connection refused")
    assert not project.model_ran
    assert project.untouched()


def test_no_such_host(project: Project) -> None:
    project.build("--artifact", "registry.invalid/acme/cache", "--timeout", "2").refused(
        10, "registry.invalid"
    )
    assert not project.model_ran


def test_something_that_is_no_registry(project: Project, login_page: str) -> None:
    refuses(project, f"{login_page}/acme/cache", 10, "no registry", "text/html")


def test_no_login(project: Project, private_registry: RegistryService) -> None:
    refuses(project, f"{private_registry.host}/acme/cache", 11, "docker login", "GLOWPLUG_USERNAME")


def test_a_wrong_password(project: Project, private_registry: RegistryService) -> None:
    login = {"GLOWPLUG_USERNAME": "robot", "GLOWPLUG_PASSWORD": "incorrect horse"}
    outcome = project.build("--artifact", f"{private_registry.host}/acme/cache", env=login)
    outcome.refused(11, private_registry.host)
    assert "incorrect horse" not in outcome.stderr
    assert not project.model_ran


def test_a_login_that_cannot_be_read(project: Project, private_registry: RegistryService) -> None:
    (project.home / ".docker").mkdir()
    (project.home / ".docker" / "config.json").write_text("{")
    outcome = project.build("--artifact", f"{private_registry.host}/acme/cache")
    assert outcome.code in (2, 11), outcome.stderr
    outcome.refused(outcome.code, ".docker/config.json")
    assert not project.model_ran


def test_plain_http_to_another_machine(project: Project) -> None:
    outcome = project.build("--artifact", "192.0.2.1:5000/acme/cache", "--timeout", "1")
    outcome.refused(10, "192.0.2.1:5000")
    assert not project.model_ran
