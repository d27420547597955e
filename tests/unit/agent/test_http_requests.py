"""Requests as they go over the wire, and what a server's answers say about its readiness."""

import email
import hashlib
import http.client
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from glowplug.agent.http_requests import Client, ask, encode, is_listening, judge

ANY = {"url": "http://x"}


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent; `/slow` never does, `/broken` stops half-way, `/stream` sends chunks."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.path == "/slow":
            self.rfile.read()
        elif self.path == "/broken":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
        elif self.path == "/stream":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in (b"data: 1\n\n", b"data: 2\n\n", b""):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        else:
            self.echo()

    def echo(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = json.dumps([self.command, self.path, dict(self.headers), body.decode("latin-1")]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = echo  # noqa: N815 - the name is the base class's


@pytest.fixture(scope="module")
def origin():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def send(origin, request, uploads=""):
    headers, body = encode(request, uploads)
    answer = Client(origin).send(request["method"], request["path"], headers, body)
    return json.loads(answer.body)


def test_a_request_without_a_body(origin):
    method, path, headers, body = send(origin, {"method": "GET", "path": "/a?b=%20c"})
    assert (method, path, body) == ("GET", "/a?b=%20c", "")
    assert headers["Connection"] == "close"
    assert headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("request_body", "content_type", "sent"),
    [
        ({"json": {"a": "é"}}, "application/json", '{"a": "\\u00e9"}'),
        ({"json": None}, "application/json", "null"),
        ({"body": "a cat"}, "text/plain; charset=utf-8", "a cat"),
        ({"form": {"a": "b c", "n": 1, "x": True}}, "application/x-www-form-urlencoded", "a=b+c&n=1&x=true"),
    ],
)
def test_bodies(origin, request_body, content_type, sent):
    _, _, headers, body = send(origin, {"method": "POST", "path": "/", **request_body})
    assert (headers["Content-Type"], body) == (content_type, sent)
    assert headers["Content-Length"] == str(len(sent))


def test_files_go_as_a_multipart_form(origin, tmp_path):
    content = b"\x89PNG\r\n--not a boundary--"
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / f"sha256-{digest}").write_bytes(content)
    files = {"image": {"path": 'a/my "cat".png', "digest": f"sha256:{digest}"}}
    request = {"method": "POST", "path": "/", "form": {"prompt": "é", "n": 2}, "files": files}
    _, _, headers, body = send(origin, request, tmp_path)
    message = email.message_from_bytes(
        f"Content-Type: {headers['Content-Type']}\r\n\r\n{body}".encode("latin-1")
    )
    parts = {part.get_param("name", header="Content-Disposition"): part for part in message.get_payload()}
    assert parts["prompt"].get_payload(decode=True).decode() == "é"
    assert parts["n"].get_payload() == "2"
    assert parts["image"].get_payload(decode=True) == content
    assert parts["image"].get_content_type() == "image/png"
    assert parts["image"].get_filename() == "my %22cat%22.png"


def test_a_streamed_answer_is_read_to_its_end(origin):
    assert Client(origin).send("GET", "/stream", {}, None).body == b"data: 1\n\ndata: 2\n\n"


def test_half_an_answer_is_none(origin):
    with pytest.raises(http.client.IncompleteRead):
        Client(origin).send("GET", "/broken", {}, None)


def test_a_request_can_be_broken_off(origin):
    client = Client(origin)
    timer = threading.Timer(0.2, client.abort)
    timer.start()
    with pytest.raises((OSError, http.client.HTTPException)):
        client.send("GET", "/slow", {}, None)
    timer.join()


@pytest.mark.parametrize(
    ("ready", "status", "body", "state"),
    [
        (ANY, 200, b"", "ready"),
        (ANY, 204, b"", "ready"),
        (ANY, 503, b"", "it answers 503"),
        (ANY, 302, b"", "it answers 302"),
        (ANY, 200, b'{"status": "READY"}', "ready"),
        (ANY, 200, b'{"status": "STARTING"}', "its status is 'starting'"),
        (ANY, 200, b'{"status": "SETUP_FAILED"}', "failed"),
        (ANY, 200, b'["not", "an object"]', "ready"),
        ({"status": 418}, 418, b"", "ready"),
        ({"status": 418}, 200, b"", "it answers 200"),
        ({"json": {"a": {"b": 1}}}, 200, b'{"a": {"b": 1, "c": 2}}', "ready"),
        ({"json": {"a": 1}}, 200, b'{"a": true}', 'it answers {"a": true}'),
        ({"json": {"a": 1}}, 200, b"no json", "it answers null"),
        ({"json": {"a": 1}}, 503, b'{"a": 1}', "it answers 503"),
        ({"json": {"status": "READY"}}, 200, b'{"status": "DEFUNCT"}', "failed"),
    ],
)
def test_what_an_answer_says_about_readiness(ready, status, body, state):
    assert judge(ready, status, body) == state


def test_asking_a_server(origin):
    assert ask({"url": origin}) == "ready"
    assert ask({"url": origin.replace("http", "tcp")}) == "ready"
    assert is_listening(origin)


def test_asking_nobody():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert ask({"url": f"tcp://{address}"}) == "nothing accepts a connection there"
        assert "Connection refused" in ask({"url": f"http://{address}"})
        assert not is_listening(f"http://{address}")
