# SPDX-License-Identifier: Apache-2.0
"""The resource manager of a slice, for programs in its slow paths.

The node answers at the abstract Unix socket ``@europa`` of the router's network namespace. It knows
the slice by the namespace, so there is no password. Each function sends one request of the node's
REST interface and returns the answer, decoded from JSON, or raises :class:`Refused`.

    import europa_slice
    port = europa_slice.reserve_port("red", "r1", "tcp", 80)["port"]
"""

import http.client
import json
import socket
from urllib.parse import quote

__all__ = [
    "Refused", "add_rule", "apply", "document", "documents", "free_port", "ports", "read",
    "remove_rules", "request", "reserve_port", "resources", "rules", "whoami", "write",
]

DOOR = "\0europa"
TIMEOUT_S = 30


class Refused(Exception):
    """The node refuses a request. ``status`` is that of HTTP, ``problem`` the body (RFC 9457)."""

    def __init__(self, status, problem):
        detail = problem.get("detail") if isinstance(problem, dict) else None
        super().__init__(detail or f"the node answers {status}")
        self.status = status
        self.problem = problem


class _Door(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        try:
            self.sock.connect(DOOR)
        except OSError:
            self.sock.close()
            raise


def request(method, path, body=None, kind="application/json"):
    """Sends a request: ``body`` is a value for JSON, or a text of the media type ``kind``."""
    door = _Door("europa")
    try:
        headers = {}
        if body is not None:
            headers["content-type"] = kind
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        door.request(method, path, body, headers)
        answer = door.getresponse()
        text = answer.read()
        try:
            value = json.loads(text)
        except ValueError:
            value = {"detail": text.decode(errors="replace")}
        if answer.status >= 300:
            raise Refused(answer.status, value)
        return value
    finally:
        door.close()


def _path(*parts):
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def whoami():
    """Name, roles and origin of this program, as the node sees it."""
    return request("GET", "/v1/whoami")


def resources(slice):
    """What the slice has and may have: a list of name, unit, used and most."""
    return request("GET", _path("slices", slice, "resources"))["items"]


def ports(slice):
    """The ports of the machine that the slice reserves, and where they lead."""
    return request("GET", _path("slices", slice, "machine-ports"))["items"]


def reserve_port(slice, router, protocol, inside, port="any"):
    """Leads a reserved port of the machine to the port ``inside`` of the router's slow path."""
    body = {"protocol": protocol, "port": port, "router": router, "inside": inside}
    return request("POST", _path("slices", slice, "machine-ports"), body)


def free_port(slice, protocol, port):
    """Ends what :func:`reserve_port` has begun."""
    request("DELETE", _path("slices", slice, "machine-ports", protocol, port))


def rules(slice):
    """The rules of the slice, with packets and bytes."""
    return request("GET", _path("slices", slice, "filters"))["filters"]


def add_rule(slice, rule):
    """Adds a rule; returns its number."""
    body = {"add": [{"rule": rule}]}
    return request("POST", _path("slices", slice, "filters"), body)["added"][0]


def remove_rules(slice, *numbers):
    """Removes rules by number."""
    request("POST", _path("slices", slice, "filters"), {"remove": list(numbers)})


def read(slice, router, handler):
    """The text of a handler, such as ``c.count``."""
    return request("GET", _path("routers", slice, router, "handlers", handler))["value"]


def write(slice, router, handler, value=""):
    """Writes a handler; returns its answer."""
    path = _path("routers", slice, router, "handlers", handler)
    return request("PUT", path, {"value": str(value)})["value"]


def documents(kinds="routers"):
    """The slice's objects of a kind, with documents and states."""
    return request("GET", _path(kinds))["items"]


def document(slice, router):
    """The document of a router."""
    return request("GET", _path("routers", slice, router))["document"]


def apply(text, dry_run=False):
    """Applies YAML documents of the slice. Returns the changes."""
    path = "/v1/apply" + ("?dry_run=true" if dry_run else "")
    return request("POST", path, text, "application/yaml")
