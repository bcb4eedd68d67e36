"""Access control: checks the host name, the method and the token before anything is looked up.

The token is random for every start and printed as the fragment of the address, which browsers do not send. The page
presents it once, and gets a cookie that scripts cannot read and other sites cannot use. Other clients send it as
`Authorization: Bearer`.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Collection
from hashlib import blake2b

from chiplog.views.web.http import PRIVATE, App, Request, Response, json_response

METHODS = ("GET", "HEAD")
GUARDED = "/api/"  # everything below needs the token; the page itself holds nothing about any run

HEADERS = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


class Auth:
    """Wraps an application, and rejects what is not allowed."""

    def __init__(self, app: App, *, token: str, port: int, hosts: Collection[str] = ()) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")} | set(hosts)
        if port == 80:
            self._hosts |= {"localhost", "127.0.0.1", "[::1]"}
        self._cookie = f"chiplog-{port}"
        self._pass = blake2b(token.encode(), digest_size=24, person=b"chiplog cookie").hexdigest()

    async def __call__(self, request: Request) -> Response:
        answer = self._refuse(request)
        if answer is None:
            answer = self._admit() if request.path == "/api/enter" else await self._app(request)
        names = {name for name, _ in answer.headers}
        return answer._replace(headers=(*answer.headers, *(one for one in HEADERS if one[0] not in names)))

    def trusts(self, request: Request) -> bool:
        """Whether a request has the token or the cookie."""
        return self._is_authorized(request)

    def _refuse(self, request: Request) -> Response | None:
        names = [value for name, value in request.headers if name == "host"]
        if len(names) != 1 or names[0] not in self._hosts or not request.target.startswith("/"):
            return refusal(421, "unknown Host header; see --allowed-host")
        if request.method not in METHODS:
            return refusal(405, "read-only server: use GET or HEAD", ("allow", "GET, HEAD"))
        if any(name in ("content-length", "transfer-encoding") and value != "0" for name, value in request.headers):
            return refusal(400, "request bodies are not allowed")
        if request.path.startswith(GUARDED):
            if request.header("sec-fetch-site") not in (None, "same-origin", "none"):
                return refusal(403, "cross-site requests are not allowed")
            if not self._is_authorized(request):
                return refusal(401, "missing or wrong token: open the address that `chiplog ui` printed")
        return None

    def _is_authorized(self, request: Request) -> bool:
        scheme, _, token = (request.header("authorization") or "").partition(" ")
        if scheme.lower() == "bearer":
            return _same(token.strip(), self._token)
        if request.path == "/api/enter":  # a cookie does not grant a new one
            return False
        pairs = (pair.strip().partition("=") for pair in (request.header("cookie") or "").split(";"))
        return any(name == self._cookie and _same(value, self._pass) for name, _, value in pairs)

    def _admit(self) -> Response:
        cookie = f"{self._cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/api/; Max-Age=2592000"
        return Response(204, b"", (("set-cookie", cookie), PRIVATE))


def refusal(status: int, words: str, *headers: tuple[str, str]) -> Response:
    """A response with an error message."""
    return json_response({"error": words}, status, *headers)


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _same(presented: str, secret: str) -> bool:
    return hmac.compare_digest(presented.encode("utf-8", "replace"), secret.encode())
