"""Sends requests to the server under test, and asks it whether it is ready.

A stand-alone file for the model's environment: Python 3.9, the standard library. Proxies are not used.
"""

import http.client
import json
import mimetypes
import os
import socket
import ssl
import urllib.parse

_ASK_TIMEOUT_S = 2.0
_MAX_ASKED_BYTES = 1 << 20
_MAX_SHOWN = 200
_BOUNDARY = "glowplug-b3f0c5d86a1e47209d"
# Words of a JSON answer's "status" that stand beside a 2xx all the same: what `glowplug run --ready` knows too.
FAILED = {"setup_failed", "defunct"}
NOT_YET = {"starting", "unhealthy", "initializing", "loading", "pending", "not_ready", "unavailable", "down"}
# The same of an answer to a request.
_NOT_DONE = {"failed", "canceled", "aborted"}


class Answer:
    """What a server answered: its status, what its headers say the body is, and the body to its end."""

    def __init__(self, status, content_type, body):
        self.status = status
        self.content_type = content_type
        self.body = body


class Client:
    """Sends one request at a time, each over a connection of its own, so that no worker of a server is preferred."""

    def __init__(self, origin):
        self._parts = urllib.parse.urlsplit(origin)
        self._connection = None

    def send(self, method, path, headers, body):
        """Return the answer. Raises OSError or http.client.HTTPException when there is none, or only a part of one."""
        connection = self._connection = _connect(self._parts, None)
        try:
            connection.request(method, path, body=body, headers={**headers, "Connection": "close"})
            reply = connection.getresponse()
            return Answer(reply.status, reply.headers.get("Content-Type", ""), reply.read())
        finally:
            self._connection = None
            connection.close()

    def abort(self):
        """Break off the request that another thread waits for; it raises there. One still connecting notices later."""
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _connect(parts, timeout_s):
    if parts.scheme == "https":
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=trusting)
    return http.client.HTTPConnection(parts.netloc, timeout=timeout_s)


def encode(request, uploads):
    """Return the headers and the body of a request; ``uploads`` is the folder that has its files, named by digest."""
    if "json" in request:
        return {"Content-Type": "application/json"}, json.dumps(request["json"]).encode()
    if "body" in request:
        return {"Content-Type": "text/plain; charset=utf-8"}, request["body"].encode()
    form = {name: _form_text(value) for name, value in request.get("form", {}).items()}
    if "files" in request:
        body = b"".join(_parts(form, request["files"], uploads)) + ("--%s--\r\n" % _BOUNDARY).encode()
        return {"Content-Type": "multipart/form-data; boundary=" + _BOUNDARY}, body
    if form:
        return {"Content-Type": "application/x-www-form-urlencoded"}, urllib.parse.urlencode(form).encode()
    return {}, None


def _form_text(value):
    return value if isinstance(value, str) else json.dumps(value)


def _parts(form, files, uploads):
    """Yield the parts of a multipart body (RFC 7578)."""
    for name, text in form.items():
        yield _part('name="%s"' % _quoted(name), "", text.encode())
    for name, file in files.items():
        with open(os.path.join(uploads, file["digest"].replace(":", "-")), "rb") as stream:
            content = stream.read()
        disposition = 'name="%s"; filename="%s"' % (_quoted(name), _quoted(os.path.basename(file["path"])))
        kind = mimetypes.guess_type(file["path"])[0] or "application/octet-stream"
        yield _part(disposition, "Content-Type: %s\r\n" % kind, content)


def _part(disposition, more, content):
    head = "--%s\r\nContent-Disposition: form-data; %s\r\n%s\r\n" % (_BOUNDARY, disposition, more)
    return head.encode() + content + b"\r\n"


def _quoted(text):
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def is_listening(url):
    """Say whether anything takes a connection there."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), _ASK_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def ask(ready):
    """Ask whether the server is ready: ``ready``, ``failed`` (and will never be), or why it is not, in a few words."""
    parts = urllib.parse.urlsplit(ready["url"])
    if parts.scheme == "tcp":
        return "ready" if is_listening(ready["url"]) else "nothing accepts a connection there"
    connection = _connect(parts, _ASK_TIMEOUT_S)
    try:
        connection.request("GET", (parts.path or "/") + ("?" + parts.query if parts.query else ""))
        reply = connection.getresponse()
        return judge(ready, reply.status, reply.read(_MAX_ASKED_BYTES))
    except (OSError, http.client.HTTPException) as error:
        return "it does not answer (%s)" % (str(error) or type(error).__name__)
    finally:
        connection.close()


def judge(ready, status, body):
    """Read an answer as ``ask`` does.

    Without ``json`` and ``status`` of its own a condition asks for 2xx, and a JSON object's ``status`` may contradict.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    wanted = ready.get("status")
    has_status = status == wanted if wanted else 200 <= status < 300
    if "json" in ready and has_status and contains(answer, ready["json"]):
        return "ready"
    word = _status_word(answer)
    if word in FAILED:
        return "failed"
    if not has_status:
        return "it answers %d" % status
    if "json" in ready:
        return "it answers " + json.dumps(answer)[:_MAX_SHOWN]
    return "its status is %r" % word if word in NOT_YET and not wanted else "ready"


def _status_word(answer):
    return str(answer.get("status", "")).lower() if isinstance(answer, dict) else ""


def says_failed(answer):
    """Say whether the JSON of an answer tells of a failure, as Cog's does beside status 200."""
    try:
        return "json" in answer.content_type and _status_word(json.loads(answer.body)) in _NOT_DONE
    except (ValueError, RecursionError):
        return False


def contains(answer, wanted):
    """Say whether an answer has everything that is wanted; an object may have more."""
    if isinstance(wanted, dict):
        return isinstance(answer, dict) and all(
            name in answer and contains(answer[name], value) for name, value in wanted.items()
        )
    return type(answer) is type(wanted) and answer == wanted
