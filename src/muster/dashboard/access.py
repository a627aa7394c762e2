"""Who may see the pages: the first browser that opens the address which the terminal prints.

The address has a token that is valid once. Its first reader gets a cookie, so a copy of the address is of no
use to another user of the machine, and neither the history of the browser nor the title of its process has
what opens the pages. Requests must name this server as their host: a page of another origin whose name is
changed to this address (DNS rebinding) reads nothing.

A request that changes something is a form of these pages: it has a token which only they know, so that no
page of another origin can send one (cross-site request forgery).
"""

import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from hmac import compare_digest, digest
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

#: Cookies of all ports of a host are sent to each of them, so the name has the port.
_COOKIE: Final = "muster-dashboard-{port}"
#: Bytes and fields of a form at most.
FORM_BYTES: Final = 1 << 20
FORM_FIELDS: Final = 64
#: The field of a form with the viewer's token.
FORM: Final = "form"
#: Headers of each answer. No page may frame these, run a script of another origin, or be kept in a cache.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # with no-referrer, browsers would send forms with "Origin: null"
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
}


class Answer(Enum):
    """What a request gets."""

    PAGE = "page"
    #: a cookie, and then the page, without the token in its address
    COOKIE = "cookie"
    WRONG_HOST = "wrong host"
    NO_ACCESS = "no access"


@dataclass(frozen=True, slots=True)
class Sight:
    """What a viewer may see."""

    #: the namespaces whose jobs; None: all
    namespaces: frozenset[str] | None = None
    nodes: bool = True
    queues: bool = True

    @property
    def whole(self) -> bool:
        return self.namespaces is None and self.nodes and self.queues


async def _everything(namespaces: Collection[str]) -> Sight:
    return Sight()


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Viewer:
    """A browser that has access."""

    #: the token of its forms
    form: str
    #: who it is; "": the only user
    name: str = ""
    #: what it may see, of the namespaces that there are
    sight: Callable[[Collection[str]], Awaitable[Sight]] = _everything
    #: whether it has access still
    stays: Callable[[], Awaitable[bool]] = _always
    #: the user's bearer token, with which the API server is asked for what only it may permit
    token: str = field(default="", repr=False)

    @staticmethod
    def form_of(session: str) -> str:
        """The token of the forms of the viewer with this secret, which cannot be told from it."""
        return digest(session.encode(), b"forms of muster's pages", sha256).hex()

    def sent(self, headers: Mapping[str, str], form: Mapping[str, str]) -> bool:
        """Whether a form is of a page that this viewer was shown. Its origin must be the request's host."""
        origin = headers.get("origin", "").removeprefix("https://").removeprefix("http://")
        same = bool(origin) and origin == headers.get("host")
        return compare_digest(form.get(FORM, "").encode(), self.form.encode()) and same


async def form_of(request: Request) -> dict[str, str] | str:
    """The first value of each field of a form; or what is wrong with it."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return "It must be application/x-www-form-urlencoded."
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            return f"It has more than {FORM_BYTES >> 20} MiB."
    try:
        return first_values(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS))
    except ValueError:  # no UTF-8, or too many fields
        return f"It has more than {FORM_FIELDS} fields, or is not UTF-8."


def first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first value of each parameter of a query, or field of a form."""
    found: dict[str, str] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


class Access:
    """Decides about requests. `token` is the one of the address; it is valid once."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._name = _COOKIE.format(port=port)
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._used = False
        self.viewer = Viewer(Viewer.form_of(self._session))

    def judge(self, headers: Mapping[str, str], token: str | None) -> Answer:
        """`headers`: of the request, with names in lower case. `token`: the one in its address."""
        if headers.get("host", "") not in self._hosts:
            return Answer.WRONG_HOST
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return Answer.WRONG_HOST
        if compare_digest(self._cookie(headers.get("cookie", "")).encode(), self._session.encode()):
            return Answer.COOKIE if token is not None else Answer.PAGE
        if token is None or self._used or not compare_digest(token.encode(), self.token.encode()):
            return Answer.NO_ACCESS
        self._used = True
        return Answer.COOKIE

    @property
    def cookie(self) -> str:
        """The value of a `Set-Cookie` header."""
        return f"{self._name}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def _cookie(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self._name)
        except CookieError:
            return ""
        return found.value if found is not None else ""
